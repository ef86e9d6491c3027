//! The status of an Investigation: derived from the journal, bounded, written by server-side apply, and in a minimal form when refused.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    agent::{CallOutcome, Entry, Journal},
    api::{EvidenceSummary, Investigation, InvestigationStatus, InvestigatorStatus, JournalRef, Outcome, Phase, Postmortem, StopReason, Usage, Usd},
    investigators::Case,
    report,
    runner::postmortem,
};

/// Bytes of a status. etcd takes far more; a list of a thousand Investigations must stay small.
const MAX_BYTES: usize = 32 * 1024;
/// Characters of a condition's message.
const MESSAGE: usize = 512;
/// Lines of `status.evidence`.
const EVIDENCE: usize = 64;
/// One write.
const DEADLINE: Duration = Duration::from_secs(10);
pub const MANAGER: &str = "inquest-operator";

/// Sets a condition. Its transition time moves only when its status flips.
pub fn condition(conditions: &mut Vec<Condition>, kind: &str, on: bool, reason: &str, message: &str, generation: Option<i64>) {
    let status = if on { "True" } else { "False" };
    let message: String = message.chars().take(MESSAGE).collect();
    let since = conditions.iter().find(|c| c.type_ == kind && c.status == status).map(|c| c.last_transition_time.clone());
    let new = Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: generation,
        last_transition_time: since.unwrap_or_else(|| Time(Timestamp::now())),
    };
    match conditions.iter_mut().find(|c| c.type_ == kind) {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

/// What the run has used, from its journal.
#[must_use]
pub fn usage(journal: &Journal, now: Timestamp) -> Usage {
    let spent = journal.committed();
    let count = |test: fn(&CallOutcome) -> bool| i32::try_from(journal.results().filter(|r| test(&r.outcome)).count()).unwrap_or(i32::MAX);
    Usage {
        steps: i32::try_from(journal.steps()).unwrap_or(i32::MAX),
        tool_calls: i32::try_from(spent.tool_calls).unwrap_or(i32::MAX),
        skipped_calls: count(|o| matches!(o, CallOutcome::Skipped { .. })),
        denied_calls: count(|o| matches!(o, CallOutcome::Evidence { evidence } if evidence.code.as_deref().is_some_and(is_denial))),
        input_tokens: i64::try_from(spent.input_tokens).unwrap_or(i64::MAX),
        cached_tokens: i64::try_from(spent.cached_tokens).unwrap_or(i64::MAX),
        output_tokens: i64::try_from(spent.output_tokens).unwrap_or(i64::MAX),
        cost_usd: Usd::from(spent.cost).0,
        duration: crate::api::Span::of(journal.active(now)).0,
    }
}

/// A guard or the API server said no, as opposed to something that broke.
pub fn is_denial(code: &str) -> bool {
    matches!(code, "forbidden" | "secret_denied" | "invalid_argument" | "unknown_kind" | "unauthenticated") || code.ends_with("_denied")
}

/// Everything that the journal says, on top of what the status held.
pub fn from_journal(object: &Investigation, case: &Case, journal: &Journal, store: &'static str, name: String, now: Timestamp) -> InvestigationStatus {
    let mut status = object.status.clone().unwrap_or_default();
    let generation = object.meta().generation;
    status.observed_generation = generation;
    status.start_time = journal.started().map(Time);
    status.usage = Some(usage(journal, now));
    status.journal_ref = Some(JournalRef { store: store.to_owned(), name });
    status.evidence = journal
        .evidence()
        .take(EVIDENCE)
        .map(|e| EvidenceSummary {
            id: e.id.clone(),
            server: e.server.chars().take(253).collect(),
            tool: e.tool.chars().take(128).collect(),
            summary: e.summary().chars().take(256).collect(),
            bytes: i64::try_from(e.text.len()).unwrap_or(i64::MAX),
            truncated: e.truncated,
        })
        .collect();
    if journal.is_suspended() {
        status.phase = Phase::Suspended;
        condition(&mut status.conditions, "Progressing", false, "Suspended", "spec.suspend is true: set it to false to go on", generation);
        return status;
    }
    let Some((stop, mut post)) = postmortem(case, journal) else {
        status.phase = Phase::Running;
        let (reason, message) = match journal.last().map(|r| &r.entry) {
            Some(Entry::DecisionFailed { reason, error, retry_at: Some(at), .. }) => {
                ("ModelRetry", format!("the model is asked again at {} ({reason}): {error}", at.strftime("%H:%M:%S")))
            }
            _ => ("Running", "the next step is being done".to_owned()),
        };
        condition(&mut status.conditions, "Progressing", true, reason, &message, generation);
        return status;
    };
    status.stop_reason = Some(stop);
    status.completion_time = journal.conclusion().map(|(at, ..)| Time(at));
    status.phase = match (stop, post.outcome) {
        (StopReason::Cancelled, _) => Phase::Cancelled,
        (_, Outcome::RootCauseFound | Outcome::Healthy) => Phase::Concluded,
        (StopReason::Failed, Outcome::Inconclusive) => Phase::Failed,
        (_, Outcome::Inconclusive) => Phase::Inconclusive,
    };
    let used = status.usage.clone().unwrap_or_default();
    let InvestigatorStatus { kind, model, fallback_from } = &status.investigator;
    let by = match (model.is_empty(), fallback_from.is_empty()) {
        (true, true) => kind.clone(),
        (false, true) => format!("{kind} (Model {model})"),
        (_, false) => format!("{kind} (in place of {fallback_from})"),
    };
    post.markdown = report::markdown(&case.question, &post, stop, &used, &by);
    let phase = format!("{:?}", status.phase);
    condition(&mut status.conditions, "Progressing", false, &phase, "the run has ended", generation);
    condition(&mut status.conditions, "Complete", true, &phase, &format!("stopped: {stop:?}. {}", post.summary), generation);
    status.postmortem = Some(post);
    bounded(status)
}

/// Leaves out what is largest and said elsewhere, until it fits.
pub fn bounded(mut status: InvestigationStatus) -> InvestigationStatus {
    let fits = |s: &InvestigationStatus| serde_json::to_string(s).is_ok_and(|t| t.len() <= MAX_BYTES);
    let steps: [fn(&mut Postmortem); 5] = [
        |p| p.timeline.clear(),
        |p| p.contributing.clear(),
        |p| p.chain.truncate(3),
        |p| p.markdown = p.markdown.chars().take(2000).chain("\n…cut: see the journal".chars()).collect(),
        |p| p.chain.clear(),
    ];
    for cut in steps {
        if fits(&status) {
            return status;
        }
        if let Some(post) = &mut status.postmortem {
            cut(post);
        }
    }
    if !fits(&status) {
        status.evidence.truncate(8);
    }
    status
}

#[derive(thiserror::Error, Debug)]
pub enum StatusError {
    /// The Investigation was deleted: there is nobody to tell.
    #[error("the Investigation is gone")]
    Gone,
    #[error("the status cannot be written: {0}")]
    Write(String),
}

/// Writes the status. A status that the API server refuses is written again in a minimal form that says so. Returns whether it was.
pub async fn write(client: &Client, object: &Investigation, status: &InvestigationStatus) -> Result<bool, StatusError> {
    match apply(client, object, status).await {
        Ok(()) => Ok(false),
        Err(kube::Error::Api(refused)) if [400, 413, 422].contains(&refused.code) => {
            tracing::error!(message = refused.message, "the status was refused; a minimal one is written");
            let minimal = minimal(status, &refused.message);
            apply(client, object, &minimal).await.map(|()| true).map_err(explain)
        }
        Err(error) => Err(explain(error)),
    }
}

fn explain(error: kube::Error) -> StatusError {
    match error {
        kube::Error::Api(status) if status.code == 404 => StatusError::Gone,
        other => StatusError::Write(other.to_string()),
    }
}

/// Phase, stop reason and usage; no text that somebody else wrote.
fn minimal(status: &InvestigationStatus, refused: &str) -> InvestigationStatus {
    let mut conditions = status.conditions.clone();
    for c in &mut conditions {
        c.message.clear();
    }
    condition(
        &mut conditions,
        "Degraded",
        true,
        "StatusRefused",
        &format!("the API server refused the full status, which is in the journal: {refused}"),
        status.observed_generation,
    );
    InvestigationStatus {
        observed_generation: status.observed_generation,
        phase: status.phase,
        stop_reason: status.stop_reason,
        conditions,
        start_time: status.start_time.clone(),
        completion_time: status.completion_time.clone(),
        investigator: InvestigatorStatus { kind: status.investigator.kind.clone(), ..InvestigatorStatus::default() },
        usage: status.usage.clone(),
        postmortem: None,
        evidence: vec![],
        journal_ref: status.journal_ref.clone(),
    }
}

/// Writes the status of a ToolServer or a Model.
///
/// # Errors
/// Why it can't be written, for the log.
pub async fn write_other<K, S>(client: &Client, object: &K, status: &S) -> Result<(), String>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + serde::de::DeserializeOwned + Clone + std::fmt::Debug,
    S: serde::Serialize,
{
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let name = object.name_any();
    let patch = json!({"apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": {"name": name}, "status": status});
    match tokio::time::timeout(DEADLINE, api.patch_status(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&patch))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("the status of {} {name} cannot be written: {error}", K::kind(&()))),
        Err(_late) => Err(format!("the status of {} {name} cannot be written: no answer", K::kind(&()))),
    }
}

async fn apply(client: &Client, object: &Investigation, status: &InvestigationStatus) -> kube::Result<()> {
    let api: Api<Investigation> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let patch = json!({
        "apiVersion": Investigation::api_version(&()), "kind": Investigation::kind(&()),
        // The UID: never the status of a new object of the same name.
        "metadata": {"name": object.name_any(), "uid": object.uid()},
        "status": status,
    });
    let params = PatchParams::apply(MANAGER).force();
    let name = object.name_any();
    match tokio::time::timeout(DEADLINE, api.patch_status(&name, &params, &Patch::Apply(&patch))).await {
        Ok(result) => result.map(|_| ()),
        Err(_late) => Err(kube::Error::Service("the API server did not answer in 10 s".into())),
    }
}
