//! From a model's reply to a move. A reply is hostile input: bounded, and whatever it is, it is a move.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CONCLUDE, ChatReply, Finish, schema::real_name};
use crate::{
    agent::{Journal, Move, ToolCall},
    api::{Citation, CitedRunbook, ObjectRef, is_default},
    grounding::{Claim, Draft, DraftEvent, DraftRunbook, Finding, RootClaim},
    investigators::Case,
    text::head,
};

/// Calls of one reply that are kept; of those, `agent::plan` executes a batch.
const MAX_CALLS: usize = 64;
/// Bytes of one call's arguments.
const ARGUMENTS: usize = 16 * 1024;
/// Bytes of a thought that are kept.
const THOUGHT: usize = 2 * 1024;
/// Bytes of a conclusion.
const CONCLUSION: usize = 128 * 1024;
/// Bytes of an error that the model is told.
const ERROR: usize = 400;

/// Kinds that live in no namespace.
const OF_THE_CLUSTER: &[&str] = &[
    "Node",
    "Namespace",
    "PersistentVolume",
    "StorageClass",
    "IngressClass",
    "PriorityClass",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "CustomResourceDefinition",
    "RuntimeClass",
];

/// What `conclude` takes.
#[derive(Serialize, Deserialize, Default)]
struct Conclusion {
    outcome: Said,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    statement: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    object: Option<SaidObject>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    signature: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    citations: Vec<Citation>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    chain: Vec<SaidClaim>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    contributing: Vec<SaidClaim>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    impact: Option<SaidClaim>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    timeline: Vec<SaidEvent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runbook: Option<SaidRunbook>,
}

#[derive(Serialize, Deserialize, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Said {
    Cause,
    Healthy,
    #[default]
    Unknown,
}

#[derive(Serialize, Deserialize)]
struct SaidObject {
    kind: String,
    name: String,
}

#[derive(Serialize, Deserialize)]
struct SaidClaim {
    statement: String,
    #[serde(default)]
    citations: Vec<Citation>,
}

#[derive(Serialize, Deserialize)]
struct SaidEvent {
    time: Timestamp,
    event: String,
    evidence: String,
}

#[derive(Serialize, Deserialize)]
struct SaidRunbook {
    name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    namespace: String,
    #[serde(default, skip_serializing_if = "is_default")]
    title: String,
    signature: String,
    evidence: String,
}

/// The JSON protocol's reply.
#[derive(Deserialize)]
struct Step {
    #[serde(default)]
    thought: String,
    #[serde(default)]
    action: Option<Action>,
    #[serde(default)]
    finish: Option<Value>,
}

#[derive(Deserialize)]
struct Action {
    tool: String,
    #[serde(default)]
    arguments: Value,
}

pub(super) fn read(case: &Case, journal: &Journal, reply: &ChatReply) -> Move {
    let (concluding, looking): (Vec<_>, Vec<_>) = reply.calls.iter().partition(|c| c.name == CONCLUDE);
    // One that concludes and looks at once has not seen what it asks for: it looks first.
    if !looking.is_empty() {
        let calls = looking.into_iter().take(MAX_CALLS).map(|c| call(journal, &c.name, parse(&c.arguments))).collect();
        return Move::Call { thought: head(&reply.text, THOUGHT).to_owned(), calls };
    }
    if let Some(call) = concluding.first() {
        return match arguments(&call.arguments) {
            Ok(value) => conclude(case, value),
            Err(error) => malformed(&format!("the arguments of conclude are {error}{}", cut_short(reply))),
        };
    }
    // Some models write what they were to call. It is the other protocol's form, and as good.
    match step(&reply.text) {
        Ok(Step { finish: Some(value), .. }) => conclude(case, value),
        Ok(Step { action: Some(Action { tool, arguments }), .. }) if tool == CONCLUDE => conclude(case, arguments),
        Ok(Step { thought, action: Some(Action { tool, arguments }), .. }) => {
            // No arguments are none.
            let arguments = if arguments.is_null() { Value::Object(serde_json::Map::new()) } else { arguments };
            Move::Call { thought: head(&thought, THOUGHT).to_owned(), calls: vec![call(journal, &tool, arguments)] }
        }
        Ok(_neither) => malformed("the reply has neither an action nor a finish"),
        Err(_) if reply.text.trim().is_empty() => malformed(&format!("it was empty{}", cut_short(reply))),
        Err(error) => malformed(&format!("it calls no tool and is {error}{}", cut_short(reply))),
    }
}

fn malformed(error: &str) -> Move {
    Move::Malformed { error: head(error, ERROR).to_owned() }
}

fn cut_short(reply: &ChatReply) -> &'static str {
    if reply.finish == Finish::Length { "; it was cut at the limit of output tokens: be shorter" } else { "" }
}

fn call(journal: &Journal, name: &str, arguments: Value) -> ToolCall {
    ToolCall { tool: real_name(journal, head(name, 128)), arguments }
}

/// What is no object stays text, and `agent::plan` answers that it is not executed.
fn parse(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    if text.len() > ARGUMENTS {
        return Value::String(format!("more than {ARGUMENTS} bytes"));
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(head(text, ERROR).to_owned()))
}

fn arguments(text: &str) -> Result<Value, String> {
    if text.len() > CONCLUSION {
        return Err(format!("longer than {CONCLUSION} bytes"));
    }
    serde_json::from_str(text).map_err(|e| format!("no JSON ({e})"))
}

/// The JSON object of a reply, which may stand in a fence or between words.
fn step(text: &str) -> Result<Step, String> {
    if text.len() > CONCLUSION {
        return Err(format!("longer than {CONCLUSION} bytes"));
    }
    let (Some(from), Some(to)) = (text.find('{'), text.rfind('}')) else { return Err("no JSON object".to_owned()) };
    if to < from {
        return Err("no JSON object".to_owned());
    }
    serde_json::from_str(&text[from..=to]).map_err(|e| format!("no JSON object of the two forms ({e})"))
}

fn conclude(case: &Case, value: Value) -> Move {
    // Some send the object as text once more.
    let value = match value {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    };
    match serde_path_to_error::deserialize::<_, Conclusion>(value) {
        Ok(conclusion) => draft(case, conclusion).map_or_else(|e| malformed(&e), |d| Move::Conclude { draft: Box::new(d) }),
        Err(error) => malformed(&format!("the conclusion's field {}: {}", error.path(), error.inner())),
    }
}

fn claim(said: SaidClaim) -> Claim {
    Claim { statement: said.statement, citations: said.citations }
}

fn draft(case: &Case, said: Conclusion) -> Result<Draft, String> {
    let Conclusion { outcome, statement, object, signature, citations, chain, contributing, impact, timeline, runbook } = said;
    let root = Claim { statement, citations };
    let finding = match (outcome, object) {
        (Said::Cause, _) if root.statement.trim().is_empty() => return Err("the conclusion's field statement is empty: say the cause in a sentence".to_owned()),
        (Said::Cause, None) => return Err("the conclusion's field object is missing: name the kind and name of what somebody would have to change".to_owned()),
        (Said::Cause, Some(object)) => {
            let namespace = if OF_THE_CLUSTER.contains(&object.kind.as_str()) { String::new() } else { case.namespace.clone() };
            // A name may come as namespace/name.
            let name = object.name.rsplit('/').next().unwrap_or_default().to_owned();
            Finding::Cause(RootClaim { claim: root, object: ObjectRef { kind: object.kind, namespace, name, ..ObjectRef::default() }, signature })
        }
        (Said::Healthy, _) => Finding::Healthy(root),
        // Its own words are not proved, and so are not repeated.
        (Said::Unknown, _) => Finding::Unknown(UNDECIDED.to_owned()),
    };
    let cited = |r: SaidRunbook| DraftRunbook {
        cited: CitedRunbook { name: r.name, namespace: r.namespace, title: r.title, signature: r.signature },
        evidence: r.evidence,
    };
    Ok(Draft {
        chain: chain.into_iter().map(claim).collect(),
        contributing: contributing.into_iter().map(claim).collect(),
        impact: impact.map(claim),
        timeline: timeline.into_iter().map(|e| DraftEvent { time: e.time, event: e.event, evidence: e.evidence }).collect(),
        runbook: runbook.map(cited),
        finding,
        ..Draft::unknown("")
    })
}

/// What is published where the model names no cause.
pub(super) const UNDECIDED: &str = "The model found no cause that it could name.";

/// A draft in the form that it was said in.
pub(super) fn restate(draft: &Draft) -> String {
    let said = |c: &Claim| SaidClaim { statement: c.statement.clone(), citations: c.citations.clone() };
    let mut conclusion = Conclusion {
        chain: draft.chain.iter().map(said).collect(),
        contributing: draft.contributing.iter().map(said).collect(),
        impact: draft.impact.as_ref().map(said),
        ..Conclusion::default()
    };
    match &draft.finding {
        Finding::Cause(root) => {
            conclusion.outcome = Said::Cause;
            conclusion.statement.clone_from(&root.claim.statement);
            conclusion.citations.clone_from(&root.claim.citations);
            conclusion.object = Some(SaidObject { kind: root.object.kind.clone(), name: root.object.name.clone() });
            conclusion.signature.clone_from(&root.signature);
        }
        Finding::Healthy(claim) => {
            conclusion.outcome = Said::Healthy;
            conclusion.statement.clone_from(&claim.statement);
            conclusion.citations.clone_from(&claim.citations);
        }
        Finding::Unknown(_) => {}
    }
    serde_json::to_string(&conclusion).unwrap_or_default()
}
