//! Redaction before anything leaves a tool: values that look secret become typed placeholders.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

/// A pattern, the placeholder's type, and whether only the named group `v` is the secret.
struct Rule {
    pattern: Regex,
    kind: &'static str,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    [
        ("pem", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"),
        ("aws-access-key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
        ("github-token", r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,})\b"),
        ("slack-token", r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),
        ("google-key", r"\bAIza[0-9A-Za-z_-]{35}\b"),
        ("stripe-key", r"\b[rs]k_(?:live|test)_[0-9A-Za-z]{16,}\b"),
        ("api-key", r"\bsk-[A-Za-z0-9_-]{20,}"),
        ("jwt", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
        ("bearer", r"(?i)\bbearer\s+(?P<v>[A-Za-z0-9._~+/=-]{12,})"),
        ("basic-auth", r"(?i)\bbasic\s+(?P<v>[A-Za-z0-9+/=]{12,})"),
        ("url-password", r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s:/@]*:(?P<v>[^\s@/]+)@"),
        (
            "secret",
            r#"(?i)["']?\b[A-Za-z0-9_.-]*(?:password|passwd|pwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?token|token)["']?(?:\s*=\s*|:\s+|["']\s*:\s*|:)["']?(?P<v>[^\s"',;&)\]}/:][^\s"',;&)\]}]{3,})"#,
        ),
        (
            "secret",
            r"(?i)--(?:password|passwd|token|secret|api-key|access-key)\s+(?P<v>[^\s-][^\s]{3,})",
        ),
    ]
    .into_iter()
    .filter_map(|(kind, pattern)| Regex::new(pattern).ok().map(|pattern| Rule { pattern, kind }))
    .collect()
});

/// The text without values that look secret, and how many there were.
#[must_use]
pub fn redact_text(text: &str) -> (String, usize) {
    let mut count = 0;
    let mut out = text.to_owned();
    for rule in RULES.iter() {
        if !rule.pattern.is_match(&out) {
            continue;
        }
        out = rule
            .pattern
            .replace_all(&out, |found: &Captures<'_>| {
                let whole = &found[0];
                let value = found.name("v").map_or(whole, |v| v.as_str());
                if is_harmless(value) {
                    return whole.to_owned();
                }
                count += 1;
                let at = found.name("v").map_or(0, |v| v.start() - found.get(0).map_or(0, |m| m.start()));
                format!("{}[redacted:{}]{}", &whole[..at], rule.kind, &whole[at + value.len()..])
            })
            .into_owned();
    }
    (out, count)
}

/// Words after "password:" that are prose or a reference, not a value.
fn is_harmless(value: &str) -> bool {
    value.starts_with("[redacted:")
        || value.starts_with('$')
        || value.starts_with('<')
        || ["authentication", "not", "is", "was", "missing", "required", "null", "none", "true", "false", "empty", "invalid", "must", "authentication failed"]
            .contains(&value.trim_end_matches('.').to_ascii_lowercase().as_str())
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

static SECRET_NAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)(?:^|[_.-])(?:password|passwd|pwd|secret|token|credentials?|api[_-]?key|access[_-]?key|private[_-]?key)$").ok());

/// Whether a variable or a key of this name holds a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    SECRET_NAME.as_ref().is_some_and(|p| p.is_match(name))
}

/// Hides a string whole; anything else is looked into.
fn hide(value: &mut Value) -> usize {
    match value {
        Value::String(text) if !text.is_empty() && !text.starts_with("[redacted:") => {
            "[redacted:secret]".clone_into(text);
            1
        }
        other => redact_value(other),
    }
}
