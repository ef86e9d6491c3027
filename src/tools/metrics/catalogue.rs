//! The catalogue: which metrics there are, how each is read, and what the models behind them hold. One YAML file, checked when it is read.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{fixtures::Fixture, guard::DenyList};
use crate::text::Pattern;

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    #[serde(default)]
    pub metrics: Vec<Metric>,
    #[serde(default)]
    pub models: Vec<Model>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    pub name: String,
    pub description: String,
    /// What it can be grouped and filtered by, in the order in which rows are sorted.
    pub dimensions: Vec<Dimension>,
    /// How a database gives it.
    #[serde(default)]
    pub sql: Option<Sql>,
    /// Example figures, for where no backend is.
    #[serde(default)]
    pub fixture: Option<Fixture>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Dimension {
    pub name: String,
    /// The expression in the database; without it the column of that name.
    #[serde(default)]
    pub sql: Option<String>,
}

/// Pieces of a statement. They are the platform team's own text, put together in one place: `postgres::statement`.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Sql {
    /// A table or view.
    pub from: String,
    /// An aggregate, as in `sum(amount)`.
    pub measure: String,
    /// The column that holds the tenant.
    pub tenant: String,
    /// The column that holds the day.
    pub date: String,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Model {
    pub name: String,
    pub description: String,
    pub columns: Vec<Column>,
}

#[derive(Deserialize, serde::Serialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Column {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub description: String,
}

#[derive(thiserror::Error, Debug)]
pub enum CatalogueError {
    #[error("the catalogue cannot be read: {0}")]
    Unreadable(String),
    #[error("{place}: {problem}")]
    Wrong { place: String, problem: String },
}

static NAME: Pattern = Pattern::new(r"^[a-z][a-z0-9_]{0,62}$");
static TABLE: Pattern = Pattern::new(r"^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$");

impl Catalogue {
    /// # Errors
    /// When it is no YAML of this shape, a name is none or there twice, or a metric reads from a model that nobody may see.
    pub fn parse(text: &str, denied: &DenyList) -> Result<Self, CatalogueError> {
        let catalogue: Self = serde_saphyr::from_str(text).map_err(|e| CatalogueError::Unreadable(e.to_string()))?;
        catalogue.check(denied)?;
        Ok(catalogue)
    }

    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|m| m.name == name)
    }

    #[must_use]
    pub fn model(&self, name: &str) -> Option<&Model> {
        self.models.iter().find(|m| m.name == name)
    }

    fn check(&self, denied: &DenyList) -> Result<(), CatalogueError> {
        let wrong = |place: String, problem: &str| Err(CatalogueError::Wrong { place, problem: problem.to_owned() });
        let mut names = BTreeSet::new();
        for metric in &self.metrics {
            let place = format!("metrics[{}]", metric.name);
            if !NAME.is_match(&metric.name) {
                return wrong(place, "name: give a lower-case word such as order_count");
            }
            if !names.insert(&metric.name) {
                return wrong(place, "name: is there twice");
            }
            let mut dimensions = BTreeSet::new();
            for dimension in &metric.dimensions {
                if !NAME.is_match(&dimension.name) || dimension.name == metric.name {
                    return wrong(place, &format!("dimensions: {:?} is no lower-case word, or the metric's own name", dimension.name));
                }
                if !dimensions.insert(&dimension.name) {
                    return wrong(place, &format!("dimensions: {:?} is there twice", dimension.name));
                }
            }
            if let Some(sql) = &metric.sql {
                if !TABLE.is_match(&sql.from) {
                    return wrong(place, "sql.from: give a table or view, as in marts.mart_sales");
                }
                let bare = sql.from.rsplit('.').next().unwrap_or(&sql.from);
                if denied.denies(&sql.from) || denied.denies(bare) {
                    return wrong(place, "sql.from: is a denylisted model");
                }
            }
            if let Some(problem) = metric.fixture.as_ref().and_then(|f| f.problem(metric)) {
                return wrong(place, &problem);
            }
        }
        for model in &self.models {
            if denied.denies(&model.name) {
                return wrong(format!("models[{}]", model.name), "is a denylisted model: take it out");
            }
        }
        Ok(())
    }
}
