//! The arguments of the tools. Plain types with defaults: some model APIs refuse `null` in a schema.

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::kinds::{self, Kind};
use crate::tools::server::{Caller, Refusal, kind_name, label_name, object_name};

/// A namespace, or an object of it.
#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Scope {
    /// Empty: the namespace of the investigation.
    pub namespace: String,
    /// For example Deployment. Empty, with `name`: everything in the namespace.
    pub kind: String,
    pub name: String,
    /// How far back events are taken into account, in minutes.
    #[schemars(range(min = 1, max = 1440))]
    pub window_minutes: u32,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Get {
    /// For example Pod, services or deploy.
    pub kind: String,
    /// Empty: the namespace of the investigation.
    pub namespace: String,
    /// Empty: a row for each object of the kind.
    pub name: String,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Logs {
    /// Empty: the namespace of the investigation.
    pub namespace: String,
    pub pod: String,
    /// Empty: the only container, or the first that failed.
    pub container: String,
    /// The container before the last restart; where there was none, the current one.
    pub previous: bool,
    /// Lines from the end.
    #[schemars(range(min = 1, max = 500))]
    pub tail: u32,
}

pub fn namespace(given: &str, caller: &Caller) -> Result<String, Refusal> {
    if given.is_empty() { Ok(caller.tenant.clone()) } else { label_name("namespace", given) }
}

pub fn kind(given: &str) -> Result<&'static Kind, Refusal> {
    let word = kind_name("kind", given)?;
    if ["secret", "secrets"].contains(&word.to_ascii_lowercase().as_str()) {
        return Err(Refusal::SecretDenied("Secrets are not read here; what refers to one says whether it is missing".to_owned()));
    }
    kinds::find(&word)
        .ok_or_else(|| Refusal::UnknownKind { what: format!("the kind {word}"), known: kinds::KINDS.iter().map(|k| k.kind).collect::<Vec<_>>().join(", ") })
}

pub fn name(given: &str) -> Result<String, Refusal> {
    object_name("name", given)
}

impl Scope {
    /// The object, when one is named.
    pub fn target(&self) -> Result<Option<(String, String)>, Refusal> {
        match (self.kind.is_empty(), self.name.is_empty()) {
            (true, true) => Ok(None),
            (false, false) => Ok(Some((kind(&self.kind)?.kind.to_owned(), name(&self.name)?))),
            (true, false) => Err(Refusal::InvalidArgument { field: "kind", problem: "is missing: a name needs its kind".to_owned() }),
            (false, true) => {
                Err(Refusal::InvalidArgument { field: "name", problem: "is missing: a kind needs a name; leave both empty for the namespace".to_owned() })
            }
        }
    }
    pub fn window(&self) -> SignedDuration {
        let minutes = if self.window_minutes == 0 { 60 } else { self.window_minutes.min(1440) };
        SignedDuration::from_mins(minutes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{kind, name};
    use crate::fuzz::{hostile, run};

    /// What passes the slots is a known kind and a plain name: nothing that could be a flag, a path, a query or a second header.
    #[test]
    fn fuzz_slots() {
        const WORDS: &[&str] = &[
            "pod", "Pod", "pods", "secret", "Secrets", "web", "-", "--", "/", "..", "?", "&", "=", "%2f", "\n", "\r\n", "\0", " ", ".", ",", "*", "é", "а",
            "\u{200b}", "0", "A",
        ];
        run("slots", (hostile(WORDS), hostile(WORDS)), |(k, n)| {
            if let Ok(kind) = kind(&k) {
                proptest::prop_assert!(kind.kind != "Secret");
                proptest::prop_assert!(k.bytes().all(|b| b.is_ascii_alphanumeric()), "{:?}", k);
            }
            if let Ok(name) = name(&n) {
                proptest::prop_assert!(!name.is_empty() && name.len() <= 253 && !name.starts_with('-'), "{:?}", name);
                proptest::prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.'), "{:?}", name);
                proptest::prop_assert!(!name.contains(".."), "{:?}", name);
            }
            Ok(())
        });
    }
}
