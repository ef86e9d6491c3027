//! The HTTP contract: `GET /metrics`, `POST /metrics/query`. The tenant travels in headers that this server sets from the verified token.

use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    backend::{BackendError, Listed, Rows},
    guard::Checked,
};
use crate::tools::server::Caller;

/// Bytes of an answer that are read.
const MAX_ANSWER: usize = 8 << 20;
/// Metrics that a catalogue may list.
const MAX_METRICS: usize = 500;
/// The headers that say for whom.
const TENANT: &str = "x-inquest-tenant";
const ROLE: &str = "x-inquest-role";

pub struct HttpBackend {
    http: reqwest::Client,
    base: String,
    /// This server's own credential: a caller's token is never passed on.
    token: Option<HeaderValue>,
    timeout: Duration,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum List {
    Bare(Vec<Metric>),
    Named { metrics: Vec<Metric> },
}

#[derive(Deserialize)]
struct Metric {
    name: String,
    #[serde(default)]
    description: String,
    /// What the contract has where a catalogue does not say.
    #[serde(default = "usual")]
    dimensions: Vec<String>,
}

fn usual() -> Vec<String> {
    ["date", "tenant_id", "product_category"].map(str::to_owned).to_vec()
}

#[derive(Deserialize)]
struct Answer {
    rows: Vec<Value>,
    #[serde(default)]
    total_row_count: Option<u64>,
}

impl HttpBackend {
    /// `token`: the credential of this server, if the backend wants one.
    ///
    /// # Errors
    /// When the URL or the token is none.
    pub fn new(base: &str, token: Option<&str>, timeout: Duration) -> anyhow::Result<Self> {
        let url = reqwest::Url::parse(base).map_err(|e| anyhow::anyhow!("--backend-url: {base:?} is no URL: {e}"))?;
        anyhow::ensure!(matches!(url.scheme(), "http" | "https"), "--backend-url: {base:?} must begin with http:// or https://");
        let token = token
            .map(|t| {
                HeaderValue::from_str(&format!("Bearer {}", t.trim())).map_err(|_| anyhow::anyhow!("the backend's token holds characters that no header takes"))
            })
            .transpose()?
            .map(|mut t| {
                t.set_sensitive(true);
                t
            });
        Ok(Self { http: crate::http_client::builder()?.timeout(timeout).build()?, base: base.trim_end_matches('/').to_owned(), token, timeout })
    }

    pub(super) async fn list(&self, caller: &Caller) -> Result<Vec<Listed>, BackendError> {
        let list: List = self.send(self.http.get(format!("{}/metrics", self.base)), caller).await?;
        let (List::Bare(metrics) | List::Named { metrics }) = list;
        Ok(metrics.into_iter().take(MAX_METRICS).map(|Metric { name, description, dimensions }| Listed { name, description, dimensions }).collect())
    }

    pub(super) async fn query(&self, query: &Checked, caller: &Caller, max_rows: u32) -> Result<Rows, BackendError> {
        let body = json!({
            "metric_name": query.metric, "dimensions": query.dimensions, "filters": query.filters,
            "date_range": {"start": query.start.to_string(), "end": query.end.to_string()},
        });
        let Answer { mut rows, total_row_count } = self.send(self.http.post(format!("{}/metrics/query", self.base)).json(&body), caller).await?;
        let total = total_row_count.unwrap_or(0).max(rows.len() as u64);
        rows.truncate(max_rows as usize);
        Ok(Rows { rows, total })
    }

    async fn send<T: serde::de::DeserializeOwned>(&self, request: reqwest::RequestBuilder, caller: &Caller) -> Result<T, BackendError> {
        let mut request = request.header(TENANT, &caller.tenant).header(ROLE, caller.role.as_deref().unwrap_or_default());
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        let failed = |e: reqwest::Error| {
            if e.is_timeout() {
                BackendError::Late(self.timeout.as_secs())
            } else if e.is_connect() {
                BackendError::Unreachable(e.without_url().to_string())
            } else {
                BackendError::Failed(e.without_url().to_string())
            }
        };
        let mut response = request.send().await.map_err(failed)?;
        if !response.status().is_success() {
            return Err(BackendError::Failed(format!("HTTP {}", response.status())));
        }
        let mut body = vec![];
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(BackendError::Failed(format!("its answer is longer than {MAX_ANSWER} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).map_err(|e| BackendError::Failed(format!("its answer is not what the contract says: {e}")))
    }
}
