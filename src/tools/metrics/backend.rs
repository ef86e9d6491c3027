//! What stands behind the tools, and when example figures may stand in for it.

use serde_json::Value;

use super::{
    catalogue::Catalogue,
    guard::{Checked, check_names},
    http::HttpBackend,
    postgres::Postgres,
};
use crate::tools::server::{Caller, Refusal};

/// Where the figures come from.
pub enum Backend {
    Http(HttpBackend),
    Postgres(Postgres),
    /// Nothing was configured.
    None,
}

/// Whether example figures may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MockMode {
    /// Where the backend cannot be reached, and they say so.
    Auto,
    /// Always; the backend is never asked.
    Always,
    /// Never: an outage is an outage.
    Never,
}

/// Who answered. Each result says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Backend,
    Fixture,
}

/// A metric as a caller sees it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Listed {
    pub name: String,
    pub description: String,
    pub dimensions: Vec<String>,
}

/// Rows, and how many there are in all.
#[derive(Clone, Debug)]
pub struct Rows {
    pub rows: Vec<Value>,
    pub total: u64,
}

/// Why a backend gave nothing.
#[derive(thiserror::Error, Debug)]
pub enum BackendError {
    /// It could not be reached: what example figures may stand in for.
    #[error("the metrics backend cannot be reached: {0}")]
    Unreachable(String),
    #[error("the metrics backend did not answer within {0} s")]
    Late(u64),
    /// It answered, and not with figures.
    #[error("the metrics backend failed: {0}")]
    Failed(String),
}

impl From<BackendError> for Refusal {
    fn from(error: BackendError) -> Self {
        Self::BackendUnavailable(error.to_string())
    }
}

/// A backend with its catalogue and its mode.
pub struct Figures {
    pub backend: Backend,
    pub catalogue: Catalogue,
    pub mode: MockMode,
    pub max_rows: u32,
}

impl Figures {
    pub async fn list(&self, caller: &Caller) -> Result<(Vec<Listed>, Source), Refusal> {
        if self.mode == MockMode::Always {
            return Ok((self.examples(), Source::Fixture));
        }
        let got = match &self.backend {
            Backend::Http(http) => http.list(caller).await,
            // The file says it; the database is not asked.
            Backend::Postgres(_) => Ok(listed(&self.catalogue, |m| m.sql.is_some())),
            Backend::None => Err(nothing_configured()),
        };
        match got {
            Ok(list) => Ok((list, Source::Backend)),
            Err(BackendError::Unreachable(why)) if self.mode == MockMode::Auto => {
                tracing::warn!(%why, "the metrics backend cannot be reached: example figures answer");
                Ok((self.examples(), Source::Fixture))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The rows of a query whose names the backend knows.
    pub async fn query(&self, query: &Checked, caller: &Caller) -> Result<(Rows, Source), Refusal> {
        let (known, source) = self.list(caller).await?;
        let known: Vec<_> = known.into_iter().map(|m| (m.name, m.dimensions)).collect();
        check_names(query, &known)?;
        if source == Source::Fixture {
            return Ok((self.example_rows(query, caller), Source::Fixture));
        }
        let got = match &self.backend {
            Backend::Http(http) => http.query(query, caller, self.max_rows).await,
            Backend::Postgres(postgres) => match self.catalogue.metric(&query.metric) {
                Some(metric) => postgres.query(metric, query, &caller.tenant, self.max_rows).await,
                None => Err(BackendError::Failed("the metric has left the catalogue".to_owned())),
            },
            Backend::None => Err(nothing_configured()),
        };
        match got {
            Ok(rows) => Ok((rows, Source::Backend)),
            Err(BackendError::Unreachable(why)) if self.mode == MockMode::Auto => {
                tracing::warn!(%why, "the metrics backend cannot be reached: example figures answer");
                Ok((self.example_rows(query, caller), Source::Fixture))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn examples(&self) -> Vec<Listed> {
        listed(&self.catalogue, |m| m.fixture.is_some())
    }

    fn example_rows(&self, query: &Checked, caller: &Caller) -> Rows {
        let mut rows = self.catalogue.metric(&query.metric).and_then(|m| m.fixture.as_ref()).map(|f| f.rows(query, &caller.tenant)).unwrap_or_default();
        let total = rows.len() as u64;
        rows.truncate(self.max_rows as usize);
        Rows { rows, total }
    }
}

fn listed(catalogue: &Catalogue, which: impl Fn(&super::catalogue::Metric) -> bool) -> Vec<Listed> {
    let shown = |m: &super::catalogue::Metric| Listed {
        name: m.name.clone(),
        description: m.description.clone(),
        dimensions: m.dimensions.iter().map(|d| d.name.clone()).collect(),
    };
    catalogue.metrics.iter().filter(|m| which(m)).map(shown).collect()
}

fn nothing_configured() -> BackendError {
    BackendError::Unreachable("none is configured: give --backend-url or --database-url".to_owned())
}
