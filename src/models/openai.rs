//! Chat completions, as OpenAI, Azure, OpenRouter, vLLM, Ollama, llama.cpp and LiteLLM speak them.

use serde_json::{Value, json};

use super::Settings;
use crate::{
    agent::Reported,
    investigators::chat::{ChatReply, ChatRequest, Finish, Message, ModelCall},
};

/// Calls of one streamed reply. More is an attack: an index is memory.
const MAX_CALLS: usize = 128;

pub(super) fn body(settings: &Settings, request: &ChatRequest) -> Value {
    let mut messages = vec![json!({"role": "system", "content": request.system})];
    messages.extend(request.messages.iter().map(message));
    let mut body = json!({"model": settings.model, "messages": messages});
    // OpenAI's newer models refuse the old name, and servers of others know no other.
    let limit = if settings.base_url.is_empty() || settings.base_url.contains(".openai.") { "max_completion_tokens" } else { "max_tokens" };
    body[limit] = json!(request.max_output);
    if settings.temperature >= 0.0 {
        body["temperature"] = json!(settings.temperature);
    }
    if settings.seed >= 0 {
        body["seed"] = json!(settings.seed);
    }
    if !request.tools.is_empty() {
        let tool =
            |t: &crate::agent::ToolSchema| json!({"type": "function", "function": {"name": t.tool, "description": t.description, "parameters": t.parameters}});
        body["tools"] = request.tools.iter().map(tool).collect();
        body["tool_choice"] = match &request.force {
            Some(name) => json!({"type": "function", "function": {"name": name}}),
            None => json!("auto"),
        };
    }
    if request.json {
        body["response_format"] = json!({"type": "json_object"});
    }
    if settings.stream {
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

fn message(message: &Message) -> Value {
    match message {
        Message::User { text } => json!({"role": "user", "content": text}),
        Message::Assistant { text, calls } if calls.is_empty() => json!({"role": "assistant", "content": text}),
        Message::Assistant { text, calls } => {
            let call = |c: &ModelCall| json!({"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}});
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            json!({"role": "assistant", "content": content, "tool_calls": calls.iter().map(call).collect::<Vec<_>>()})
        }
        Message::Tool { call, text, .. } => json!({"role": "tool", "tool_call_id": call, "content": text}),
    }
}

pub(super) fn reply(value: &Value) -> Option<ChatReply> {
    let choice = value.get("choices")?.as_array()?.first()?;
    let message = choice.get("message")?;
    let mut calls: Vec<ModelCall> = message.get("tool_calls").and_then(Value::as_array).map(|c| c.iter().map(call).collect()).unwrap_or_default();
    if let Some(old) = message.get("function_call").filter(|c| c.is_object()) {
        calls.push(call(&json!({"function": old})));
    }
    let refusal = message.get("refusal").and_then(Value::as_str).is_some_and(|r| !r.is_empty());
    let finish = if refusal { Finish::Refused } else { finish(choice.get("finish_reason")) };
    Some(ChatReply { text: content(message.get("content")), calls, finish, usage: usage(value.get("usage")) })
}

/// A text, or a list of parts.
fn content(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|p| p.get("text").and_then(Value::as_str)).collect(),
        _ => String::new(),
    }
}

fn call(value: &Value) -> ModelCall {
    let function = value.get("function").unwrap_or(value);
    let arguments = match function.get("arguments") {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    };
    let text = |v: Option<&Value>| v.and_then(Value::as_str).unwrap_or_default().to_owned();
    ModelCall { id: text(value.get("id")), name: text(function.get("name")), arguments }
}

fn finish(value: Option<&Value>) -> Finish {
    match value.and_then(Value::as_str) {
        Some("length") => Finish::Length,
        Some("content_filter") => Finish::Refused,
        // Others say "stop" for tool calls, "eos", or nothing: what was said is what counts.
        _ => Finish::Stop,
    }
}

pub(super) fn number(value: Option<&Value>) -> Option<i64> {
    let value = value?;
    #[expect(clippy::cast_possible_truncation, reason = "a count written as a float; casts of floats saturate")]
    value.as_i64().or_else(|| value.as_u64().map(|_| i64::MAX)).or_else(|| value.as_f64().map(|f| f as i64))
}

fn usage(value: Option<&Value>) -> Reported {
    let Some(usage) = value else { return Reported::default() };
    let cached = number(usage.get("prompt_tokens_details").and_then(|d| d.get("cached_tokens"))).or_else(|| number(usage.get("prompt_cache_hit_tokens")));
    Reported { input: number(usage.get("prompt_tokens")), cached, cache_write: None, output: number(usage.get("completion_tokens")) }
}

/// A reply put together from the events of a stream.
#[derive(Default)]
pub(super) struct Stream {
    reply: ChatReply,
    finished: bool,
    /// `[DONE]` came.
    pub(super) done: bool,
}

impl Stream {
    pub(super) fn take(&mut self, value: &Value) {
        if value.get("usage").is_some_and(|u| !u.is_null()) {
            self.reply.usage = usage(value.get("usage"));
        }
        let Some(choice) = value.get("choices").and_then(Value::as_array).and_then(|c| c.first()) else { return };
        if choice.get("finish_reason").is_some_and(|f| !f.is_null()) {
            self.finished = true;
            self.reply.finish = finish(choice.get("finish_reason"));
        }
        let Some(delta) = choice.get("delta") else { return };
        self.reply.text.push_str(&content(delta.get("content")));
        if delta.get("refusal").and_then(Value::as_str).is_some_and(|r| !r.is_empty()) {
            self.reply.finish = Finish::Refused;
        }
        for (position, part) in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten().enumerate() {
            let index = part.get("index").and_then(Value::as_u64).and_then(|i| usize::try_from(i).ok()).unwrap_or(position);
            if index >= MAX_CALLS {
                continue;
            }
            if self.reply.calls.len() <= index {
                self.reply.calls.resize(index + 1, ModelCall::default());
            }
            let (so_far, more) = (&mut self.reply.calls[index], call(part));
            so_far.name.push_str(&more.name);
            so_far.arguments.push_str(&more.arguments);
        }
    }

    pub(super) fn reply(self) -> Option<ChatReply> {
        (self.finished || self.done).then_some(self.reply)
    }
}
