//! One reconcile of one Investigation: admit it, do one step, write its status.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        controller::Action,
        reflector::{ObjectRef, Store},
    },
};

use super::{
    caller::StepCaller,
    endpoints::Health,
    events::Events,
    models::{self, Live, ModelError, Models},
    quota::{OverQuota, QuotaError, Quotas},
    servers::{self, Servers},
    status::{self, StatusError, condition},
};
use crate::{
    agent::{CallOutcome, Caps, CapsError, Control, Entry, Journal, Mind, Spend, ToolRef},
    api::{
        ApprovalDecision, ApprovalPolicy, Fallback, Investigation, InvestigationStatus, InvestigatorStatus, MicroUsd, NamespacedName, Phase, StopReason,
        ToolServer,
    },
    grounding::suspicious,
    identity::Subject,
    investigators::{Case, Investigator, playbook::Playbooks},
    runner::{self, Parts, Stepped, step},
    store::{JournalStore, OpenJournal, RunId, StoreError},
    telemetry::Metrics,
};

/// What waits for somebody else to make something is looked at again so often.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// One that waits for its quota asks the API server for the count each time.
const LOOK_AT_QUOTA: Duration = Duration::from_secs(5);
/// How soon a step in flight sees that its Investigation was suspended or deleted. Under the second that is promised.
const NOTICE: Duration = Duration::from_millis(200);

/// What every reconcile needs.
pub struct Context {
    pub client: Client,
    /// The operator's own namespace.
    pub namespace: String,
    pub store: Arc<dyn JournalStore>,
    pub servers: Servers,
    pub investigations: Store<Investigation>,
    pub tool_servers: Store<ToolServer>,
    pub models: Models,
    pub quotas: Quotas,
    pub playbooks: Arc<Playbooks>,
    pub events: Events,
    pub metrics: Metrics,
    pub health: Health,
}

#[derive(thiserror::Error, Debug)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Status(#[from] StatusError),
    #[error("the API server: {0}")]
    Kube(#[from] kube::Error),
    #[error(transparent)]
    Quota(QuotaError),
}

impl Error {
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Store(error) => error.reason(),
            Self::Status(StatusError::Gone) => "Gone",
            Self::Status(StatusError::Write(_)) => "StatusWriteFailed",
            Self::Kube(_) => "ApiServer",
            Self::Quota(QuotaError::Conflict(_)) => "QuotaConflict",
            Self::Quota(_) => "Quota",
        }
    }
}

/// Why a run can't begin yet, or ever. The message names the field and what would be right.
#[derive(thiserror::Error, Debug)]
enum NotAdmitted {
    #[error("{0}")]
    Caps(#[from] CapsError),
    #[error("spec.modelRef: there is no Model {0}: create it, or leave modelRef out to let the playbooks decide")]
    ModelNotFound(NamespacedName),
    #[error("spec.modelRef: the Model {0} does not allow namespace {1}: extend its spec.allowedNamespaces")]
    ModelNotAllowed(NamespacedName, String),
    #[error("spec.modelRef: the Model {0}: {1}")]
    ModelUnusable(NamespacedName, Box<ModelError>),
    #[error("spec.tools.servers: there is no ToolServer {0}: create it, or correct the name (kubectl get toolservers -A)")]
    ServerNotFound(NamespacedName),
    #[error("spec.tools.servers: the ToolServer {0} does not allow namespace {1}: extend its spec.allowedNamespaces")]
    ServerNotAllowed(NamespacedName, String),
    #[error("{0}")]
    Quota(#[from] OverQuota),
    #[error("no ToolServer allows namespace {0}: kubectl get toolservers -A")]
    NoServer(String),
    #[error("no ToolServer is ready: {0}")]
    ServersNotReady(String),
    #[error("spec.tools leaves no tool of {0}: see spec.tools.allow and deny")]
    NoTool(String),
}

impl NotAdmitted {
    fn reason(&self) -> &'static str {
        match self {
            Self::Caps(_) => "InvalidBudget",
            Self::ModelNotFound(_) => "ModelNotFound",
            Self::ModelNotAllowed(..) => "ModelNotAllowed",
            Self::ModelUnusable(_, error) => error.reason(),
            Self::ServerNotFound(_) => "ToolServerNotFound",
            Self::ServerNotAllowed(..) => "ToolServerNotAllowed",
            Self::Quota(_) => "QuotaExceeded",
            Self::NoServer(_) => "NoToolServer",
            Self::ServersNotReady(_) => "ToolServersNotReady",
            Self::NoTool(_) => "NoTool",
        }
    }
    /// A mistake of the spec itself stays one until the spec changes.
    fn is_final(&self) -> bool {
        matches!(self, Self::Caps(_) | Self::ModelUnusable(..))
    }
}

/// What was found out before the step.
struct Admitted {
    caps: Caps,
    servers: HashMap<String, Arc<ToolServer>>,
    catalogue: Vec<ToolRef>,
    /// Servers that are not ready, each with why.
    missing: Vec<String>,
    model: Option<Decider>,
}

/// The Model that decides the run.
struct Decider {
    live: Live,
    fallback: Fallback,
}

pub async fn reconcile(object: Arc<Investigation>, context: Arc<Context>) -> Result<Action, Error> {
    context.health.turn();
    if !context.health.is_filled() {
        // A cache that is not filled knows nothing of a tool server that is there.
        return Ok(Action::requeue(Duration::from_millis(20)));
    }
    // The trigger may be older than the store: what counts is the newest.
    let Some(object) = context.investigations.get(&ObjectRef::from_obj(object.as_ref())) else { return Ok(Action::await_change()) };
    if object.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    context.metrics.in_flight.inc();
    let result = one(&object, &context).await;
    context.metrics.in_flight.dec();
    match result {
        // Trying again would read or write the same: it is said, and the run ends.
        Err(Error::Store(error @ (StoreError::Corrupt(_) | StoreError::TooLarge(_)))) => broken(&object, &error, &context).await,
        // Deleted while the step was done: its journal goes with it.
        Err(Error::Status(StatusError::Gone)) => Ok(Action::await_change()),
        other => other,
    }
}

/// Ends a run whose journal can't be used.
async fn broken(object: &Investigation, error: &StoreError, context: &Context) -> Result<Action, Error> {
    let mut status = object.status.clone().unwrap_or_default();
    let generation = object.meta().generation;
    (status.phase, status.stop_reason, status.completion_time) = (Phase::Failed, Some(StopReason::Failed), Some(Time(Timestamp::now())));
    condition(&mut status.conditions, "Progressing", false, error.reason(), &error.to_string(), generation);
    condition(&mut status.conditions, "Complete", true, error.reason(), &format!("{error}: create a new Investigation"), generation);
    context.events.publish(object, true, error.reason(), "Journal", error.to_string());
    context.metrics.errors.with_label_values(&[error.reason()]).inc();
    status::write(&context.client, object, &status).await?;
    Ok(Action::requeue(ttl(object)))
}

/// How often a failed reconcile is tried again: a lost race at once, an API server out of reach after a while.
pub fn on_error(object: Arc<Investigation>, error: &Error, context: Arc<Context>) -> Action {
    context.metrics.errors.with_label_values(&[error.reason()]).inc();
    let wait = if matches!(error, Error::Store(StoreError::Fenced) | Error::Quota(QuotaError::Conflict(_))) {
        Duration::from_millis(50)
    } else {
        Duration::from_secs(3)
    };
    tracing::warn!(namespace = object.namespace(), name = object.name_any(), reason = error.reason(), %error, "a step failed and is tried again");
    Action::requeue(wait)
}

async fn one(object: &Arc<Investigation>, context: &Context) -> Result<Action, Error> {
    let held = object.status.clone().unwrap_or_default();
    if held.phase.is_final() {
        return expire(object, &held, context).await;
    }
    if let Some(action) = approval_before(object, &held, context).await? {
        return Ok(action);
    }
    let namespace = object.namespace().unwrap_or_default();
    let case = Case::from_spec(&namespace, &object.spec);
    let run = RunId { namespace: namespace.clone(), name: object.name_any(), uid: object.uid().unwrap_or_default() };
    let mut open = context.store.open(&run).await?;

    let mut admitted = match admit(object, open.journal().started().is_some(), context).await? {
        Ok(admitted) => admitted,
        Err(why) => return not_admitted(object, held, &why, context).await,
    };
    // What it may cost is set aside before it begins, and a budget that is raised later is bounded by what more the quota allows.
    let may_cost = if admitted.model.is_some() { admitted.caps.cost } else { MicroUsd(0) };
    if open.journal().started().is_none() && !object.spec.suspend {
        match context.quotas.admit(object, may_cost, Timestamp::now()).await {
            Ok(()) => {}
            Err(QuotaError::Over(why)) => return not_admitted(object, held, &why.into(), context).await,
            Err(error) => return Err(Error::Quota(error)),
        }
    } else if admitted.model.is_some() {
        admitted.caps.cost = context.quotas.bound(object, may_cost, Timestamp::now()).await;
    }
    let mind = admitted.model.as_ref().map_or(Mind::Rules, |m| Mind::Model { fallback: m.fallback });
    let control = Control { caps: admitted.caps, suspend: object.spec.suspend, cancel: false, mind };
    let left = control.caps.duration.saturating_sub(open.journal().active(Timestamp::now()));
    let subject = Subject { namespace: &run.namespace, name: &run.name, uid: &run.uid, service_account: &object.spec.service_account_name };
    let token = context.servers.token(&subject, format!("{}-{}", run.uid, open.journal().records().len()));
    let mut schemas = vec![];
    if admitted.model.is_some() && open.journal().started().is_none() {
        schemas = context.servers.schemas(&admitted.servers, &admitted.catalogue, token.as_ref()).await;
    }
    let tools = StepCaller { servers: context.servers.clone(), known: admitted.servers.clone(), token, left };
    let investigator: &dyn Investigator = context.playbooks.as_ref();
    let model = admitted.model.as_ref().map(|m| runner::Model { chat: &m.live.chat, caller: m.live.caller.as_ref() });
    let parts = Parts { case: &case, control, investigator, model, tools: &tools, catalogue: &admitted.catalogue, schemas: &schemas };
    let before = open.journal().records().len();
    let outcome = tokio::select! {
        outcome = step(open.as_mut(), &parts, &Timestamp::now) => Some(outcome?),
        () = interrupted(object, context) => None,
        // The deadline cuts a step short; the next pass sees it, and answers. A run whose time is over only concludes, uncut.
        () = tokio::time::sleep(left), if !left.is_zero() => None,
    };
    let Some(stepped) = outcome else {
        // Dropped in the middle: what was reserved stays reserved, and what was not settled is asked again.
        return Ok(Action::requeue(Duration::ZERO));
    };

    if let (Stepped::Later(wait), true) = (stepped, open.journal().records().len() == before && held.phase == Phase::Running) {
        // It waits for its turn or for the model: nothing is new.
        return Ok(Action::requeue(wait));
    }
    let mut status = status::from_journal(object, &case, open.journal(), context.store.kind(), open.name(), Timestamp::now());
    status.investigator = decided_by(&admitted, open.journal(), investigator.kind());
    let generation = object.meta().generation;
    condition(&mut status.conditions, "Accepted", true, "Accepted", "the spec is valid and its tools are there", generation);
    degraded(&mut status, &admitted, open.journal(), generation);
    if stepped == Stepped::Finished {
        context.quotas.settle(object, open.journal().committed().cost, Timestamp::now()).await.map_err(Error::Quota)?;
        // The Markdown names the investigator, which is known only now.
        status = publish(object, status, &case, open.as_ref(), context);
    }
    tell(object, &held, &status, open.as_ref(), before, context);
    if status::write(&context.client, object, &status).await? {
        context.metrics.refused_writes.inc();
    }
    Ok(match stepped {
        Stepped::Again => Action::requeue(Duration::ZERO),
        Stepped::Later(wait) => Action::requeue(wait),
        Stepped::Waiting => Action::await_change(),
        Stepped::Finished => Action::requeue(ttl(object)),
    })
}

/// How long a finished Investigation is kept. The fallback is for a spec that the CRD's pattern never saw: its default.
fn ttl(object: &Investigation) -> Duration {
    object.spec.ttl_after_finished.or(Duration::from_secs(7 * 24 * 3600))
}

/// Returns when the Investigation was deleted or suspended, as the watch's cache has it.
async fn interrupted(object: &Arc<Investigation>, context: &Context) {
    let key = ObjectRef::from_obj(object.as_ref());
    loop {
        tokio::time::sleep(NOTICE).await;
        let stop = match context.investigations.get(&key) {
            None => true,
            Some(now) => now.uid() != object.uid() || now.meta().deletion_timestamp.is_some() || (now.spec.suspend && !object.spec.suspend),
        };
        if stop {
            return;
        }
    }
}

/// Deletes a finished Investigation whose time is over.
async fn expire(object: &Investigation, held: &InvestigationStatus, context: &Context) -> Result<Action, Error> {
    let ttl = ttl(object);
    let Some(Time(done)) = held.completion_time else { return Ok(Action::await_change()) };
    let age = Duration::try_from(Timestamp::now().duration_since(done)).unwrap_or_default();
    if age < ttl {
        return Ok(Action::requeue(ttl.saturating_sub(age)));
    }
    let api: Api<Investigation> = Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    let exactly = kube::api::DeleteParams::default().preconditions(kube::api::Preconditions { uid: object.uid(), resource_version: None });
    match api.delete(&object.name_any(), &exactly).await {
        Ok(_) => tracing::info!(name = object.name_any(), "a finished Investigation was deleted at the end of its TTL"),
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(Action::await_change())
}

/// A person must agree before it starts.
async fn approval_before(object: &Investigation, held: &InvestigationStatus, context: &Context) -> Result<Option<Action>, Error> {
    let approval = &object.spec.approval;
    let wanted = match (approval.policy, approval.decision) {
        (ApprovalPolicy::BeforeStart | ApprovalPolicy::BeforePublish, ApprovalDecision::Rejected) => Phase::Rejected,
        (ApprovalPolicy::BeforeStart, ApprovalDecision::Undecided) => Phase::AwaitingApproval,
        _ => return Ok(None),
    };
    if held.phase != wanted {
        let mut status = InvestigationStatus { phase: wanted, observed_generation: object.meta().generation, ..held.clone() };
        let message = if wanted == Phase::Rejected {
            format!("a person rejected it: {}", approval.message)
        } else {
            "set spec.approval.decision to Approved or Rejected".to_owned()
        };
        condition(&mut status.conditions, "Progressing", false, &format!("{wanted:?}"), &message, object.meta().generation);
        if wanted == Phase::Rejected {
            status.postmortem = None;
            status.completion_time = Some(Time(Timestamp::now()));
        }
        status::write(&context.client, object, &status).await?;
        context.events.publish(object, false, &format!("{wanted:?}"), "Approve", message);
    }
    Ok(Some(if wanted == Phase::Rejected { Action::requeue(ttl(object)) } else { Action::await_change() }))
}

/// The postmortem with the investigator's name in it, or kept back until a person agrees.
fn publish(object: &Investigation, status: InvestigationStatus, case: &Case, open: &dyn OpenJournal, context: &Context) -> InvestigationStatus {
    let mut named = object.clone();
    named.status = Some(status.clone());
    let mut full = status::from_journal(&named, case, open.journal(), context.store.kind(), open.name(), Timestamp::now());
    let approval = &object.spec.approval;
    if approval.policy == ApprovalPolicy::BeforePublish && approval.decision == ApprovalDecision::Undecided {
        full.postmortem = None;
        full.evidence.clear();
        full.phase = Phase::AwaitingApproval;
        full.completion_time = None;
        full.conditions.retain(|c| c.type_ != "Complete");
        condition(
            &mut full.conditions,
            "Progressing",
            false,
            "AwaitingApproval",
            "the answer is ready: set spec.approval.decision to Approved or Rejected",
            object.meta().generation,
        );
    }
    full
}

/// Who decides, or who did before the playbooks went on.
fn decided_by(admitted: &Admitted, journal: &Journal, rules: &str) -> InvestigatorStatus {
    let Some(model) = admitted.model.as_ref().map(|m| m.live.chat.name.clone()) else {
        return InvestigatorStatus { kind: rules.to_owned(), ..InvestigatorStatus::default() };
    };
    match journal.fell_back() {
        Some(_) => InvestigatorStatus { kind: rules.to_owned(), fallback_from: format!("Model {model}"), model },
        None => InvestigatorStatus { kind: "chat".to_owned(), model, fallback_from: String::new() },
    }
}

fn degraded(status: &mut InvestigationStatus, admitted: &Admitted, journal: &Journal, generation: Option<i64>) {
    let mut notes = admitted.missing.clone();
    let mut reason = "ToolServersNotReady";
    if let (Some((why, message)), Some(model)) = (journal.fell_back(), &admitted.model) {
        reason = "ModelFallback";
        notes.insert(0, format!("the playbooks go on in place of Model {} ({why}): {message}", model.live.chat.name));
    }
    if notes.is_empty() {
        if status.conditions.iter().any(|c| c.type_ == "Degraded" && c.status == "True" && c.reason == "ToolServersNotReady") {
            condition(&mut status.conditions, "Degraded", false, "ToolServersReady", "all tool servers are ready", generation);
        }
    } else {
        condition(&mut status.conditions, "Degraded", true, reason, &notes.join("; "), generation);
    }
}

/// Checks everything that the spec refers to.
async fn admit(object: &Investigation, started: bool, context: &Context) -> Result<Result<Admitted, NotAdmitted>, Error> {
    let namespace = object.namespace().unwrap_or_default();
    let caps = match Caps::try_from(&object.spec.budget) {
        Ok(caps) => caps,
        Err(error) => return Ok(Err(error.into())),
    };
    let labels = labels_if_needed(&namespace, context).await?;
    let model = match model(object, &namespace, &labels, context).await {
        Ok(model) => model,
        // A run that has begun goes on without it.
        Err(_gone) if started => {
            let name = object.status.as_ref().map(|s| s.investigator.model.clone()).unwrap_or_default();
            Some(Decider { live: models::gone(&name), fallback: Fallback::Playbook })
        }
        Err(why) => return Ok(Err(why)),
    };
    let (servers, missing) = match tool_servers(object, &namespace, &labels, started, context) {
        Ok(found) => found,
        // A run that has begun goes on with what it was offered; a server that is gone is a result of its calls.
        Err(_gone) if started => (HashMap::new(), vec![]),
        Err(why) => return Ok(Err(why)),
    };
    let mut catalogue = Vec::new();
    if !started {
        let names: Vec<&str> = servers.keys().map(String::as_str).collect();
        catalogue = offered(object, &context.namespace, &servers);
        if catalogue.is_empty() {
            let why = if missing.is_empty() { NotAdmitted::NoTool(names.join(", ")) } else { NotAdmitted::ServersNotReady(missing.join("; ")) };
            return Ok(Err(why));
        }
    }
    Ok(Ok(Admitted { caps, servers, catalogue, missing, model }))
}

/// Labels of the namespace, read only where a selector asks for them.
async fn labels_if_needed(namespace: &str, context: &Context) -> Result<BTreeMap<String, String>, Error> {
    let by_label = context.tool_servers.state().iter().any(|s| s.spec.allowed_namespaces.from == crate::api::NamespacesFrom::Selector)
        || context.models.all().iter().any(|m| m.spec.allowed_namespaces.from == crate::api::NamespacesFrom::Selector);
    if !by_label {
        return Ok(BTreeMap::new());
    }
    let api: Api<Namespace> = Api::all(context.client.clone());
    Ok(api.get(namespace).await?.metadata.labels.unwrap_or_default())
}

/// The model that the spec names.
async fn model(object: &Investigation, namespace: &str, labels: &BTreeMap<String, String>, context: &Context) -> Result<Option<Decider>, NotAdmitted> {
    let Some(given) = &object.spec.model_ref else { return Ok(None) };
    let home = if given.namespace.is_empty() { namespace } else { &given.namespace };
    let full = NamespacedName { name: given.name.clone(), namespace: home.to_owned() };
    let found = context.models.find(&given.name, home).ok_or_else(|| NotAdmitted::ModelNotFound(full.clone()))?;
    if !found.spec.allowed_namespaces.allows(home, namespace, labels) {
        return Err(NotAdmitted::ModelNotAllowed(full, namespace.to_owned()));
    }
    let live = context.models.live(&found).await.map_err(|e| NotAdmitted::ModelUnusable(full, Box::new(e)))?;
    Ok(Some(Decider { live, fallback: found.spec.fallback }))
}

type Found = (HashMap<String, Arc<ToolServer>>, Vec<String>);

/// The servers that the spec selects: those that are ready, and why the others are not.
fn tool_servers(object: &Investigation, namespace: &str, labels: &BTreeMap<String, String>, started: bool, context: &Context) -> Result<Found, NotAdmitted> {
    let allows = |s: &ToolServer| s.spec.allowed_namespaces.allows(&s.namespace().unwrap_or_default(), namespace, labels);
    let named = object.spec.tools.as_ref().map(|t| t.servers.as_slice()).unwrap_or_default();
    let mut selected: Vec<Arc<ToolServer>> = Vec::new();
    if named.is_empty() {
        // Unless named, those of the operator's namespace and of the run's own: a stranger's server gets no run that did not ask for it.
        let near = |s: &ToolServer| s.namespace().is_some_and(|n| n == context.namespace || n == namespace);
        selected = context.tool_servers.state().into_iter().filter(|s| near(s) && allows(s)).collect();
        if selected.is_empty() {
            return Err(NotAdmitted::NoServer(namespace.to_owned()));
        }
    }
    for given in named {
        let home = if given.namespace.is_empty() { namespace } else { &given.namespace };
        let full = NamespacedName { name: given.name.clone(), namespace: home.to_owned() };
        let found = context.tool_servers.get(&ObjectRef::new(&given.name).within(home));
        let why = match &found {
            None => Some(NotAdmitted::ServerNotFound(full)),
            Some(server) if !allows(server) => Some(NotAdmitted::ServerNotAllowed(full, namespace.to_owned())),
            Some(_) => None,
        };
        match (found, why) {
            (Some(server), None) => selected.push(server),
            // One that is gone takes no other away from a run that has begun.
            (_, Some(_)) if started => {}
            (_, Some(why)) => return Err(why),
            (None, None) => {}
        }
    }
    let mut missing = Vec::new();
    let mut ready = HashMap::new();
    for server in selected {
        let condition = server.status.as_ref().and_then(|s| s.conditions.iter().find(|c| c.type_ == "Ready"));
        match condition {
            Some(c) if c.status == "True" => {}
            Some(c) => missing.push(format!("ToolServer {}: {}", servers::id(&server), c.message)),
            None => missing.push(format!("ToolServer {} has not been asked yet", servers::id(&server))),
        }
        ready.insert(servers::id(&server), server);
    }
    Ok((ready, missing))
}

/// The tools on offer, filtered by the spec. A name that two servers use is the first server's.
fn offered(object: &Investigation, home: &str, found: &HashMap<String, Arc<ToolServer>>) -> Vec<ToolRef> {
    let selection = object.spec.tools.clone().unwrap_or_default();
    let wanted = |tool: &str| {
        (selection.allow.is_empty() || selection.allow.iter().any(|p| servers::matches(p, tool))) && !selection.deny.iter().any(|p| servers::matches(p, tool))
    };
    let mut ids: Vec<&String> = found.keys().collect();
    let mut tools: Vec<ToolRef> = Vec::new();
    let own = format!("{home}/");
    // The operator's own servers first: a name that two servers use is theirs.
    ids.sort_by_key(|id| (!id.starts_with(&own), (*id).clone()));
    for id in ids {
        let ready = |s: &&crate::api::ToolServerStatus| s.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
        for tool in found[id].status.iter().filter(ready).flat_map(|s| &s.tools).filter(|t| t.offered && wanted(&t.name)) {
            if !tools.iter().any(|t| t.tool == tool.name) {
                tools.push(ToolRef { server: id.clone(), tool: tool.name.clone() });
            }
        }
    }
    tools
}

/// Says why in the status, and looks again; nothing hangs silently.
async fn not_admitted(object: &Investigation, held: InvestigationStatus, why: &NotAdmitted, context: &Context) -> Result<Action, Error> {
    let mut status = held.clone();
    let generation = object.meta().generation;
    status.observed_generation = generation;
    status.phase = if why.is_final() { Phase::Failed } else { Phase::Pending };
    if why.is_final() && status.completion_time.is_none() {
        status.completion_time = Some(Time(Timestamp::now()));
    }
    condition(&mut status.conditions, "Accepted", false, why.reason(), &why.to_string(), generation);
    condition(&mut status.conditions, "Progressing", false, why.reason(), "waiting for what is missing", generation);
    if status != held {
        tracing::warn!(namespace = object.namespace(), name = object.name_any(), reason = why.reason(), %why, "an Investigation cannot begin");
        context.events.publish(object, true, why.reason(), "Admit", why.to_string());
        status::write(&context.client, object, &status).await?;
    }
    Ok(match why {
        _ if why.is_final() => Action::await_change(),
        NotAdmitted::Quota(_) => Action::requeue(LOOK_AT_QUOTA),
        _ => Action::requeue(LOOK_AGAIN),
    })
}

/// What a decision took, in metrics by model.
fn spent(model: &str, used: Spend, context: &Context) {
    if model.is_empty() || used == Spend::default() {
        return;
    }
    let tokens = |kind: &str, n: u64| context.metrics.model_tokens.with_label_values(&[model, kind]).inc_by(n);
    tokens("input", used.input_tokens);
    tokens("cached", used.cached_tokens);
    tokens("output", used.output_tokens);
    #[expect(clippy::cast_precision_loss, reason = "a metric; the books are in integers")]
    context.metrics.model_cost.with_label_values(&[model]).inc_by(used.cost.0 as f64 / 1e6);
}

/// Events and metrics for what this step brought.
fn tell(object: &Investigation, held: &InvestigationStatus, now: &InvestigationStatus, open: &dyn OpenJournal, before: usize, context: &Context) {
    let new = &open.journal().records()[before.min(open.journal().records().len())..];
    for record in new {
        match &record.entry {
            Entry::Started { tools, .. } => {
                context.events.publish(object, false, "Started", "Investigate", format!("began with {} tools, by {}", tools.len(), now.investigator.kind));
            }
            Entry::Answered { results, .. } => {
                for result in results {
                    let word = match &result.outcome {
                        CallOutcome::Evidence { evidence } => match evidence.code.as_deref() {
                            None => {
                                if let Some(finding) = suspicious(std::slice::from_ref(evidence)).first() {
                                    let quote = finding.citations.first().map(|c| c.quote.as_str()).unwrap_or_default();
                                    context.events.publish(object, true, "SuspiciousText", "Call", format!("{} {quote}", finding.statement));
                                }
                                "executed"
                            }
                            Some(code) if status::is_denial(code) => {
                                context.events.publish(object, true, "GuardDenied", "Call", format!("{} was denied: {}", evidence.tool, evidence.summary()));
                                "denied"
                            }
                            Some(_) => "failed",
                        },
                        CallOutcome::Repeat { .. } => "repeated",
                        CallOutcome::Skipped { .. } => "skipped",
                        CallOutcome::Unknown | CallOutcome::Invalid { .. } => "unknown",
                    };
                    context.metrics.tool_calls.with_label_values(&[word]).inc();
                }
            }
            Entry::FellBack { reason, message } => {
                let model = &now.investigator.model;
                context.metrics.model_fallbacks.with_label_values(&[model.as_str(), reason.as_str()]).inc();
                context.events.publish(object, true, "ModelFallback", "Decide", format!("the playbooks go on in place of Model {model} ({reason}): {message}"));
            }
            Entry::DecisionFailed { reason, error, used, retry_at, .. } => {
                spent(&now.investigator.model, *used, context);
                let then = retry_at.map_or_else(String::new, |at| format!("; asked again at {}", at.strftime("%H:%M:%S")));
                context.events.publish(object, true, "ModelFailed", "Decide", format!("{reason}: {error}{then}"));
            }
            Entry::Decided { used, beyond, .. } => {
                spent(&now.investigator.model, *used, context);
                if *beyond != Spend::default() {
                    let note = format!(
                        "the provider reports {} tokens and ${} beyond what the request was limited to; they are not charged",
                        beyond.tokens(),
                        beyond.cost
                    );
                    context.events.publish(object, true, "UsageBeyondLimit", "Decide", note);
                }
            }
            Entry::Capped { stop } => {
                context.events.publish(object, false, "Capped", "Decide", format!("{stop:?}: what follows is the last word, without tools"));
            }
            _ => {}
        }
    }
    if let (false, true, Some(stop)) = (held.phase.is_final(), now.phase.is_final(), now.stop_reason) {
        let phase = format!("{:?}", now.phase);
        context.metrics.finished.with_label_values(&[phase.as_str(), stop.label()]).inc();
        context.metrics.duration.with_label_values(&[now.investigator.kind.as_str()]).observe(open.journal().active(Timestamp::now()).as_secs_f64());
        let summary = now.postmortem.as_ref().map(|p| p.summary.clone()).unwrap_or_default();
        context.events.publish(object, now.phase != Phase::Concluded, &phase, "Investigate", format!("stopped: {stop:?}. {summary}"));
        let spent = open.journal().committed();
        tracing::info!(
            namespace = object.namespace(),
            name = object.name_any(),
            phase,
            stop = stop.label(),
            investigator = now.investigator.kind,
            model = now.investigator.model,
            tool_calls = spent.tool_calls,
            input_tokens = spent.input_tokens,
            cached_tokens = spent.cached_tokens,
            output_tokens = spent.output_tokens,
            cost_usd = %spent.cost,
            "an Investigation ended"
        );
    } else if held.phase != now.phase && now.phase == Phase::Suspended {
        context.events.publish(object, false, "Suspended", "Suspend", "it goes on when spec.suspend is false".to_owned());
    }
}
