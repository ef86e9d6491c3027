//! Example figures, for where no backend is: the same for every day, and said to be examples.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{catalogue::Metric, guard::Checked};

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    pub combine: Combine,
    /// What each day has: a value, and the dimensions that it belongs to.
    pub daily: Vec<Daily>,
}

#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Combine {
    Sum,
    Average,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Daily {
    pub value: f64,
    #[serde(default)]
    pub of: BTreeMap<String, String>,
}

impl Fixture {
    pub(super) fn problem(&self, metric: &Metric) -> Option<String> {
        let known: BTreeSet<&str> = metric.dimensions.iter().map(|d| d.name.as_str()).collect();
        let unknown = self.daily.iter().flat_map(|d| d.of.keys()).find(|k| !known.contains(k.as_str()))?;
        Some(format!("fixture.daily.of: {unknown:?} is none of its dimensions"))
    }

    /// Every row that a backend would give.
    pub(super) fn rows(&self, query: &Checked, tenant: &str) -> Vec<Value> {
        let value_of = |daily: &Daily, day: &str, name: &str| match name {
            "date" => day.to_owned(),
            "tenant_id" => tenant.to_owned(),
            other => daily.of.get(other).cloned().unwrap_or_default(),
        };
        let mut groups: BTreeMap<Vec<String>, (f64, f64)> = BTreeMap::new();
        let mut day = query.start;
        loop {
            let shown = day.to_string();
            for daily in &self.daily {
                if query.filters.iter().all(|(name, wanted)| value_of(daily, &shown, name) == *wanted) {
                    let key = query.dimensions.iter().map(|d| value_of(daily, &shown, d)).collect();
                    let group = groups.entry(key).or_default();
                    group.0 += daily.value;
                    group.1 += 1.0;
                }
            }
            match day.tomorrow() {
                Ok(next) if next <= query.end => day = next,
                _ => break,
            }
        }
        let rows = groups.into_iter().map(|(key, (sum, count))| {
            let value = if self.combine == Combine::Sum { sum } else { sum / count };
            let mut row: Map<String, Value> = query.dimensions.iter().cloned().zip(key.into_iter().map(Value::String)).collect();
            row.insert(query.metric.clone(), json!((value * 100.0).round() / 100.0));
            Value::Object(row)
        });
        rows.collect()
    }
}
