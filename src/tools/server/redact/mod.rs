//! Redaction before anything leaves a tool: values that look secret become typed placeholders.
//!
//! `shapes` knows what a secret looks like, `names` what a secret is called. What of it is found, and what is wrongly taken for one, is
//! measured on two corpora (`tests/redaction`).

mod names;
mod shapes;

use serde_json::Value;

pub use names::is_secret_name;

/// The text without values that look secret, and how many there were.
#[must_use]
pub fn redact_text(text: &str) -> (String, usize) {
    let (text, by_shape) = shapes::redact(text);
    let (text, by_name) = names::redact(text);
    (text, by_shape + by_name)
}

/// Redacts every string of a value in place; returns how many secrets there were.
pub fn redact_value(value: &mut Value) -> usize {
    match value {
        Value::String(text) => {
            let (clean, count) = redact_text(text);
            if count > 0 {
                *text = clean;
            }
            count
        }
        Value::Array(items) => items.iter_mut().map(redact_value).sum(),
        Value::Object(map) => {
            // {"name": "DB_PASSWORD", "value": "…"}: the name says that the value is one.
            let named = map.get("name").and_then(Value::as_str).is_some_and(is_secret_name);
            map.iter_mut().map(|(key, value)| if named && key == "value" || is_secret_name(key) { hide(value) } else { redact_value(value) }).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Hides a string whole; anything else is looked into.
fn hide(value: &mut Value) -> usize {
    match value {
        Value::String(text) if !text.is_empty() && !names::is_no_value(text) => {
            "[redacted:secret]".clone_into(text);
            1
        }
        other => redact_value(other),
    }
}
