//! The API server, read as the ServiceAccount of the run.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use jiff::Timestamp;
use kube::{Client, client::Body};
use serde_json::Value;

use super::{
    kinds::Kind,
    source::{Listing, LogQuery, Readers, Source},
};
use crate::tools::server::{Caller, Refusal};

/// Objects of one list that are read. More would fill the memory for an answer that is cut anyway.
const PAGE: usize = 500;
/// Bytes of one answer of the API server: five hundred usual pods are a tenth of it.
const MAX_BODY: usize = 16 * 1024 * 1024;
/// Names without contents: what a list is asked for where only existence counts.
const NAMES_ONLY: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// Bytes of one log that are read.
const LOG_BYTES: u64 = 256 * 1024;

/// Readers that share one connection pool and differ in whom they impersonate.
pub struct Impersonating {
    pub client: Client,
    /// false: read as the client's own identity (a laptop's kubeconfig).
    pub impersonate: bool,
}

impl Readers for Impersonating {
    fn reader(&self, caller: &Caller) -> Arc<dyn Source> {
        let user = self.impersonate.then(|| format!("system:serviceaccount:{}:{}", caller.tenant, caller.service_account));
        // The API server's audit log names the run by its user agent.
        let agent = format!("inquest/{} ({})", env!("CARGO_PKG_VERSION"), caller.subject);
        let headers = [(header::USER_AGENT.as_str(), Some(agent)), ("impersonate-user", user.clone())]
            .into_iter()
            .filter_map(|(name, value)| Some((name, HeaderValue::from_str(&value?).ok()?)))
            .collect();
        let who = user.unwrap_or_else(|| "you".to_owned());
        // A user that cannot be said in a header is nobody: reading as the tool server itself must not be the fallback.
        let valid = !self.impersonate || HeaderValue::from_str(&who).is_ok();
        Arc::new(Live { client: self.client.clone(), headers, who, valid })
    }
}

struct Live {
    client: Client,
    headers: Vec<(&'static str, HeaderValue)>,
    who: String,
    valid: bool,
}

impl Live {
    async fn request(&self, path: &str, accept: &str) -> Result<Vec<u8>, Refusal> {
        if !self.valid {
            return Err(Refusal::Forbidden { who: self.who.clone(), what: "be impersonated".to_owned() });
        }
        let mut request = Request::get(path).header(header::ACCEPT, accept);
        for (name, value) in &self.headers {
            request = request.header(*name, value.clone());
        }
        let request = request.body(Body::empty()).map_err(|e| Refusal::Internal(e.to_string()))?;
        let response = self.client.send(request).await.map_err(|e| Refusal::ClusterUnavailable(root(&e)))?;
        let status = response.status();
        let body = match Limited::new(response.into_body(), MAX_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
                return Err(Refusal::Internal(format!("the API server's answer is larger than {} MiB; ask for less", MAX_BODY / (1024 * 1024))));
            }
            Err(error) => return Err(Refusal::ClusterUnavailable(root(error.as_ref()))),
        };
        if status.is_success() {
            return Ok(body.to_vec());
        }
        let message = serde_json::from_slice::<Value>(&body)
            .ok()
            .and_then(|v| v["message"].as_str().map(str::to_owned))
            .unwrap_or_else(|| String::from_utf8_lossy(&body).chars().take(300).collect());
        Err(match status.as_u16() {
            401 | 403 => Refusal::Forbidden { who: self.who.clone(), what: denied_what(path, &message) },
            404 => Refusal::NotFound { what: message.trim_end_matches(" not found").to_owned() },
            400 | 422 => Refusal::InvalidArgument { field: "arguments", problem: message },
            code => Refusal::ClusterUnavailable(format!("the API server answered {code}: {message}")),
        })
    }

    async fn json(&self, path: &str, accept: &str) -> Result<Value, Refusal> {
        serde_json::from_slice(&self.request(path, accept).await?).map_err(|e| Refusal::ClusterUnavailable(format!("an unreadable answer: {e}")))
    }
}

/// `list pods in namespace other`, from the path that was asked for.
fn denied_what(path: &str, message: &str) -> String {
    if message.contains("impersonate") {
        return "be impersonated: the ServiceAccount is not among those that the chart's values list (readers)".to_owned();
    }
    let path = path.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').collect();
    match parts.iter().position(|p| *p == "namespaces") {
        Some(at) if parts.len() > at + 2 => format!("read {} in namespace {}", parts[at + 2..].join("/"), parts[at + 1]),
        _ => format!("read {}", parts.last().copied().unwrap_or_default()),
    }
}

/// The innermost reason of an error: "connection refused" rather than "client error (Connect)".
fn root(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}

impl Source for Live {
    fn list<'a>(&'a self, kind: &'static Kind, namespace: Option<&'a str>) -> BoxFuture<'a, Result<Listing, Refusal>> {
        async move {
            let mut list = self
                .json(&format!("{}?limit={PAGE}", kind.path(namespace, None)), if kind.kind == "ConfigMap" { NAMES_ONLY } else { "application/json" })
                .await?;
            let complete = list.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default().is_empty();
            let items = match list.get_mut("items").map(Value::take) {
                Some(Value::Array(items)) => items,
                _ => vec![],
            };
            Ok(Listing { items: items.into_iter().map(without_managed_fields).collect(), complete })
        }
        .boxed()
    }

    fn get<'a>(&'a self, kind: &'static Kind, namespace: Option<&'a str>, name: &'a str) -> BoxFuture<'a, Result<Value, Refusal>> {
        async move { Ok(without_managed_fields(self.json(&kind.path(namespace, Some(name)), "application/json").await?)) }.boxed()
    }

    fn logs<'a>(&'a self, query: &'a LogQuery) -> BoxFuture<'a, Result<String, Refusal>> {
        async move {
            let LogQuery { namespace, pod, container, previous, tail } = query;
            let path = format!(
                "/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}&previous={previous}&tailLines={tail}&limitBytes={LOG_BYTES}&timestamps=true"
            );
            Ok(String::from_utf8_lossy(&self.request(&path, "*/*").await?).into_owned())
        }
        .boxed()
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

fn without_managed_fields(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
    }
    object
}

/// Whether the API server answers, for a clear line at the start.
///
/// # Errors
/// What is wrong, in a line.
pub async fn cluster_version(client: &Client) -> Result<String, String> {
    match tokio::time::timeout(std::time::Duration::from_secs(5), client.apiserver_version()).await {
        Ok(Ok(version)) => Ok(version.git_version),
        Ok(Err(error)) => Err(root(&error)),
        Err(_late) => Err("no answer in 5 s".to_owned()),
    }
}
