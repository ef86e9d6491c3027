//! `Runbook`: what a team does about a failure, with the exact signatures it applies to.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// What to do when one of these signatures is seen.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "inquest.dev",
    version = "v1alpha1",
    kind = "Runbook",
    plural = "runbooks",
    namespaced,
    shortname = "irb",
    category = "inquest",
    doc = "What a team does about a failure. Cited only where a postmortem holds one of its exact signatures.",
    printcolumn(name = "Title", type_ = "string", json_path = ".spec.title"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RunbookSpec {
    #[schemars(length(min = 1, max = 253))]
    pub title: String,
    /// Exact texts, as a log, an event or a status prints them.
    #[schemars(length(min = 1, max = 32), inner(length(min = 4, max = 512)))]
    pub signatures: Vec<String>,
    /// The services it is about. Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub services: Vec<String>,
    /// Markdown.
    #[schemars(length(max = 65536))]
    pub body: String,
}
