//! `InvestigationJournal`: one chunk of the durable record of a run, owned by its Investigation.
//!
//! A resource of our own rather than a ConfigMap, so that the operator needs no right to write anything that is not its own.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// A chunk of a journal: entries by their sequence number, each gzip-compressed JSON in base64. Read it with `inquest trace`.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "inquest.dev",
    version = "v1alpha1",
    kind = "InvestigationJournal",
    plural = "investigationjournals",
    namespaced,
    shortname = "ijournal",
    doc = "A chunk of the durable record of one Investigation. Written by the operator alone.",
    printcolumn(name = "Investigation", type_ = "string", json_path = ".spec.investigation"),
    printcolumn(name = "Chunk", type_ = "integer", json_path = ".spec.chunk"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct InvestigationJournalSpec {
    /// The Investigation's name.
    #[schemars(length(max = 253))]
    pub investigation: String,
    /// The Investigation's UID: a journal is never read into another run of the same name.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// The number of this chunk, from 0.
    pub chunk: i32,
    /// Entries by sequence number, as `000001`.
    #[serde(default)]
    pub entries: BTreeMap<String, String>,
}
