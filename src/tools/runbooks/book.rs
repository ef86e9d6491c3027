//! A runbook, from a resource or from a Markdown file.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::RunbookSpec;

/// Where a runbook is kept.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    Resource,
    File,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Book {
    pub namespace: String,
    pub name: String,
    pub kept: Kept,
    pub spec: RunbookSpec,
}

/// What stands between two lines `---` at the top of a file.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Front {
    title: String,
    signatures: Vec<String>,
    services: Vec<String>,
}

impl Book {
    /// # Errors
    /// What is wrong with the resource: one that was made before its CRD asked for more.
    pub fn of_resource(object: &Value) -> Result<Self, String> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let spec = serde_json::from_value(object["spec"].clone()).map_err(|e| e.to_string())?;
        Ok(Self { namespace: text("/metadata/namespace"), name: text("/metadata/name"), kept: Kept::Resource, spec })
    }

    /// # Errors
    /// What is wrong with the front matter, or that there is no title.
    pub fn of_file(namespace: &str, name: &str, text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
        let (front, body) = match text.strip_prefix("---\n") {
            Some(rest) => {
                let (front, body) = rest.split_once("\n---\n").ok_or("front matter: it begins with --- and has no second ---")?;
                let front: Front = serde_saphyr::from_str(front).map_err(|e| format!("front matter: {e}"))?;
                (front, body)
            }
            None => (Front::default(), text.as_str()),
        };
        let heading = || body.lines().find_map(|l| l.strip_prefix("# ")).map(|l| l.trim().to_owned());
        let title =
            Some(front.title).filter(|t| !t.trim().is_empty()).or_else(heading).ok_or("no title: neither in the front matter nor as a first line \"# …\"")?;
        if let Some(short) = front.signatures.iter().find(|s| s.chars().count() < 4) {
            // As the CRD asks: a signature such as `err` stands in every log.
            return Err(format!("signatures: {short:?} is shorter than 4 characters"));
        }
        let spec = RunbookSpec { title, signatures: front.signatures, services: front.services, body: body.trim().to_owned() };
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned(), kept: Kept::File, spec })
    }
}
