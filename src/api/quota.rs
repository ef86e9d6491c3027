//! `InvestigationQuota`: how much the investigations of a namespace may do together.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Usd;

/// What the investigations of a namespace may use together. Over it a new one waits, and says for what and until when.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "inquest.dev",
    version = "v1alpha1",
    kind = "InvestigationQuota",
    plural = "investigationquotas",
    namespaced,
    status = "InvestigationQuotaStatus",
    shortname = "inquota",
    category = "inquest",
    doc = "How much the investigations of a namespace may do together.",
    printcolumn(name = "Running", type_ = "integer", json_path = ".status.running"),
    printcolumn(name = "Max Running", type_ = "integer", json_path = ".spec.maxRunning"),
    printcolumn(name = "Last Hour", type_ = "integer", json_path = ".status.startedLastHour"),
    printcolumn(name = "Max Per Hour", type_ = "integer", json_path = ".spec.maxPerHour"),
    printcolumn(name = "Last Day USD", type_ = "string", json_path = ".status.costLastDayUSD"),
    printcolumn(name = "Max Per Day USD", type_ = "string", json_path = ".spec.maxCostPerDayUSD"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct InvestigationQuotaSpec {
    /// Runs at once. Absent: as many as come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub max_running: Option<i32>,
    /// Runs that begin within an hour. Absent: as many as come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub max_per_hour: Option<i32>,
    /// US dollars that models may cost within 24 hours. A run counts with its maxCostUSD until it has ended, and with its cost after. Absent: no limit.
    #[serde(default, rename = "maxCostPerDayUSD", skip_serializing_if = "Option::is_none")]
    pub max_cost_per_day_usd: Option<Usd>,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InvestigationQuotaStatus {
    pub running: i32,
    pub started_last_hour: i32,
    #[serde(rename = "costLastDayUSD")]
    #[schemars(length(max = 32))]
    pub cost_last_day_usd: String,
    /// The runs of the last 24 hours. Deleting an Investigation does not take it from here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub runs: Vec<CountedRun>,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CountedRun {
    #[schemars(length(max = 64))]
    pub uid: String,
    #[schemars(length(max = 253))]
    pub name: String,
    pub start_time: Time,
    /// What it may cost while it runs, and what it did cost after.
    #[serde(rename = "costUSD")]
    #[schemars(length(max = 32))]
    pub cost_usd: String,
    #[serde(default)]
    pub ended: bool,
}
