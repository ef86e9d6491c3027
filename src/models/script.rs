//! A recorded conversation, replayed: the n-th reply answers the n-th request of a run. For tests and the demo; it costs what it says.
//!
//! A text may take from the evidence that the request shows: `${e1:pattern}` is the first match of the pattern in evidence e1, or its
//! first group. So a conversation that was recorded in one cluster fits another, where pods have other names.

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::client::failure;
use crate::{
    agent::{Again, Reported},
    investigators::chat::{ChatReply, ChatRequest, Finish, Message, ModelCall},
    text::Pattern,
};

/// Bytes of one pattern, compiled.
const PATTERN: usize = 64 * 1024;

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    replies: Vec<Reply>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Reply {
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<Call>,
    #[serde(default)]
    refused: bool,
    #[serde(default = "usual_input")]
    input_tokens: i64,
    #[serde(default = "usual_output")]
    output_tokens: i64,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Value,
}

fn usual_input() -> i64 {
    1000
}
fn usual_output() -> i64 {
    100
}

#[derive(thiserror::Error, Debug)]
#[error("the recorded conversation cannot be read: {0}")]
pub struct ScriptError(String);

static TAKEN: Pattern = Pattern::new(r"\$\{(e[0-9]{1,3}):((?:[^{}]|\{[0-9,]*\})*)\}");

impl Script {
    /// # Errors
    /// What is wrong, with line and column.
    pub fn read(text: &str) -> Result<Self, ScriptError> {
        serde_saphyr::from_str(text).map_err(|e| ScriptError(e.to_string()))
    }

    pub(super) fn reply(&self, request: &ChatRequest) -> Result<ChatReply, crate::investigators::chat::Failure> {
        let at = usize::try_from(request.step.saturating_sub(1)).unwrap_or(usize::MAX);
        let Some(reply) = self.replies.get(at) else {
            return Err(failure(
                "ScriptEnded",
                format!("the recorded conversation has {} replies, and this is request {}", self.replies.len(), request.step),
                Again::Never,
            ));
        };
        let call = |c: &Call| {
            let arguments = match filled(&c.arguments, request) {
                Value::String(text) => text,
                Value::Null => String::new(),
                other => other.to_string(),
            };
            ModelCall { id: String::new(), name: c.name.clone(), arguments }
        };
        Ok(ChatReply {
            text: fill(&reply.text, request),
            calls: reply.calls.iter().map(call).collect(),
            finish: if reply.refused { Finish::Refused } else { Finish::Stop },
            usage: Reported { input: Some(reply.input_tokens), output: Some(reply.output_tokens), ..Reported::default() },
        })
    }
}

fn filled(value: &Value, request: &ChatRequest) -> Value {
    match value {
        Value::String(text) => Value::String(fill(text, request)),
        Value::Array(items) => items.iter().map(|v| filled(v, request)).collect(),
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), filled(v, request))).collect()),
        other => other.clone(),
    }
}

fn fill(text: &str, request: &ChatRequest) -> String {
    let Some(taken) = TAKEN.regex() else { return text.to_owned() };
    let found = |c: &regex::Captures<'_>| {
        let pattern = regex::RegexBuilder::new(&c[2]).size_limit(PATTERN).build().ok()?;
        first_match(&pattern, evidence(&c[1], request)?)
    };
    taken.replace_all(text, |c: &regex::Captures<'_>| found(c).unwrap_or_else(|| c[0].to_owned())).into_owned()
}

fn first_match(pattern: &Regex, text: &str) -> Option<String> {
    let found = pattern.captures(text)?;
    let whole = found.get(1).or_else(|| found.get(0))?.as_str();
    // What is found stands in JSON: a person's quote is of the text that it encodes.
    let plain = serde_json::from_str::<String>(&format!("\"{whole}\""));
    Some(plain.unwrap_or_else(|_| whole.to_owned()))
}

fn evidence<'a>(id: &str, request: &'a ChatRequest) -> Option<&'a str> {
    let begin = format!("<evidence id=\"{id}\"");
    request.messages.iter().find_map(|m| match m {
        Message::User { text } | Message::Tool { text, .. } => text.find(&begin).map(|at| &text[at..]),
        Message::Assistant { .. } => None,
    })
}
