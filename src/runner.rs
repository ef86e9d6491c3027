//! One step of one run: does what `agent::decide` says, with a journal, an investigator and tools. The operator's reconciler and the
//! command line both drive runs through here; neither has a loop of its own.
//!
//! *Invariant*: an entry is durable before what it announces is done.

use std::time::Duration;

use futures::{StreamExt, future::BoxFuture, stream};
use jiff::Timestamp;

use crate::{
    agent::{
        Control, Decision, Entry, Journal, Ledger, Mind, Move, PlannedCall, Purpose, Received, Spend, ToolRef, ToolSchema, answer, decide, plan, retry_at,
    },
    api::{Fallback, Postmortem, StopReason},
    grounding::{Draft, Evidence, Finding, Run, Sources, publish, verify, verify_root},
    investigators::{
        Case, Investigator,
        chat::{Chat, ChatReply, ChatRequest, Failure, Finish, Fitted, NoFit},
    },
    store::{OpenJournal, StoreError},
};

/// Calls of one batch in flight at once.
const CONCURRENT_CALLS: usize = 8;
/// Drafts that the verifier refused are sent back so often.
const REPAIRS: usize = 1;

/// Executes tool calls. A failure is a result with a code, never an error.
pub trait ToolCaller: Send + Sync {
    fn call<'a>(&'a self, call: &'a PlannedCall, server: &'a str) -> BoxFuture<'a, Received>;
}

/// Asks a model. A failure is recorded, and never an end without an answer.
pub trait ModelCaller: Send + Sync {
    /// A place among the requests that this model takes at once. Asked for before anything is reserved.
    fn admit(&self) -> Admission;
    fn ask<'a>(&'a self, request: &'a ChatRequest) -> BoxFuture<'a, Result<ChatReply, Failure>>;
}

/// Whether a request may be sent now.
pub enum Admission {
    /// Until this is dropped.
    Now(Box<dyn Send>),
    /// Too many at once, or too many a minute.
    Later(Duration),
    /// It fails, and is let alone for a while.
    Never(Failure),
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// There is more to do at once.
    Again,
    /// There is more to do after a while.
    Later(Duration),
    /// Suspended: until somebody changes the spec.
    Waiting,
    /// The run has its conclusion.
    Finished,
}

/// What a step needs beside the journal.
pub struct Parts<'a> {
    pub case: &'a Case,
    pub control: Control,
    /// Decides where no model does, and finishes what a model could not.
    pub investigator: &'a dyn Investigator,
    /// Decides, with [`Mind::Model`].
    pub model: Option<Model<'a>>,
    pub tools: &'a dyn ToolCaller,
    /// The tools on offer, and what a model is told of them; asked for only at the start of a run.
    pub catalogue: &'a [ToolRef],
    pub schemas: &'a [ToolSchema],
}

#[derive(Clone, Copy)]
pub struct Model<'a> {
    pub chat: &'a Chat,
    pub caller: &'a dyn ModelCaller,
}

type Clock<'a> = &'a (dyn Fn() -> Timestamp + Send + Sync);

/// Does one step.
///
/// # Errors
/// When the journal can't be written; nothing is lost then, and the step is done again.
pub async fn step(open: &mut dyn OpenJournal, parts: &Parts<'_>, clock: Clock<'_>) -> Result<Stepped, StoreError> {
    let now = clock();
    match decide(&parts.control, open.journal(), now) {
        Decision::Finished => return Ok(Stepped::Finished),
        Decision::Wait => return Ok(Stepped::Waiting),
        Decision::Later(at) => return Ok(Stepped::Later(Duration::try_from(at.duration_since(now)).unwrap_or_default())),
        Decision::Suspend => {
            open.append(now, Entry::Suspended).await?;
            return Ok(Stepped::Waiting);
        }
        Decision::Resume => open.append(now, Entry::Resumed).await?,
        Decision::Start => {
            let investigator = if parts.model.is_some() { "chat" } else { parts.investigator.kind() };
            let entry = Entry::Started { investigator: investigator.to_owned(), tools: parts.catalogue.to_vec(), schemas: parts.schemas.to_vec() };
            open.append(now, entry).await?;
        }
        Decision::Ask { step } => match parts.model {
            Some(model) if open.journal().fell_back().is_none() => return ask(open, parts, model, step, Purpose::Step, clock).await,
            _ => {
                let next = parts.investigator.next(parts.case, open.journal());
                let used = open.journal().interrupted();
                decided(open, parts, Decided { step, used, beyond: Spend::default(), next }, clock).await?;
            }
        },
        Decision::Answer { step, stop } => match parts.model {
            Some(model) => return ask(open, parts, model, step, Purpose::Answer, clock).await,
            None => end(open, parts, stop, clock).await?,
        },
        Decision::Execute { step } => execute(open, step, parts.tools, clock).await?,
        Decision::FallBack { reason, message } => open.append(now, Entry::FellBack { reason, message }).await?,
        Decision::Cap(stop) => open.append(now, Entry::Capped { stop }).await?,
        Decision::Conclude(stop) => conclude(open, parts, stop, clock).await?,
        Decision::Stop(stop) => end(open, parts, stop, clock).await?,
    }
    Ok(done(open))
}

fn done(open: &dyn OpenJournal) -> Stepped {
    if open.journal().conclusion().is_some() { Stepped::Finished } else { Stepped::Again }
}

struct Decided {
    step: u32,
    used: Spend,
    beyond: Spend,
    next: Move,
}

/// Records a move, and does what it asks for.
async fn decided(open: &mut dyn OpenJournal, parts: &Parts<'_>, what: Decided, clock: Clock<'_>) -> Result<(), StoreError> {
    let Decided { step, used, beyond, next } = what;
    let calls = match &next {
        Move::Call { calls, .. } => {
            let mut ledger = Ledger::new(parts.control.caps, open.journal().committed());
            plan(calls, open.journal(), &mut ledger)
        }
        Move::Conclude { .. } | Move::Malformed { .. } => vec![],
    };
    let executes = !calls.is_empty();
    open.append(clock(), Entry::Decided { step, used, beyond, next, calls }).await?;
    if executes { execute(open, step, parts.tools, clock).await } else { Ok(()) }
}

/// Asks the model: what it may cost is set aside first, and settled after.
async fn ask(open: &mut dyn OpenJournal, parts: &Parts<'_>, model: Model<'_>, step: u32, purpose: Purpose, clock: Clock<'_>) -> Result<Stepped, StoreError> {
    let caps = &parts.control.caps;
    let Fitted { request, worst, prompt } = match (model.chat.request(parts.case, open.journal(), caps, purpose), purpose) {
        (Ok(fitted), _) => fitted,
        (Err(NoFit(stop)), Purpose::Step) => {
            open.append(clock(), Entry::Capped { stop }).await?;
            return Ok(Stepped::Again);
        }
        (Err(NoFit(stop)), Purpose::Answer) => {
            // The reason that the run stops for is the first one.
            let stop = open.journal().capped().unwrap_or(stop);
            if parts.control.mind == (Mind::Model { fallback: Fallback::Playbook }) {
                let (reason, message) = (format!("{stop:?}"), "what is left does not pay for an answer of the model".to_owned());
                open.append(clock(), Entry::FellBack { reason, message }).await?;
            } else {
                end(open, parts, stop, clock).await?;
            }
            return Ok(done(open));
        }
    };
    let permit = match model.caller.admit() {
        Admission::Now(permit) => permit,
        Admission::Later(wait) => return Ok(Stepped::Later(wait)),
        Admission::Never(failure) => {
            let used = open.journal().interrupted();
            let entry = Entry::DecisionFailed { step, used, reason: failure.reason.to_owned(), error: failure.message, retry_at: None };
            open.append(clock(), entry).await?;
            return Ok(Stepped::Again);
        }
    };
    open.append(clock(), Entry::DecisionReserved { step, worst, prompt }).await?;
    let answer = model.caller.ask(&request).await;
    drop(permit);
    let now = clock();
    match answer {
        Ok(reply) => {
            let used = model.chat.prices.settle(reply.usage, worst);
            // Cached tokens are a part of the input, and were not reserved by themselves.
            let beyond = Spend { cached_tokens: 0, ..used.less(worst) };
            let used = used.at_most(worst);
            if reply.finish == Finish::Refused {
                let error = "the model or its provider refused to answer (content filter)".to_owned();
                open.append(now, Entry::DecisionFailed { step, used, reason: "Refused".to_owned(), error, retry_at: None }).await?;
            } else {
                let next = model.chat.read(parts.case, open.journal(), &reply);
                decided(open, parts, Decided { step, used, beyond, next }, clock).await?;
            }
        }
        Err(Failure { reason, message, again, billed }) => {
            let used = if billed { worst } else { Spend::default() };
            let retry_at = retry_at(again, step, open.journal(), caps, now);
            open.append(now, Entry::DecisionFailed { step, used, reason: reason.to_owned(), error: message, retry_at }).await?;
        }
    }
    Ok(done(open))
}

/// Ends the run without the investigator that had it: with the playbooks where they may, and with what is proved in any case.
async fn end(open: &mut dyn OpenJournal, parts: &Parts<'_>, stop: StopReason, clock: Clock<'_>) -> Result<(), StoreError> {
    let journal = open.journal();
    let playbooks = match parts.control.mind {
        Mind::Rules => true,
        Mind::Model { fallback } => fallback == Fallback::Playbook || journal.fell_back().is_some(),
    };
    let silent = matches!(parts.control.mind, Mind::Model { .. }) && journal.fell_back().is_none();
    let draft = match (stop, playbooks) {
        (StopReason::Cancelled, _) => Draft::unknown("A person ended the run."),
        (_, true) => parts.investigator.conclude(parts.case, journal, stop),
        (_, false) => unanswered(journal, stop),
    };
    if silent && playbooks && stop != StopReason::Cancelled {
        let (reason, message) = no_last_word(journal, stop);
        open.append(clock(), Entry::FellBack { reason, message }).await?;
    }
    open.append(clock(), Entry::Concluded { stop, draft }).await
}

/// Why the model did not have the last word.
fn no_last_word(journal: &Journal, stop: StopReason) -> (String, String) {
    let failed = journal.last().and_then(|r| match &r.entry {
        Entry::DecisionFailed { reason, error, .. } => Some((reason.clone(), error.clone())),
        _ => None,
    });
    failed.unwrap_or_else(|| (format!("{stop:?}"), "the model had not concluded".to_owned()))
}

/// Without the playbooks: what the model last claimed, for the verifier to keep what is proved of it, but no cause.
fn unanswered(journal: &Journal, stop: StopReason) -> Draft {
    let why = journal.records().iter().rev().find_map(|r| match &r.entry {
        Entry::DecisionFailed { reason, error, .. } => Some(format!("The model failed ({reason}): {error}.")),
        // Not with the error: it quotes the model.
        Entry::Decided { next: Move::Malformed { .. }, .. } => Some("The model's reply could not be used, twice in a row.".to_owned()),
        _ => None,
    });
    let last = journal.records().iter().rev().find_map(|r| match &r.entry {
        Entry::Decided { next: Move::Conclude { draft }, .. } => Some(draft.as_ref().clone()),
        _ => None,
    });
    let finding = Finding::Unknown(why.unwrap_or_else(|| format!("The model had not concluded when the run stopped ({}).", stop.label())));
    Draft { finding, ..last.unwrap_or_else(|| Draft::unknown("")) }
}

/// Executes the planned calls of a step together, and settles them in one entry.
async fn execute(open: &mut dyn OpenJournal, step: u32, tools: &dyn ToolCaller, clock: &(dyn Fn() -> Timestamp + Send + Sync)) -> Result<(), StoreError> {
    let calls: Vec<PlannedCall> = open.journal().open_step().map(|(_, calls)| calls.to_vec()).unwrap_or_default();
    let mut work: Vec<BoxFuture<'_, (String, Received)>> = Vec::new();
    for call in &calls {
        if let crate::agent::Plan::Execute { server } = &call.plan {
            work.push(Box::pin(async move { (call.id.clone(), tools.call(call, server).await) }));
        }
    }
    let received: std::collections::HashMap<String, Received> = stream::iter(work).buffer_unordered(CONCURRENT_CALLS).collect().await;
    let now = clock();
    let results = answer(&calls, open.journal(), |call| {
        received.get(&call.id).cloned().unwrap_or_else(|| Received { at: now, text: String::new(), truncated: false, code: Some("internal".to_owned()) })
    });
    open.append(now, Entry::Answered { step, results }).await
}

/// Checks the conclusion that the investigator came to. What is not proved goes back once, with the reasons; what a model can't prove the
/// second time, or can't tell, is the playbooks' to find.
async fn conclude(open: &mut dyn OpenJournal, parts: &Parts<'_>, stop: StopReason, clock: Clock<'_>) -> Result<(), StoreError> {
    let last = open.journal().records().iter().rev().find_map(|r| match &r.entry {
        Entry::Decided { step, next: Move::Conclude { draft }, .. } => Some((*step, draft.as_ref().clone())),
        _ => None,
    });
    let Some((step, mut draft)) = last else { return Ok(()) };
    let by_model = parts.model.is_some() && open.journal().fell_back().is_none();
    let evidence: Vec<Evidence> = open.journal().evidence().cloned().collect();
    let reasons = unproved(&draft, &evidence, &parts.case.question);
    let rejected = open.journal().records().iter().filter(|r| matches!(r.entry, Entry::Rejected { .. })).count();
    // After a cap there is no second word.
    if !reasons.is_empty() && rejected < REPAIRS && open.journal().capped().is_none() {
        return open.append(clock(), Entry::Rejected { step, reasons }).await;
    }
    if by_model && parts.control.mind == (Mind::Model { fallback: Fallback::Playbook }) {
        // The words of the model are in the journal; here they would be published unproved.
        let why = match (&draft.finding, reasons.is_empty()) {
            (Finding::Unknown(_), _) => Some(("Undecided", "the model found no cause")),
            (_, false) => Some(("Unproved", "what the model concluded is not proved by what it quoted")),
            (_, true) => None,
        };
        if let Some((reason, message)) = why {
            return open.append(clock(), Entry::FellBack { reason: reason.to_owned(), message: message.to_owned() }).await;
        }
    }
    if by_model {
        // What was left out, and what one can do, are not a model's to say: the playbooks know both from the same evidence.
        let rules = parts.investigator.conclude(parts.case, open.journal(), stop);
        draft.not_checked = rules.not_checked;
        if let (Finding::Cause(one), Finding::Cause(other)) = (&draft.finding, &rules.finding)
            && (&one.object.kind, &one.object.name) == (&other.object.kind, &other.object.name)
        {
            draft.actions = rules.actions;
        }
    }
    open.append(clock(), Entry::Concluded { stop, draft }).await
}

/// Why the finding can't be published, and, if it can't, what else is wrong with the draft: the next one shall be right in all.
fn unproved(draft: &Draft, evidence: &[Evidence], question: &str) -> Vec<String> {
    let sources = Sources::new(evidence);
    let finding = match &draft.finding {
        Finding::Cause(root) => verify_root(root, &sources, question),
        Finding::Healthy(claim) => verify(claim, &sources, question),
        Finding::Unknown(_) => return vec![],
    };
    if finding.supported() {
        return vec![];
    }
    let others = draft.chain.iter().chain(&draft.contributing).chain(&draft.impact);
    let others = others.map(|c| verify(c, &sources, question)).filter(|v| !v.supported()).map(|v| v.to_string());
    std::iter::once(finding.to_string()).chain(others).take(8).collect()
}

/// The verified postmortem of a finished run, from its journal alone.
#[must_use]
pub fn postmortem(case: &Case, journal: &Journal) -> Option<(StopReason, Postmortem)> {
    let (_, stop, draft) = journal.conclusion()?;
    let evidence: Vec<Evidence> = journal.evidence().cloned().collect();
    let not_checked =
        journal.fell_back().map(|(reason, message)| format!("The model did not finish ({reason}): {message}. The playbooks did.")).into_iter().collect();
    let run = Run { question: &case.question, stop, not_checked };
    Some((stop, publish(draft, &evidence, &run)))
}
