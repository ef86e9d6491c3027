//! From a move to planned calls, and from what came back to results.

use jiff::Timestamp;
use serde_json::Value;

use super::{CallOutcome, CallResult, Journal, Ledger, Plan, PlannedCall, Purpose, Spend, ToolCall};
use crate::grounding::Evidence;

/// Calls of one batch that are executed; the rest of a larger batch is skipped. Bounds the memory and the load of one step.
pub const MAX_BATCH: usize = 16;

/// What a server gave for one call: text, whether it was cut, and a code where it refused or failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    pub at: Timestamp,
    pub text: String,
    pub truncated: bool,
    pub code: Option<String>,
}

/// Decides for each call of a batch what is done with it, and reserves what will be executed.
#[must_use]
pub fn plan(calls: &[ToolCall], journal: &Journal, ledger: &mut Ledger) -> Vec<PlannedCall> {
    let first = journal.planned().count();
    let mut planned: Vec<PlannedCall> = Vec::with_capacity(calls.len());
    for (offset, call) in calls.iter().enumerate() {
        let plan = match (recorded(call, journal), server_of(&call.tool, journal)) {
            (None, Some(_)) if !call.arguments.is_object() => Plan::Invalid { error: "the arguments are no JSON object".to_owned() },
            (Some(evidence), _) => Plan::Repeat { evidence },
            (None, None) => Plan::Unknown,
            (None, Some(_)) if offset >= MAX_BATCH => Plan::Skip { reason: format!("more than {MAX_BATCH} calls in one batch") },
            // The same call twice in one batch is asked once; the second is answered by the first, as a repeat, when it is in.
            (None, Some(_)) if planned.iter().any(|p| same(p, call) && matches!(p.plan, Plan::Execute { .. })) => {
                Plan::Skip { reason: "the same call stands earlier in this batch".to_owned() }
            }
            (None, Some(server)) => match ledger.reserve(Spend::calls(1), Purpose::Step) {
                Ok(()) => Plan::Execute { server },
                Err(stop) => Plan::Skip { reason: stop.label().to_owned() },
            },
        };
        planned.push(PlannedCall { id: format!("c{}", first + offset + 1), tool: call.tool.clone(), arguments: call.arguments.clone(), plan });
    }
    planned
}

/// One result for each planned call. `received` is asked for the calls that were executed, in order.
pub fn answer(calls: &[PlannedCall], journal: &Journal, mut received: impl FnMut(&PlannedCall) -> Received) -> Vec<CallResult> {
    let mut next = journal.evidence().count();
    calls
        .iter()
        .map(|call| {
            let outcome = match &call.plan {
                Plan::Execute { server } => {
                    let Received { at, text, truncated, code } = received(call);
                    next += 1;
                    CallOutcome::Evidence {
                        evidence: Evidence {
                            id: format!("e{next}"),
                            server: server.clone(),
                            tool: call.tool.clone(),
                            arguments: call.arguments.clone(),
                            at,
                            text,
                            truncated,
                            code,
                        },
                    }
                }
                Plan::Repeat { evidence } => CallOutcome::Repeat { of: evidence.clone() },
                Plan::Skip { reason } => CallOutcome::Skipped { reason: reason.clone() },
                Plan::Unknown => CallOutcome::Unknown,
                Plan::Invalid { error } => CallOutcome::Invalid { error: error.clone() },
            };
            CallResult { call: call.id.clone(), outcome }
        })
        .collect()
}

/// Codes of calls that got no answer from the tool: asked again, they may.
const NO_ANSWER: &[&str] = &["timeout", "unreachable", "cluster_unavailable"];

/// Whether this evidence is no answer, only the news that there was none.
#[must_use]
pub fn is_no_answer(evidence: &Evidence) -> bool {
    evidence.code.as_deref().is_some_and(|c| NO_ANSWER.contains(&c))
}

/// The evidence that an identical earlier call left. A call without an answer may be made once more, and is charged.
fn recorded(call: &ToolCall, journal: &Journal) -> Option<String> {
    let alike = || journal.evidence().filter(|e| e.tool == call.tool && canonical(&e.arguments) == canonical(&call.arguments));
    if alike().count() == 1 && alike().all(is_no_answer) {
        return None;
    }
    alike().last().map(|e| e.id.clone())
}

fn same(planned: &PlannedCall, call: &ToolCall) -> bool {
    planned.tool == call.tool && canonical(&planned.arguments) == canonical(&call.arguments)
}

fn server_of(tool: &str, journal: &Journal) -> Option<String> {
    journal.tools().iter().find(|t| t.tool == tool).map(|t| t.server.clone())
}

/// Arguments with their keys in order, so that `{a, b}` and `{b, a}` are one call.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().map(|(k, v)| (k.clone(), canonical(v))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        scalar => scalar.clone(),
    }
}
