//! One step of one run: does what `agent::decide` says, with a journal, an investigator and tools. The operator's reconciler and the
//! command line both drive runs through here; neither has a loop of its own.
//!
//! *Invariant*: an entry is durable before what it announces is done.

use futures::{StreamExt, future::BoxFuture, stream};
use jiff::Timestamp;

use crate::{
    agent::{Control, Decision, Entry, Journal, Ledger, Move, PlannedCall, Received, ToolRef, answer, decide, plan},
    api::{Postmortem, StopReason},
    grounding::{Draft, Evidence, Finding, Run, publish, verify_root},
    investigators::{Case, Investigator},
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

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// There is more to do at once.
    Again,
    /// Suspended: until somebody changes the spec.
    Waiting,
    /// The run has its conclusion.
    Finished,
}

/// What a step needs beside the journal.
pub struct Parts<'a> {
    pub case: &'a Case,
    pub control: Control,
    pub investigator: &'a dyn Investigator,
    pub tools: &'a dyn ToolCaller,
    /// The tools on offer, asked for only at the start of a run.
    pub catalogue: &'a [ToolRef],
}

/// Does one step.
///
/// # Errors
/// When the journal can't be written; nothing is lost then, and the step is done again.
pub async fn step(open: &mut dyn OpenJournal, parts: &Parts<'_>, clock: &(dyn Fn() -> Timestamp + Send + Sync)) -> Result<Stepped, StoreError> {
    let Parts { case, control, investigator, tools, catalogue } = parts;
    match decide(control, open.journal(), clock()) {
        Decision::Finished => return Ok(Stepped::Finished),
        Decision::Wait => return Ok(Stepped::Waiting),
        Decision::Suspend => {
            open.append(clock(), Entry::Suspended).await?;
            return Ok(Stepped::Waiting);
        }
        Decision::Resume => open.append(clock(), Entry::Resumed).await?,
        Decision::Start => {
            let entry = Entry::Started { investigator: investigator.kind().to_owned(), tools: catalogue.to_vec() };
            open.append(clock(), entry).await?;
        }
        Decision::Ask { step } => {
            let next = investigator.next(case, open.journal());
            let calls = match &next {
                Move::Call { calls, .. } => {
                    let mut ledger = Ledger::new(control.caps, open.journal().committed());
                    plan(calls, open.journal(), &mut ledger)
                }
                Move::Conclude { .. } | Move::Malformed { .. } => vec![],
            };
            let executes = !calls.is_empty();
            open.append(clock(), Entry::Decided { step, used: crate::agent::Spend::default(), next, calls }).await?;
            if executes {
                execute(open, step, *tools, clock).await?;
            }
        }
        Decision::Execute { step } => execute(open, step, *tools, clock).await?,
        Decision::Conclude => conclude(open, case, clock).await?,
        Decision::Stop(stop) => {
            let draft =
                if stop == StopReason::Cancelled { Draft::unknown("A person ended the run.") } else { investigator.conclude(case, open.journal(), stop) };
            open.append(clock(), Entry::Concluded { stop, draft }).await?;
        }
    }
    Ok(if open.journal().conclusion().is_some() { Stepped::Finished } else { Stepped::Again })
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

/// Checks the conclusion that the investigator came to. An unproved cause goes back once, with the reasons.
async fn conclude(open: &mut dyn OpenJournal, case: &Case, clock: &(dyn Fn() -> Timestamp + Send + Sync)) -> Result<(), StoreError> {
    let last = open.journal().records().iter().rev().find_map(|r| match &r.entry {
        Entry::Decided { step, next: Move::Conclude { draft }, .. } => Some((*step, draft.as_ref().clone())),
        _ => None,
    });
    let Some((step, draft)) = last else { return Ok(()) };
    let rejected = open.journal().records().iter().filter(|r| matches!(r.entry, Entry::Rejected { .. })).count();
    if let Finding::Cause(root) = &draft.finding
        && rejected < REPAIRS
    {
        let evidence: Vec<Evidence> = open.journal().evidence().cloned().collect();
        let verdict = verify_root(root, &evidence, &case.question);
        if !verdict.supported() {
            return open.append(clock(), Entry::Rejected { step, reasons: vec![verdict.to_string()] }).await;
        }
    }
    open.append(clock(), Entry::Concluded { stop: StopReason::Done, draft }).await
}

/// The verified postmortem of a finished run, from its journal alone.
#[must_use]
pub fn postmortem(case: &Case, journal: &Journal) -> Option<(StopReason, Postmortem)> {
    let (_, stop, draft) = journal.conclusion()?;
    let evidence: Vec<Evidence> = journal.evidence().cloned().collect();
    let run = Run { question: &case.question, stop, not_checked: vec![] };
    Some((stop, publish(draft, &evidence, &run)))
}
