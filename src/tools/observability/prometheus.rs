//! A Prometheus, or what speaks its HTTP API: one range query at a time, bounded.

use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use jiff::Timestamp;
use serde_json::Value;

use crate::{text::head, tools::server::Refusal};

/// One query. Under the tool's own deadline.
const TIMEOUT: Duration = Duration::from_secs(7);
/// Bytes of an answer.
const MAX_ANSWER: usize = 4 << 20;

pub struct Prometheus {
    http: reqwest::Client,
    base: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// A series: its labels, and its points as seconds and value.
#[derive(Clone, Debug)]
pub struct Series {
    pub labels: Value,
    pub points: Vec<(f64, f64)>,
}

/// From, to, and the seconds between two points.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub from: Timestamp,
    pub to: Timestamp,
    pub step: u32,
}

impl Prometheus {
    /// `token`: a bearer token. `headers`: such as `X-Scope-OrgID: platform`.
    ///
    /// # Errors
    /// When the URL or a header is none.
    pub fn new(base: &str, token: Option<&str>, headers: &[String]) -> anyhow::Result<Self> {
        let url = reqwest::Url::parse(base).map_err(|e| anyhow::anyhow!("--prometheus-url: {base:?} is no URL: {e}"))?;
        anyhow::ensure!(matches!(url.scheme(), "http" | "https"), "--prometheus-url: {base:?} must begin with http:// or https://");
        let mut all = vec![];
        for header in headers {
            let (name, value) =
                header.split_once(':').ok_or_else(|| anyhow::anyhow!("--prometheus-header: {header:?} is none such as X-Scope-OrgID: platform"))?;
            all.push((name.trim().parse()?, value.trim().parse()?));
        }
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))?;
            value.set_sensitive(true);
            all.push((AUTHORIZATION, value));
        }
        Ok(Self { http: crate::http_client::builder()?.timeout(TIMEOUT).build()?, base: base.trim_end_matches('/').to_owned(), headers: all })
    }

    pub(super) async fn range(&self, promql: &str, range: Range, max_series: usize) -> Result<(Vec<Series>, usize), Refusal> {
        let gone = |e: reqwest::Error| {
            if e.is_timeout() {
                Refusal::BackendUnavailable(format!("Prometheus did not answer within {} s", TIMEOUT.as_secs()))
            } else {
                tracing::warn!(error = %e, "Prometheus cannot be reached");
                Refusal::BackendUnavailable("Prometheus cannot be reached".to_owned())
            }
        };
        let form = [
            ("query", promql.to_owned()),
            ("start", range.from.to_string()),
            ("end", range.to.to_string()),
            ("step", range.step.to_string()),
            ("timeout", format!("{}s", TIMEOUT.as_secs())),
        ];
        let url = reqwest::Url::parse_with_params(&format!("{}/api/v1/query_range", self.base), form).map_err(|e| Refusal::Internal(e.to_string()))?;
        let mut request = self.http.get(url);
        for (name, value) in &self.headers {
            request = request.header(name.clone(), value.clone());
        }
        let mut response = request.send().await.map_err(gone)?;
        let mut body = vec![];
        while let Some(chunk) = response.chunk().await.map_err(gone)? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(Refusal::BackendUnavailable(format!(
                    "Prometheus' answer is longer than {MAX_ANSWER} bytes: ask for a workload, or a shorter range"
                )));
            }
            body.extend_from_slice(&chunk);
        }
        let answer: Value = serde_json::from_slice(&body)
            .map_err(|_| Refusal::BackendUnavailable(format!("Prometheus answers with HTTP {} and no JSON", response.status())))?;
        if answer["status"] != "success" {
            let said = answer["error"].as_str().unwrap_or("no reason");
            return Err(Refusal::BackendUnavailable(format!("Prometheus refuses the query: {}", head(said, 300))));
        }
        let found = answer["data"]["result"].as_array().map_or(&[][..], Vec::as_slice);
        let series = found.iter().take(max_series).map(|s| Series { labels: s["metric"].clone(), points: points(&s["values"]) });
        Ok((series.collect(), found.len()))
    }
}

fn points(values: &Value) -> Vec<(f64, f64)> {
    let pair = |p: &Value| Some((p.get(0)?.as_f64()?, p.get(1)?.as_str()?.parse().ok()?));
    values.as_array().into_iter().flatten().filter_map(pair).collect()
}
