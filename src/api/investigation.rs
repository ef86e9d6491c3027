//! `Investigation`: a question or a target, a budget, an identity; in its status the outcome.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NamespacedName, ObjectRef, Span, Usd, is_default};

/// What to find out, how much it may cost, and whose eyes to look with.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "inquest.dev",
    version = "v1alpha1",
    kind = "Investigation",
    plural = "investigations",
    namespaced,
    status = "InvestigationStatus",
    shortname = "inq",
    category = "inquest",
    doc = "A question about a broken workload, answered with quoted evidence in the status.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Stop", type_ = "string", json_path = ".status.stopReason"),
    printcolumn(name = "Root Cause", type_ = "string", json_path = ".status.postmortem.rootCause.statement"),
    printcolumn(name = "Calls", type_ = "integer", json_path = ".status.usage.toolCalls"),
    printcolumn(name = "Cost", type_ = "string", json_path = ".status.usage.costUSD"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.target.name", priority = 1),
    printcolumn(name = "Model", type_ = "string", json_path = ".status.investigator.model", priority = 1),
    printcolumn(name = "Runbook", type_ = "string", json_path = ".status.postmortem.runbook.name", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.question) || has(self.target) || has(self.alert)")
        .message("one of spec.question, spec.target, spec.alert is required")
        .field_path(".question"),
    validation = Rule::new("has(self.question) == has(oldSelf.question) && (!has(self.question) || self.question == oldSelf.question)")
        .message("spec.question is immutable: create a new Investigation"),
    validation = Rule::new("has(self.target) == has(oldSelf.target) && (!has(self.target) || self.target == oldSelf.target)")
        .message("spec.target is immutable: create a new Investigation"),
    validation = Rule::new("has(self.alert) == has(oldSelf.alert) && (!has(self.alert) || self.alert == oldSelf.alert)")
        .message("spec.alert is immutable: create a new Investigation"),
    validation = Rule::new("self.window == oldSelf.window").message("spec.window is immutable: create a new Investigation"),
    validation = Rule::new("self.serviceAccountName == oldSelf.serviceAccountName")
        .message("spec.serviceAccountName is immutable: create a new Investigation"),
    validation = Rule::new("has(self.modelRef) == has(oldSelf.modelRef) && (!has(self.modelRef) || self.modelRef == oldSelf.modelRef)")
        .message("spec.modelRef is immutable: create a new Investigation"),
    validation = Rule::new("has(self.tools) == has(oldSelf.tools) && (!has(self.tools) || self.tools == oldSelf.tools)")
        .message("spec.tools is immutable: create a new Investigation"),
)]
pub struct InvestigationSpec {
    /// The question, as you would ask a colleague. One of question, target, alert is required.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 1024))]
    pub question: String,
    /// The object to look at. Its namespace is the Investigation's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetRef>,
    /// The alert that started it, as Alertmanager sends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert: Option<Alert>,
    /// How far back to look for events, changes and logs.
    #[serde(default = "default_window")]
    pub window: Span,
    /// The ServiceAccount of this namespace whose rights the run reads with. The API server decides what it sees.
    #[serde(default = "default_reader")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub service_account_name: String,
    /// The Model that decides the next step. Absent: the playbooks do, which need none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_ref: Option<NamespacedName>,
    /// Which tools the run may call. Absent: those of every ToolServer that allows this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolSelection>,
    /// Hard caps. They can be raised while the run lives, never lowered.
    #[serde(default)]
    pub budget: BudgetSpec,
    /// Whether a person must agree, before the start or before the postmortem is published.
    #[serde(default)]
    pub approval: Approval,
    /// true stops the run after the call in flight is dropped; false resumes it with its budget as it stood.
    #[serde(default)]
    pub suspend: bool,
    /// How long a finished Investigation is kept before it is deleted.
    #[serde(default = "default_ttl")]
    pub ttl_after_finished: Span,
}

fn default_window() -> Span {
    Span::from("1h")
}
fn default_ttl() -> Span {
    Span::from("168h")
}
fn default_reader() -> String {
    super::DEFAULT_READER.to_owned()
}

/// An object of the Investigation's own namespace.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// For example `apps/v1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub api_version: String,
    /// For example `Deployment`.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Z][A-Za-z0-9]*$"))]
    pub kind: String,
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64), inner(length(max = 1024)))]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32), inner(length(max = 4096)))]
    pub annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Time>,
    /// Alertmanager's fingerprint; with the namespace it is the key for deduplication.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub fingerprint: String,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ToolSelection {
    /// ToolServers by name. Empty: every one that allows this namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub servers: Vec<NamespacedName>,
    /// Tools that may be called; `*` stands for any text. Empty: all that are offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 128)))]
    pub allow: Vec<String>,
    /// Tools that may not be called; wins over `allow`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 128)))]
    pub deny: Vec<String>,
}

/// Caps of one run, enforced in code before anything is spent.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.maxToolCalls >= oldSelf.maxToolCalls").message("spec.budget.maxToolCalls can only grow"),
    validation = Rule::new("double(self.maxCostUSD) >= double(oldSelf.maxCostUSD)").message("spec.budget.maxCostUSD can only grow"),
    validation = Rule::new("self.maxTokens >= oldSelf.maxTokens").message("spec.budget.maxTokens can only grow"),
    validation = Rule::new("duration(self.maxDuration) >= duration(oldSelf.maxDuration)").message("spec.budget.maxDuration can only grow"),
)]
pub struct BudgetSpec {
    /// Tool calls that may be executed.
    #[serde(default = "default_calls")]
    #[schemars(range(min = 0, max = 1000))]
    pub max_tool_calls: i32,
    /// US dollars that the model may cost.
    #[serde(default = "default_cost", rename = "maxCostUSD")]
    pub max_cost_usd: Usd,
    /// Tokens of the model, in and out.
    #[serde(default = "default_tokens")]
    #[schemars(range(min = 0, max = 100_000_000))]
    pub max_tokens: i64,
    /// Wall clock from the start, time in suspension not counted.
    #[serde(default = "default_duration")]
    pub max_duration: Span,
}

fn default_calls() -> i32 {
    8
}
fn default_cost() -> Usd {
    Usd::from("0.50")
}
fn default_tokens() -> i64 {
    200_000
}
fn default_duration() -> Span {
    Span::from("10m")
}

impl Default for BudgetSpec {
    fn default() -> Self {
        Self { max_tool_calls: default_calls(), max_cost_usd: default_cost(), max_tokens: default_tokens(), max_duration: default_duration() }
    }
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// None, BeforeStart or BeforePublish.
    #[serde(default)]
    pub policy: ApprovalPolicy,
    /// Approved or Rejected, written by a person. Empty: not decided.
    #[serde(default)]
    pub decision: ApprovalDecision,
    /// Why, for the record.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalPolicy {
    #[default]
    None,
    BeforeStart,
    BeforePublish,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalDecision {
    #[default]
    #[serde(rename = "")]
    Undecided,
    Approved,
    Rejected,
}

/// Where a run stands.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    #[default]
    Pending,
    Running,
    Suspended,
    AwaitingApproval,
    Concluded,
    Inconclusive,
    Failed,
    Cancelled,
    Rejected,
}

impl Phase {
    /// A run in this phase does nothing more.
    #[must_use]
    pub fn is_final(self) -> bool {
        match self {
            Self::Concluded | Self::Inconclusive | Self::Failed | Self::Cancelled | Self::Rejected => true,
            Self::Pending | Self::Running | Self::Suspended | Self::AwaitingApproval => false,
        }
    }
}

/// Why a run stopped.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The investigator had its answer.
    Done,
    /// `maxToolCalls` was reached.
    StepCap,
    /// `maxCostUSD` was reached.
    CostCap,
    /// `maxTokens` was reached.
    TokenCap,
    /// `maxDuration` was over.
    Deadline,
    /// A person ended it.
    Cancelled,
    /// It could not go on.
    Failed,
}

impl StopReason {
    /// The word in metrics and traces.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::StepCap => "step_cap",
            Self::CostCap => "cost_cap",
            Self::TokenCap => "token_cap",
            Self::Deadline => "deadline",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InvestigationStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pending, Running, Suspended, AwaitingApproval, Concluded, Inconclusive, Failed, Cancelled or Rejected.
    #[serde(default)]
    pub phase: Phase,
    /// Why the run stopped. Absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// Accepted, Progressing, Complete, Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]), length(max = 8))]
    pub conditions: Vec<Condition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub investigator: InvestigatorStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postmortem: Option<Postmortem>,
    /// One line per tool result. The results themselves are in the journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub evidence: Vec<EvidenceSummary>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_ref: Option<JournalRef>,
}

/// Who decided the steps.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct InvestigatorStatus {
    /// playbook, chat or script.
    #[schemars(length(max = 32))]
    pub kind: String,
    /// The model, for `chat`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 330))]
    pub model: String,
    /// The investigator that failed and was replaced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 330))]
    pub fallback_from: String,
}

/// What the run has used so far.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub steps: i32,
    pub tool_calls: i32,
    /// Asked for past the cap, not executed.
    pub skipped_calls: i32,
    /// Refused by a guard or by the API server.
    pub denied_calls: i32,
    /// Tokens of the model, as they were charged.
    pub input_tokens: i64,
    /// The part of the input tokens that the provider read from its cache.
    #[serde(default)]
    pub cached_tokens: i64,
    pub output_tokens: i64,
    #[serde(rename = "costUSD")]
    #[schemars(length(max = 32))]
    pub cost_usd: String,
    /// Wall clock, time in suspension not counted.
    #[schemars(length(max = 32))]
    pub duration: String,
}

/// Whether a cause was proved.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    RootCauseFound,
    /// Everything that belongs to the target was listed completely and is healthy.
    Healthy,
    #[default]
    Inconclusive,
}

/// The verified outcome. Every sentence in it carries a verbatim quote of recorded evidence.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Postmortem {
    /// RootCauseFound, Healthy or Inconclusive. Unless a cause was found `rootCause` is absent.
    pub outcome: Outcome,
    #[schemars(length(max = 1024))]
    pub summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_cause: Option<RootCause>,
    /// From the symptom to the cause, each link proved by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 12))]
    pub chain: Vec<PublishedClaim>,
    /// Other proved problems of the same target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub contributing: Vec<PublishedClaim>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub timeline: Vec<TimelineEntry>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub impact: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runbook: Option<CitedRunbook>,
    /// Suggestions. Nothing here is executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub actions: Vec<SuggestedAction>,
    /// Text in the evidence that reads like instructions to whoever investigates. It was not followed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub suspicious: Vec<PublishedClaim>,
    /// What was denied, skipped, cut or out of reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 512)))]
    pub not_checked: Vec<String>,
    /// Claims that were said, not proved, and so not published.
    #[serde(default)]
    pub dropped_claims: i32,
    /// Why no cause is named. Never an answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub refusal: String,
    /// The same, to read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 8192))]
    pub markdown: String,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RootCause {
    #[schemars(length(max = 1024))]
    pub statement: String,
    pub object: ObjectRef,
    /// The exact text that gave it away.
    #[schemars(length(max = 1024))]
    pub signature: String,
    #[schemars(length(max = 8))]
    pub citations: Vec<Citation>,
}

/// A statement with the quotes that prove it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PublishedClaim {
    #[schemars(length(max = 1024))]
    pub statement: String,
    #[schemars(length(max = 8))]
    pub citations: Vec<Citation>,
}

/// A verbatim quote of one piece of evidence.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Citation {
    /// The evidence's id: `e1`, `e2` …
    #[schemars(length(max = 16))]
    pub evidence: String,
    #[schemars(length(max = 1024))]
    pub quote: String,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    pub time: Time,
    #[schemars(length(max = 512))]
    pub event: String,
    #[schemars(length(max = 16))]
    pub evidence: String,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CitedRunbook {
    #[schemars(length(max = 253))]
    pub name: String,
    #[schemars(length(max = 63))]
    pub namespace: String,
    #[schemars(length(max = 253))]
    pub title: String,
    /// The signature that both the runbook and the conclusion hold.
    #[schemars(length(max = 512))]
    pub signature: String,
}

/// Something a person may do. Inquest never does it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SuggestedAction {
    #[schemars(length(max = 253))]
    pub title: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub command: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub reason: String,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceSummary {
    #[schemars(length(max = 16))]
    pub id: String,
    #[schemars(length(max = 253))]
    pub server: String,
    #[schemars(length(max = 128))]
    pub tool: String,
    #[schemars(length(max = 256))]
    pub summary: String,
    pub bytes: i64,
    pub truncated: bool,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct JournalRef {
    /// memory, kubernetes or postgres.
    #[schemars(length(max = 32))]
    pub store: String,
    #[schemars(length(max = 253))]
    pub name: String,
}
