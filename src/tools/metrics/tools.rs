//! The three tools: from arguments to one JSON object each.

use std::{sync::Arc, time::Duration};

use jiff::{Timestamp, civil::Date};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    backend::{Backend, Figures, MockMode, Source},
    catalogue::Catalogue,
    guard::{Checked, GetMetric, Limits, Role, check, check_model, codes},
};
use crate::tools::server::{Caller, Refusal, Registry, ToolSpec};

/// One call. Over the backend's own 10 s, so that the caller gets the reason.
const DEADLINE: Duration = Duration::from_secs(12);
/// A thousand rows of a few dimensions.
const MAX_BYTES: usize = 200_000;

pub struct Settings {
    pub backend: Backend,
    pub catalogue: Catalogue,
    pub mode: MockMode,
    pub limits: Limits,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Describe {
    /// A model of the catalogue, as in mart_sales.
    model_name: String,
}

struct State {
    figures: Figures,
    limits: Limits,
}

/// The tools over a backend.
pub fn tools(settings: Settings) -> Registry {
    let Settings { backend, catalogue, mode, limits } = settings;
    let state = Arc::new(State { figures: Figures { backend, catalogue, mode, max_rows: limits.max_rows }, limits });
    let specs = vec![
        ToolSpec::over(
            &state,
            "list_available_metrics",
            "The metrics that can be asked for, each with its dimensions.",
            |state, caller, _: Nothing| async move { state.list(&caller).await },
        ),
        ToolSpec::over(
            &state,
            "get_metric",
            "A metric's figures over a range of days, grouped by dimensions and filtered by their values. For the caller's own tenant.",
            |state, caller, args: GetMetric| async move { state.get(&caller, args).await },
        ),
        ToolSpec::over(&state, "get_schema_description", "What a model is, and what its columns hold.", |state, caller, args: Describe| async move {
            state.describe(&caller, &args.model_name)
        }),
    ];
    Registry::new("metrics", specs, DEADLINE, MAX_BYTES)
}

impl State {
    async fn list(&self, caller: &Caller) -> Result<Value, Refusal> {
        Role::of(caller)?;
        let (metrics, source) = self.figures.list(caller).await?;
        Ok(said(json!({"metrics": metrics}), source))
    }

    async fn get(&self, caller: &Caller, args: GetMetric) -> Result<Value, Refusal> {
        Role::of(caller)?;
        let query: Checked = check(args, caller, &self.limits, today())?;
        let (rows, source) = self.figures.query(&query, caller).await?;
        let result = json!({
            "rows": rows.rows, "metric": query.metric, "generated_at": Timestamp::now().to_string(),
            "truncated": rows.total > rows.rows.len() as u64, "row_count": rows.rows.len(), "total_row_count": rows.total, "row_limit": self.limits.max_rows,
        });
        Ok(said(result, source))
    }

    fn describe(&self, caller: &Caller, model: &str) -> Result<Value, Refusal> {
        check_model(model, Role::of(caller)?, &self.limits)?;
        let Some(found) = self.figures.catalogue.model(model) else {
            let known: Vec<&str> = self.figures.catalogue.models.iter().map(|m| m.name.as_str()).collect();
            return Err(Refusal::denied(codes::UNKNOWN_MODEL, format!("model_name: there is no model {model:?}; there are: {}", known.join(", "))));
        };
        Ok(json!({"description": found.description, "columns": found.columns}))
    }
}

/// What did not come from the backend says so, in words too.
fn said(mut result: Value, source: Source) -> Value {
    result["source"] = json!(source);
    if source == Source::Fixture {
        result["warning"] = json!("these are example figures: the metrics backend was not asked, or cannot be reached");
    }
    result
}

/// In UTC, as the backends count.
fn today() -> Date {
    Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date()
}
