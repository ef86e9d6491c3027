//! Evidence: one tool result as it was recorded.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One tool result. Its text is what the investigator saw and what a citation must quote: redacted, cut, never changed again.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Evidence {
    /// `e1`, `e2` … in the order of the journal.
    pub id: String,
    pub server: String,
    pub tool: String,
    pub arguments: Value,
    pub at: Timestamp,
    pub text: String,
    /// Something was cut from the text.
    pub truncated: bool,
    /// Set where the tool refused or failed: a guard's code or an error's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl Evidence {
    /// Whether `quote` stands in this evidence word for word: in the text as recorded, or in one of the strings that it encodes
    /// as JSON (so that a person reads `configmap "x" not found` and not its escaped form).
    #[must_use]
    pub fn contains(&self, quote: &str) -> bool {
        !quote.trim().is_empty() && (self.text.contains(quote) || self.json().is_some_and(|v| any_string(&v, &mut |s| s.contains(quote))))
    }

    /// The text decoded, where it is JSON.
    #[must_use]
    pub fn json(&self) -> Option<Value> {
        serde_json::from_str(&self.text).ok()
    }

    /// A line for `status.evidence`: the tool's own summary, or the size.
    #[must_use]
    pub fn summary(&self) -> String {
        let said = self.json().and_then(|v| ["summary", "error"].iter().find_map(|k| v.get(k).and_then(Value::as_str).map(str::to_owned)));
        said.unwrap_or_else(|| format!("{} bytes", self.text.len()))
    }
}

fn any_string(value: &Value, test: &mut impl FnMut(&str) -> bool) -> bool {
    match value {
        Value::String(s) => test(s),
        Value::Array(items) => items.iter().any(|v| any_string(v, test)),
        Value::Object(map) => map.values().any(|v| any_string(v, test)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
