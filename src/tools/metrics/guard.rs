//! The guards of a call. Pure: they look at the arguments, the catalogue, the settings and the day, and nothing else.

use std::collections::BTreeMap;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use jiff::{ToSpan, civil::Date};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    text::head,
    tools::server::{Caller, Refusal},
};

/// The codes of this server's guards: docs/tools.md has a line for each.
pub mod codes {
    pub const UNKNOWN_METRIC: &str = "unknown_metric";
    pub const UNKNOWN_DIMENSION: &str = "unknown_dimension";
    pub const TOO_MANY_DIMENSIONS: &str = "too_many_dimensions";
    pub const UNKNOWN_FILTER: &str = "unknown_filter";
    pub const TOO_MANY_FILTERS: &str = "too_many_filters";
    pub const FILTER_VALUE_TOO_LONG: &str = "filter_value_too_long";
    pub const CROSS_TENANT: &str = "cross_tenant_denied";
    pub const INVALID_DATE_RANGE: &str = "invalid_date_range";
    pub const DATE_RANGE_TOO_LARGE: &str = "date_range_too_large";
    pub const DATE_RANGE_TOO_OLD: &str = "date_range_too_old";
    pub const DATE_RANGE_IN_FUTURE: &str = "date_range_in_future";
    pub const DENYLISTED_MODEL: &str = "denylisted_model";
    pub const UNKNOWN_MODEL: &str = "unknown_model";
    pub const ROLE_DENIED: &str = "role_denied";
}

/// What a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    Owner,
    Analyst,
    Viewer,
}

impl Role {
    /// # Errors
    /// When the verified token names no role that this server knows.
    pub fn of(caller: &Caller) -> Result<Self, Refusal> {
        match caller.role.as_deref() {
            Some("owner") => Ok(Self::Owner),
            Some("analyst") => Ok(Self::Analyst),
            Some("viewer") => Ok(Self::Viewer),
            other => {
                let said = other.map_or_else(|| "names no role".to_owned(), |r| format!("names the role {:?}, which is not known", head(r, 40)));
                Err(Refusal::denied(codes::ROLE_DENIED, format!("the token {said}: it must be owner, analyst or viewer")))
            }
        }
    }
}

/// Settings of the guards; the defaults are those of docs/tools.md.
#[derive(Clone, Debug)]
pub struct Limits {
    pub max_dimensions: usize,
    pub max_filters: usize,
    pub max_filter_value_len: usize,
    pub max_date_range_days: u32,
    pub oldest_date: Date,
    pub max_future_slack_days: u32,
    pub max_rows: u32,
    pub denied_models: DenyList,
    pub schema_roles: Vec<Role>,
}

/// Globs of model names that nobody may see.
#[derive(Clone, Debug)]
pub struct DenyList(GlobSet);

impl DenyList {
    /// # Errors
    /// When one is no glob.
    pub fn new<S: AsRef<str>>(globs: &[S]) -> Result<Self, globset::Error> {
        let mut set = GlobSetBuilder::new();
        for glob in globs {
            set.add(GlobBuilder::new(glob.as_ref()).case_insensitive(true).build()?);
        }
        Ok(Self(set.build()?))
    }

    #[must_use]
    pub fn denies(&self, model: &str) -> bool {
        self.0.is_match(model)
    }
}

#[derive(Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct DateRange {
    /// The first day, as in 2026-08-01.
    pub start: String,
    /// The last day, included.
    pub end: String,
}

/// `get_metric`'s arguments. There is no tenant and no role among them.
#[derive(Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct GetMetric {
    /// One of list_available_metrics.
    pub metric_name: String,
    pub date_range: DateRange,
    /// What to group by: some of the metric's dimensions.
    #[serde(default)]
    pub dimensions: Vec<String>,
    /// Dimension to the value that it must have.
    #[serde(default)]
    pub filters: BTreeMap<String, String>,
}

/// Arguments that passed what can be checked without the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub metric: String,
    pub dimensions: Vec<String>,
    pub filters: BTreeMap<String, String>,
    pub start: Date,
    pub end: Date,
}

/// # Errors
/// With the code of the guard that one of the arguments met.
pub fn check(args: GetMetric, caller: &Caller, limits: &Limits, today: Date) -> Result<Checked, Refusal> {
    let no = |code, message: String| Err(Refusal::denied(code, message));
    let (start, end) = days(&args.date_range, limits, today)?;
    if args.dimensions.len() > limits.max_dimensions {
        return no(codes::TOO_MANY_DIMENSIONS, format!("dimensions: {} were given, at most {} are allowed", args.dimensions.len(), limits.max_dimensions));
    }
    if args.filters.len() > limits.max_filters {
        return no(codes::TOO_MANY_FILTERS, format!("filters: {} were given, at most {} are allowed", args.filters.len(), limits.max_filters));
    }
    for (name, value) in &args.filters {
        let length = value.chars().count();
        if length > limits.max_filter_value_len {
            return no(
                codes::FILTER_VALUE_TOO_LONG,
                format!("filters.{}: {length} characters, at most {} are allowed", head(name, 60), limits.max_filter_value_len),
            );
        }
        if name.trim().eq_ignore_ascii_case("tenant_id") && *value != caller.tenant {
            return no(codes::CROSS_TENANT, "filters.tenant_id: only the caller's own tenant can be asked for; leave it out".to_owned());
        }
        if value.contains('\0') {
            return Err(Refusal::InvalidArgument { field: "filters", problem: format!("{}: holds a NUL character", head(name, 60)) });
        }
    }
    let mut dimensions = args.dimensions;
    // Asked for twice is asked for once.
    let mut seen = std::collections::BTreeSet::new();
    dimensions.retain(|d| seen.insert(d.clone()));
    Ok(Checked { metric: args.metric_name, dimensions, filters: args.filters, start, end })
}

/// Against what the backend has: each name must be one of the catalogue's own.
///
/// # Errors
/// With the code of what is not there, and what is.
pub fn check_names(query: &Checked, known: &[(String, Vec<String>)]) -> Result<(), Refusal> {
    let metric = head(&query.metric, 80);
    let Some((_, dimensions)) = known.iter().find(|(name, _)| *name == query.metric) else {
        let names: Vec<&str> = known.iter().map(|(n, _)| n.as_str()).collect();
        return Err(Refusal::denied(codes::UNKNOWN_METRIC, format!("metric_name: there is no metric {metric:?}; there are: {}", list(&names))));
    };
    let allowed: Vec<&str> = dimensions.iter().map(String::as_str).collect();
    let unknown = |code, field: &str, name: &str| {
        Err(Refusal::denied(code, format!("{field}: {metric} has no dimension {:?}; it has: {}", head(name, 80), list(&allowed))))
    };
    if let Some(name) = query.dimensions.iter().find(|d| !allowed.contains(&d.as_str())) {
        return unknown(codes::UNKNOWN_DIMENSION, "dimensions", name);
    }
    if let Some(name) = query.filters.keys().find(|f| !allowed.contains(&f.as_str())) {
        return unknown(codes::UNKNOWN_FILTER, "filters", name);
    }
    Ok(())
}

/// # Errors
/// When the model is denied, or the role may not look at schemas.
pub fn check_model(model: &str, role: Role, limits: &Limits) -> Result<(), Refusal> {
    if !limits.schema_roles.contains(&role) {
        let may: Vec<String> = limits.schema_roles.iter().map(|r| format!("{r:?}").to_lowercase()).collect();
        return Err(Refusal::denied(codes::ROLE_DENIED, format!("a schema is described to: {}", may.join(", "))));
    }
    // By the name's last part too: a schema before it does not make it another model.
    let bare = model.rsplit('.').next().unwrap_or(model);
    if limits.denied_models.denies(model.trim()) || limits.denied_models.denies(bare.trim()) {
        return Err(Refusal::denied(codes::DENYLISTED_MODEL, format!("model_name: {:?} is not described to anyone", head(model, 80))));
    }
    if model.is_empty() || model.len() > 128 || !model.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')) {
        return Err(Refusal::InvalidArgument { field: "model_name", problem: format!("{:?} is no model's name such as mart_sales", head(model, 80)) });
    }
    Ok(())
}

fn days(range: &DateRange, limits: &Limits, today: Date) -> Result<(Date, Date), Refusal> {
    let no = |code, message: String| Err(Refusal::denied(code, message));
    let parse = |field: &str, text: &str| {
        let plain = text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        text.parse::<Date>()
            .ok()
            .filter(|_| plain)
            .ok_or_else(|| Refusal::denied(codes::INVALID_DATE_RANGE, format!("date_range.{field}: {:?} is no day such as 2026-08-01", head(text, 40))))
    };
    let (start, end) = (parse("start", &range.start)?, parse("end", &range.end)?);
    if end < start {
        return no(codes::INVALID_DATE_RANGE, format!("date_range: it ends on {end}, before it starts on {start}"));
    }
    let count = start.until(end).map_or(i32::MAX, |span| span.get_days()).saturating_add(1);
    if i64::from(count) > i64::from(limits.max_date_range_days) {
        return no(codes::DATE_RANGE_TOO_LARGE, format!("date_range: {count} days, at most {} are allowed", limits.max_date_range_days));
    }
    if start < limits.oldest_date {
        return no(codes::DATE_RANGE_TOO_OLD, format!("date_range.start: {start} is before {}", limits.oldest_date));
    }
    let last = today.saturating_add(i64::from(limits.max_future_slack_days).days());
    if end > last {
        return no(codes::DATE_RANGE_IN_FUTURE, format!("date_range.end: {end} is after {last}"));
    }
    Ok((start, end))
}

fn list(names: &[&str]) -> String {
    let shown = names.iter().take(30).copied().collect::<Vec<_>>().join(", ");
    if names.len() > 30 { format!("{shown} and {} more", names.len() - 30) } else { shown }
}
