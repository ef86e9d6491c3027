//! A request to a model and its reply, in no provider's form.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{Again, Reported, ToolSchema};

/// What is sent.
#[derive(Serialize, Clone, Debug, Default, PartialEq)]
pub struct ChatRequest {
    pub system: String,
    pub messages: Vec<Message>,
    pub tools: Vec<ToolSchema>,
    /// The tool that must be called, if one must.
    pub force: Option<String>,
    /// The reply is one JSON object, and no tool is called by the provider's own means.
    pub json: bool,
    /// Tokens that the reply may take.
    pub max_output: u64,
    /// Which decision of the run this is, from 1.
    pub step: u32,
}

#[derive(Serialize, Clone, Debug, PartialEq)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    User { text: String },
    Assistant { text: String, calls: Vec<ModelCall> },
    Tool { call: String, name: String, text: String },
}

/// A tool call as a model makes it: its arguments are text, and may be no JSON.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelCall {
    #[serde(default)]
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatReply {
    pub text: String,
    pub calls: Vec<ModelCall>,
    pub finish: Finish,
    pub usage: Reported,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    #[default]
    Stop,
    /// Cut at the output limit.
    Length,
    /// The provider or the model would not say it.
    Refused,
}

/// Why a model did not answer.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
#[error("{message}")]
pub struct Failure {
    /// PascalCase, bounded: the same word in status, event and metric.
    pub reason: &'static str,
    /// For a person: what was wrong, and what would be right.
    pub message: String,
    pub again: Again,
    /// The provider may have done the work before it failed.
    pub billed: bool,
}

/// Bytes of the request's texts. No token is shorter than a byte.
#[must_use]
pub fn size(value: &impl Serialize) -> u64 {
    serde_json::to_vec(value).map_or(u64::MAX, |v| v.len() as u64)
}

/// The text of an argument that was read, as JSON for the provider. What was no object is shown as none.
#[must_use]
pub(super) fn arguments(value: &Value) -> String {
    if value.is_object() { value.to_string() } else { "{}".to_owned() }
}
