//! Anthropic Messages. The prompt is marked for its cache: the rules and tools, and the conversation so far.

use serde_json::{Value, json};

use super::{Settings, openai::number};
use crate::{
    agent::Reported,
    investigators::chat::{ChatReply, ChatRequest, Finish, Message, ModelCall},
};

/// Blocks of one streamed reply.
const MAX_BLOCKS: usize = 128;

pub(super) fn body(settings: &Settings, request: &ChatRequest) -> Value {
    let cached = json!({"type": "ephemeral"});
    // Messages of one side that follow each other are one: that is all this form allows.
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &request.messages {
        let (role, blocks) = blocks(message);
        match messages.last_mut() {
            Some((last, all)) if *last == role => all.extend(blocks),
            _ => messages.push((role, blocks)),
        }
    }
    if let Some(block) = messages.last_mut().and_then(|(_, blocks)| blocks.last_mut()) {
        block["cache_control"] = cached.clone();
    }
    let messages: Vec<Value> = messages.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect();
    let mut body = json!({
        "model": settings.model,
        "max_tokens": request.max_output,
        "system": [{"type": "text", "text": request.system, "cache_control": cached}],
        "messages": messages,
    });
    if settings.temperature >= 0.0 {
        body["temperature"] = json!(settings.temperature.min(1.0));
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(|t| json!({"name": t.tool, "description": t.description, "input_schema": t.parameters})).collect();
        body["tool_choice"] = match &request.force {
            Some(name) => json!({"type": "tool", "name": name}),
            None => json!({"type": "auto"}),
        };
    }
    if settings.stream {
        body["stream"] = json!(true);
    }
    body
}

fn blocks(message: &Message) -> (&'static str, Vec<Value>) {
    // An empty text block is refused.
    let text = |t: &str| (!t.is_empty()).then(|| json!({"type": "text", "text": t}));
    match message {
        Message::User { text: t } => ("user", text(t).into_iter().collect()),
        Message::Assistant { text: t, calls } => {
            let call = |c: &ModelCall| {
                let input: Value = serde_json::from_str(&c.arguments).unwrap_or_else(|_| json!({}));
                json!({"type": "tool_use", "id": c.id, "name": c.name, "input": input})
            };
            ("assistant", text(t).into_iter().chain(calls.iter().map(call)).collect())
        }
        Message::Tool { call, text, .. } => ("user", vec![json!({"type": "tool_result", "tool_use_id": call, "content": text})]),
    }
}

pub(super) fn reply(value: &Value) -> Option<ChatReply> {
    let mut reply = ChatReply { finish: finish(value.get("stop_reason")), usage: usage(value.get("usage")), ..ChatReply::default() };
    for block in value.get("content")?.as_array()? {
        let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => reply.text.push_str(text("text")),
            "tool_use" => {
                let arguments = block.get("input").map(Value::to_string).unwrap_or_default();
                reply.calls.push(ModelCall { id: text("id").to_owned(), name: text("name").to_owned(), arguments });
            }
            _ => {}
        }
    }
    Some(reply)
}

fn finish(value: Option<&Value>) -> Finish {
    match value.and_then(Value::as_str) {
        Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
        Some("refusal") => Finish::Refused,
        _ => Finish::Stop,
    }
}

/// Here `input_tokens` are only those that were neither read from the cache nor written to it.
fn usage(value: Option<&Value>) -> Reported {
    let Some(usage) = value else { return Reported::default() };
    let (cached, written) = (number(usage.get("cache_read_input_tokens")), number(usage.get("cache_creation_input_tokens")));
    let sum = |n: i64| n.saturating_add(cached.unwrap_or(0).max(0)).saturating_add(written.unwrap_or(0).max(0));
    Reported { input: number(usage.get("input_tokens")).map(sum), cached, cache_write: written, output: number(usage.get("output_tokens")) }
}

/// A reply put together from the events of a stream.
#[derive(Default)]
pub(super) struct Stream {
    blocks: Vec<(Value, String)>,
    stop: Value,
    usage: serde_json::Map<String, Value>,
    pub(super) done: bool,
}

impl Stream {
    pub(super) fn take(&mut self, event: &Value) {
        let index = event.get("index").and_then(Value::as_u64).and_then(|i| usize::try_from(i).ok()).unwrap_or(0);
        match event.get("type").and_then(Value::as_str) {
            Some("message_start") => self.used(&event["message"]["usage"]),
            Some("content_block_start") if index < MAX_BLOCKS => {
                self.blocks.resize(self.blocks.len().max(index + 1), (Value::Null, String::new()));
                self.blocks[index].0 = event["content_block"].clone();
            }
            Some("content_block_delta") => {
                if let Some((_, text)) = self.blocks.get_mut(index) {
                    let part = ["text", "partial_json"].iter().find_map(|k| event["delta"].get(*k).and_then(Value::as_str));
                    text.push_str(part.unwrap_or_default());
                }
            }
            Some("message_delta") => {
                self.stop = event["delta"]["stop_reason"].clone();
                self.used(&event["usage"]);
            }
            Some("message_stop") => self.done = true,
            _ => {}
        }
    }

    fn used(&mut self, usage: &Value) {
        for (name, value) in usage.as_object().into_iter().flatten().filter(|(_, v)| !v.is_null()) {
            self.usage.insert(name.clone(), value.clone());
        }
    }

    pub(super) fn reply(self) -> Option<ChatReply> {
        if !self.done {
            return None;
        }
        let mut reply = ChatReply { finish: finish(Some(&self.stop)), usage: usage(Some(&Value::Object(self.usage))), ..ChatReply::default() };
        for (block, text) in self.blocks {
            let of = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            match block.get("type").and_then(Value::as_str) {
                Some("text") => reply.text.push_str(&(of("text") + &text)),
                Some("tool_use") => reply.calls.push(ModelCall { id: of("id"), name: of("name"), arguments: text }),
                _ => {}
            }
        }
        Some(reply)
    }
}
