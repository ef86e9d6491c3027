//! The named queries: templates of the platform team's. A caller names one and fills validated slots; PromQL is never taken from a caller.

use std::collections::BTreeSet;

use regex::Captures;
use serde::Deserialize;

use crate::text::Pattern;

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Queries {
    pub queries: Vec<Query>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Query {
    pub name: String,
    pub description: String,
    pub unit: String,
    /// With `$namespace`, and perhaps `$workload` (a regular expression that matches the pods of a workload).
    pub promql: String,
}

#[derive(thiserror::Error, Debug)]
pub enum QueriesError {
    #[error("the queries cannot be read: {0}")]
    Unreadable(String),
    #[error("queries[{name}]: {problem}")]
    Wrong { name: String, problem: String },
}

static NAME: Pattern = Pattern::new(r"^[a-z][a-z0-9_]{0,62}$");
static SLOT: Pattern = Pattern::new(r"\$([a-z_]+)");

impl Queries {
    /// # Errors
    /// When it is no YAML of this shape, a name is none or there twice, or a query is not bound to a namespace.
    pub fn parse(text: &str) -> Result<Self, QueriesError> {
        let queries: Self = serde_saphyr::from_str(text).map_err(|e| QueriesError::Unreadable(e.to_string()))?;
        let mut names = BTreeSet::new();
        for query in &queries.queries {
            let wrong = |problem: &str| Err(QueriesError::Wrong { name: query.name.clone(), problem: problem.to_owned() });
            if !NAME.is_match(&query.name) || !names.insert(&query.name) {
                return wrong("name: give each a lower-case word of its own");
            }
            let slots: Vec<&str> = SLOT.regex().into_iter().flat_map(|s| s.captures_iter(&query.promql)).filter_map(|c| c.get(1)).map(|m| m.as_str()).collect();
            if let Some(unknown) = slots.iter().find(|s| !["namespace", "workload"].contains(s)) {
                return wrong(&format!("promql: ${unknown} is no slot; there are $namespace and $workload"));
            }
            // Prometheus knows no rights: a query that is not bound to the tenant's namespace would show everybody's.
            let selectors = query.promql.matches('{').count();
            if selectors == 0 || selectors != query.promql.matches("namespace=\"$namespace\"").count() {
                return wrong("promql: each selector must hold namespace=\"$namespace\", so that a tenant sees its own");
            }
        }
        Ok(queries)
    }

    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Query> {
        self.queries.iter().find(|q| q.name == name)
    }
}

impl Query {
    #[must_use]
    pub fn needs_workload(&self) -> bool {
        self.promql.contains("$workload")
    }

    /// `namespace` and `workload` are validated names: nothing in them can end a string. The pods of a workload: its name, and what
    /// controllers put behind it.
    #[must_use]
    pub fn fill(&self, namespace: &str, workload: &str) -> String {
        let pods = if workload.is_empty() { ".+".to_owned() } else { format!("{}(-[a-z0-9]+)*", workload.replace('.', "[.]")) };
        let Some(slot) = SLOT.regex() else { return String::new() };
        slot.replace_all(&self.promql, |found: &Captures<'_>| match &found[1] {
            "namespace" => namespace.to_owned(),
            _ => pods.clone(),
        })
        .into_owned()
    }
}
