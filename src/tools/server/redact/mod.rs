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

#[cfg(test)]
mod tests {
    use super::redact_text;
    use crate::fuzz::{hostile, run};

    /// Whatever stands around it: a key of a known shape is hidden, and what was hidden stays as it is.
    #[test]
    fn fuzz_redaction() {
        const WORDS: &[&str] = &[
            "password",
            "=",
            ": ",
            "\"",
            "'",
            "\\",
            "\n",
            "-----BEGIN RSA PRIVATE KEY-----",
            "-----END",
            "://a:",
            "@",
            "Bearer ",
            "Basic ",
            "token",
            "{",
            "}",
            "[redacted:secret]",
            "<password>",
            "</",
            "--token ",
            "name: TOKEN\n  value: ",
            "Cookie: a=",
            "eyJ",
            ".",
            "$",
            "é",
            "\u{200b}",
            "key",
            "secret",
            "hunter22",
        ];
        run("redaction", hostile(WORDS), |text| {
            let key = format!("AKIA{}", "ABCDEFGHIJKLMNOP");
            let (out, _) = redact_text(&format!("{text} {key} {text}"));
            proptest::prop_assert!(!out.contains(&key), "{out}");
            let (clean, _) = redact_text(&text);
            let _no_panic = redact_text(&clean);
            Ok(())
        });
    }
}
