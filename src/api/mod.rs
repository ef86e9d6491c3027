//! The custom resources of `inquest.dev/v1alpha1`, as types. The CRDs in `crds/` and in the chart are generated from here.
//!
//! Must not import: the operator, the agent, a tool server. Everything else may import this.

mod investigation;
mod journal;
mod model;
mod money;
mod quota;
mod runbook;
mod span;
mod toolserver;

pub use investigation::*;
pub use journal::*;
pub use model::*;
pub use money::*;
pub use quota::*;
pub use runbook::*;
pub use span::*;
pub use toolserver::*;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The API group of every resource here.
pub const GROUP: &str = "inquest.dev";
/// The ServiceAccount that a run reads as unless its spec names another.
pub const DEFAULT_READER: &str = "inquest-reader";

/// Every CRD with the file name it is committed under.
#[must_use]
pub fn crds() -> Vec<(&'static str, CustomResourceDefinition)> {
    vec![
        ("investigations.yaml", Investigation::crd()),
        ("toolservers.yaml", ToolServer::crd()),
        ("models.yaml", Model::crd()),
        ("runbooks.yaml", Runbook::crd()),
        ("investigationquotas.yaml", InvestigationQuota::crd()),
        ("investigationjournals.yaml", InvestigationJournal::crd()),
    ]
}

/// An object of the cluster, by identity.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// For example `v1` or `apps/v1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub api_version: String,
    /// For example `Deployment`.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Empty for objects of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub namespace: String,
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

impl std::fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() { write!(f, "{} {}", self.kind, self.name) } else { write!(f, "{} {}/{}", self.kind, self.namespace, self.name) }
    }
}

/// A reference to a resource of ours that may live in another namespace.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct NamespacedName {
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Absent: the namespace of the resource that refers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub namespace: String,
}

impl std::fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Which namespaces may use a ToolServer or a Model.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AllowedNamespaces {
    /// Same: only its own namespace. All: every namespace. Selector: those whose labels match `selector`.
    #[serde(default)]
    pub from: NamespacesFrom,
    /// With `from: Selector`: labels that a namespace must carry, all of them.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub selector: std::collections::BTreeMap<String, String>,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamespacesFrom {
    #[default]
    Same,
    All,
    Selector,
}

impl AllowedNamespaces {
    /// Whether `namespace`, with these labels, may use what lives in `home`.
    #[must_use]
    pub fn allows(&self, home: &str, namespace: &str, labels: &std::collections::BTreeMap<String, String>) -> bool {
        namespace == home
            || match self.from {
                NamespacesFrom::Same => false,
                NamespacesFrom::All => true,
                NamespacesFrom::Selector => !self.selector.is_empty() && self.selector.iter().all(|(k, v)| labels.get(k) == Some(v)),
            }
    }
}

/// A key of a Secret in the same namespace.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// A key of a ConfigMap in the same namespace.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapKeyRef {
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// How to trust an HTTPS endpoint.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// A Secret key that holds PEM certificates to trust beside the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretKeyRef>,
}

/// `serde(skip_serializing_if)` for values that are as by default.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests;
