//! `ToolServer`: an MCP server that investigations may call, ours or anybody's.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AllowedNamespaces, SecretKeyRef, Span, Tls, is_default};

/// Where an MCP server is, who may use it, and which of its tools are offered.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "inquest.dev",
    version = "v1alpha1",
    kind = "ToolServer",
    plural = "toolservers",
    namespaced,
    status = "ToolServerStatus",
    shortname = "its",
    category = "inquest",
    doc = "An MCP server over streamable HTTP that investigations may call.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Protocol", type_ = "string", json_path = ".status.protocolVersion"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.url) != has(self.service)")
        .message("exactly one of spec.url and spec.service is required").field_path(".url"),
)]
pub struct ToolServerSpec {
    /// The MCP endpoint, for example `http://kubernetes-tools.inquest-system:8080/mcp`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024), regex(pattern = r"^https?://"))]
    pub url: String,
    /// A Service of the cluster, in place of `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTarget>,
    /// Whose investigations may use it.
    #[serde(default)]
    pub allowed_namespaces: AllowedNamespaces,
    #[serde(default)]
    pub auth: ToolServerAuth,
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: Tls,
    /// How long one call may take.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
    #[serde(default, skip_serializing_if = "is_default")]
    pub tools: ToolFilter,
    /// A longer result is cut, and says so.
    #[serde(default = "default_bytes")]
    #[schemars(range(min = 1024, max = 1_048_576))]
    pub max_result_bytes: i64,
}

fn default_timeout() -> Span {
    Span::from("10s")
}
fn default_bytes() -> i64 {
    32_768
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ServiceTarget {
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Absent: the ToolServer's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub namespace: String,
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    #[serde(default = "default_path")]
    #[schemars(length(max = 1024), regex(pattern = "^/"))]
    pub path: String,
}

fn default_path() -> String {
    "/mcp".to_owned()
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ToolServerAuth {
    /// InvestigationToken: the run's own short-lived token. SecretToken: a fixed one. None: nothing is sent.
    #[serde(default, rename = "type")]
    pub kind: AuthType,
    /// The header that carries the token. With `Authorization` it is sent as `Bearer`.
    #[serde(default = "default_header")]
    #[schemars(length(min = 1, max = 64), regex(pattern = "^[A-Za-z0-9-]+$"))]
    pub header: String,
    /// For SecretToken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretKeyRef>,
}

fn default_header() -> String {
    "Authorization".to_owned()
}

impl Default for ToolServerAuth {
    fn default() -> Self {
        Self { kind: AuthType::default(), header: default_header(), secret_ref: None }
    }
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthType {
    #[default]
    InvestigationToken,
    SecretToken,
    None,
}

/// Which tools are offered. One without the annotation `readOnlyHint: true` is not, unless `allow` names it exactly.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ToolFilter {
    /// Tools to offer; `*` stands for any text. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 128)))]
    pub allow: Vec<String>,
    /// Tools not to offer; wins over `allow`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 128)))]
    pub deny: Vec<String>,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ToolServerStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]), length(max = 8))]
    pub conditions: Vec<Condition>,
    /// The MCP revision that both sides speak.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub protocol_version: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub tools: Vec<DiscoveredTool>,
    /// When the tools were last asked for and found changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_discovered: Option<Time>,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveredTool {
    #[schemars(length(max = 128))]
    pub name: String,
    pub offered: bool,
    /// Why it is not offered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub reason: String,
}
