//! `Model`: a language model endpoint with its prices.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AllowedNamespaces, ConfigMapKeyRef, SecretKeyRef, Span, Tls, Usd, is_default};

/// A language model, what it costs, and who may use it.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "inquest.dev",
    version = "v1alpha1",
    kind = "Model",
    plural = "models",
    namespaced,
    status = "ModelStatus",
    shortname = "imodel",
    category = "inquest",
    doc = "A language model that investigations may be decided by.",
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.provider"),
    printcolumn(name = "Model", type_ = "string", json_path = ".spec.model"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Breaker", type_ = "string", json_path = ".status.breaker", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ModelSpec {
    /// OpenAI: any server that speaks chat completions. Anthropic: Messages. Script: a recorded conversation.
    pub provider: Provider,
    /// The recorded conversation, with provider Script: a ConfigMap key in the Model's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script_ref: Option<ConfigMapKeyRef>,
    /// The model's name, as the provider knows it.
    #[schemars(length(min = 1, max = 253))]
    pub model: String,
    /// Absent: the provider's public address.
    #[serde(default, rename = "baseURL", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024), regex(pattern = r"^https?://"))]
    pub base_url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_secret_ref: Option<SecretKeyRef>,
    /// The header that carries the key. Absent: Authorization as Bearer for OpenAI, x-api-key for Anthropic. Azure takes api-key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64), regex(pattern = r"^[A-Za-z0-9-]*$"))]
    pub api_key_header: String,
    /// Tools: native tool calling. JSON: a strict JSON protocol, for models without it.
    #[serde(default)]
    pub protocol: Protocol,
    /// 0 is the most repeatable. Negative: not sent, for models that take none.
    #[serde(default)]
    #[schemars(range(min = -1, max = 2))]
    pub temperature: f64,
    /// Sent to providers that take one: the same prompt then mostly gives the same answer. Negative: not sent.
    #[serde(default = "default_seed")]
    #[schemars(range(min = -1, max = 2_147_483_647))]
    pub seed: i64,
    /// Take the answer as it comes. For servers and proxies that cut a connection on which nothing moves.
    #[serde(default)]
    pub stream: bool,
    #[serde(default = "default_output")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_output_tokens: i64,
    #[serde(default = "default_context")]
    #[schemars(range(min = 1024, max = 100_000_000))]
    pub context_tokens: i64,
    /// How long one request may take.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
    /// Absent: unknown, and a run with a cost cap is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: Tls,
    #[serde(default, rename = "proxyURL", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024), regex(pattern = r"^https?://"))]
    pub proxy_url: String,
    /// Sent with every request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub headers: BTreeMap<String, String>,
    #[serde(default)]
    pub allowed_namespaces: AllowedNamespaces,
    /// Requests at once, over all runs.
    #[serde(default = "default_concurrency")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_concurrency: i32,
    /// Requests a minute, over all runs. 0: as many as come.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000))]
    pub max_requests_per_minute: i32,
    /// What finishes a run when the model fails.
    #[serde(default)]
    pub fallback: Fallback,
}

fn default_seed() -> i64 {
    1
}
fn default_output() -> i64 {
    4096
}
fn default_context() -> i64 {
    128_000
}
fn default_timeout() -> Span {
    Span::from("60s")
}
fn default_concurrency() -> i32 {
    4
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    OpenAI,
    Anthropic,
    Script,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    #[default]
    Tools,
    JSON,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    #[default]
    Playbook,
    None,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Price {
    #[serde(rename = "inputPerMillionUSD")]
    pub input_per_million_usd: Usd,
    /// Absent: as input.
    #[serde(default, rename = "cachedInputPerMillionUSD", skip_serializing_if = "Option::is_none")]
    pub cached_input_per_million_usd: Option<Usd>,
    /// Tokens that the provider writes into its cache (Anthropic). Absent: as input.
    #[serde(default, rename = "cacheWritePerMillionUSD", skip_serializing_if = "Option::is_none")]
    pub cache_write_per_million_usd: Option<Usd>,
    #[serde(rename = "outputPerMillionUSD")]
    pub output_per_million_usd: Usd,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ModelStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]), length(max = 8))]
    pub conditions: Vec<Condition>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub last_error: String,
    /// Closed, Open or HalfOpen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16))]
    pub breaker: String,
}
