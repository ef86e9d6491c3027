//! Tools as models take them: names of the letters that all providers allow, and schemas without what some of them refuse.

use serde_json::{Map, Value, json};

use super::CONCLUDE;
use crate::{
    agent::{Journal, ToolSchema},
    text::head,
};

/// Characters of a tool's name: what the strictest provider takes.
const NAME: usize = 64;
/// Bytes of a description.
const DESCRIPTION: usize = 1024;
const OF_A_FIELD: usize = 300;
/// Bytes of one schema. A larger one is a form that no model fills in; the tool is then offered without.
const SCHEMA: usize = 8 * 1024;
/// Levels of a schema, references followed.
const DEPTH: usize = 8;
/// What is kept of a schema, beside its type and fields.
const KEPT: &[&str] = &["enum", "minimum", "maximum", "required", "const"];

/// A tool's description and schema, cut to what models accept.
#[must_use]
pub fn plain(tool: &str, description: &str, schema: &Value) -> ToolSchema {
    let definitions = schema.get("$defs").or_else(|| schema.get("definitions")).cloned().unwrap_or_default();
    let mut parameters = simple(schema, &definitions, DEPTH);
    if let Value::Object(map) = &mut parameters {
        map.insert("type".to_owned(), json!("object"));
        map.entry("properties").or_insert_with(|| json!({}));
    }
    if !parameters.is_object() || parameters.to_string().len() > SCHEMA {
        parameters = json!({"type": "object", "properties": {}});
    }
    ToolSchema { tool: tool.to_owned(), description: head(description.trim(), DESCRIPTION).to_owned(), parameters }
}

fn simple(schema: &Value, definitions: &Value, depth: usize) -> Value {
    let Value::Object(map) = schema else { return json!({}) };
    if depth == 0 {
        return json!({});
    }
    if let Some(name) = map.get("$ref").and_then(Value::as_str).and_then(|r| r.rsplit('/').next()) {
        return definitions.get(name).map_or_else(|| json!({}), |d| simple(d, definitions, depth - 1));
    }
    // "This or nothing" is this: what is not given is left out.
    if let Some(one) = ["anyOf", "oneOf", "allOf"].iter().find_map(|k| map.get(*k).and_then(Value::as_array)) {
        let is_null = |v: &&Value| v.get("type").is_some_and(|t| t == "null");
        let mut picked = one.iter().find(|v| !is_null(v)).map_or_else(|| json!({}), |v| simple(v, definitions, depth - 1));
        if let (Some(into), Some(text)) = (picked.as_object_mut(), map.get("description").and_then(Value::as_str)) {
            into.insert("description".to_owned(), json!(head(text, OF_A_FIELD)));
        }
        return picked;
    }
    let mut out = Map::new();
    let kind = match map.get("type") {
        Some(Value::String(kind)) => Some(kind.clone()),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|k| *k != "null").map(str::to_owned),
        _ => map.contains_key("properties").then(|| "object".to_owned()),
    };
    if let Some(kind) = kind {
        out.insert("type".to_owned(), json!(kind));
    }
    if let Some(text) = map.get("description").and_then(Value::as_str) {
        out.insert("description".to_owned(), json!(head(text, OF_A_FIELD)));
    }
    for key in KEPT {
        if let Some(value) = map.get(*key) {
            out.insert((*key).to_owned(), value.clone());
        }
    }
    if let Some(properties) = map.get("properties").and_then(Value::as_object) {
        let properties = properties.iter().map(|(name, s)| (name.clone(), simple(s, definitions, depth - 1))).collect();
        out.insert("properties".to_owned(), Value::Object(properties));
    }
    if let Some(items) = map.get("items") {
        out.insert("items".to_owned(), simple(items, definitions, depth - 1));
    }
    Value::Object(out)
}

/// The name that a provider takes.
pub(super) fn safe_name(name: &str) -> String {
    name.chars().take(NAME).map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}

/// The tool that a model means by a name: one that is called so, or one that it was told of by that name.
pub(super) fn real_name(journal: &Journal, said: &str) -> String {
    let tools = journal.tools();
    let exact = tools.iter().find(|t| t.tool == said);
    exact.or_else(|| tools.iter().find(|t| safe_name(&t.tool) == said)).map_or_else(|| said.to_owned(), |t| t.tool.clone())
}

/// The tool that ends a run: a postmortem to be proved.
pub(super) fn conclude_tool() -> ToolSchema {
    let text = |description: &str| json!({"type": "string", "description": description});
    let citations = json!({"type": "array", "items": {"type": "object", "required": ["evidence", "quote"], "properties": {
        "evidence": text("The evidence's id, as e1."),
        "quote": text("Copied from it letter by letter."),
    }}});
    let claims = |description: &str| {
        json!({"type": "array", "description": description, "items": {"type": "object", "required": ["statement", "citations"],
               "properties": {"statement": {"type": "string"}, "citations": citations}}})
    };
    ToolSchema {
        tool: CONCLUDE.to_owned(),
        description: "Ends the investigation with what you can prove.".to_owned(),
        parameters: json!({"type": "object", "required": ["outcome"], "properties": {
            "outcome": {"type": "string", "enum": ["cause", "healthy", "unknown"], "description": "unknown: the evidence shows no cause."},
            "statement": text("cause or healthy: one sentence that names the objects."),
            "object": {"type": "object", "required": ["kind", "name"], "properties": {"kind": {"type": "string"}, "name": {"type": "string"}},
                       "description": "cause: what somebody would have to change."},
            "signature": text("cause: the exact text that gives it away, part of one of the quotes."),
            "citations": citations,
            "chain": claims("From the symptom to the cause, a claim for each link."),
            "contributing": claims("Other proved problems of the same workload."),
            "impact": {"type": "object", "required": ["statement", "citations"], "properties": {"statement": {"type": "string"}, "citations": citations}},
            "timeline": {"type": "array", "items": {"type": "object", "required": ["time", "event", "evidence"], "properties": {
                "time": text("RFC 3339, as in the evidence."), "event": text("Copied from the evidence."), "evidence": {"type": "string"}}}},
            "runbook": {"type": "object", "required": ["name", "namespace", "title", "signature", "evidence"], "properties": {
                "name": {"type": "string"}, "namespace": {"type": "string"}, "title": {"type": "string"},
                "signature": text("The exact text that both the runbook and one of your quotes hold."), "evidence": {"type": "string"}},
                "description": "A runbook that was found and holds the signature."},
        }}),
    }
}
