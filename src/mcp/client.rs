//! An MCP client for one tool server: stateless, with the run's token on each request.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use jiff::Timestamp;
use rmcp::{
    ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceError,
    model::{CallToolRequest, CallToolRequestParams, CallToolResult, ClientJsonRpcMessage, ClientRequest, GetExtensions, ProtocolVersion, ServerResult},
    service::{ClientInitializeError, PeerRequestOptions, RunningService},
    transport::{
        StreamableHttpClientTransport,
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
        },
    },
};
use serde_json::{Value, json};

use crate::{
    agent::Received,
    identity::Token,
    tools::server::{redact_text, redact_value},
};

/// Tools that one server may list: more is a mistake or an attack.
const MAX_TOOLS: usize = 256;

/// Where a server is, and how it is authenticated to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub url: String,
    /// The header that carries the token; with `Authorization` it is sent as `Bearer`. None: nothing is sent.
    pub header: Option<String>,
}

/// Limits of one call.
#[derive(Clone, Copy, Debug)]
pub struct CallLimits {
    pub timeout: Duration,
    pub max_bytes: usize,
}

/// A tool as the server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    pub name: String,
    pub read_only: bool,
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
}

/// Why a server can't be used. The text is for a person and says what to do.
#[derive(thiserror::Error, Debug, Clone)]
pub enum McpError {
    #[error("no answer from {url} in {seconds} s: check that its pods are ready and that a NetworkPolicy lets the operator through")]
    Timeout { url: String, seconds: u64 },
    #[error("{url} cannot be reached: check its name and port, and that its pods are ready: {why}")]
    Unreachable { url: String, why: String },
    #[error("{url} refused the operator's token: check auth.type and auth.header of the ToolServer, and the issuer of the server")]
    Unauthorized { url: String },
    #[error("{url} does not speak MCP over streamable HTTP: {why}")]
    NotMcp { url: String, why: String },
    #[error("{field} is not supported by this version: use {instead}")]
    Unsupported { field: &'static str, instead: &'static str },
    #[error("the header name {0:?} or its value is not valid")]
    Header(String),
}

impl McpError {
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "Timeout",
            Self::Unreachable { .. } => "Unreachable",
            Self::Unauthorized { .. } => "Unauthorized",
            Self::NotMcp { .. } => "NotMCP",
            Self::Unsupported { .. } => "Unsupported",
            Self::Header(_) => "InvalidHeader",
        }
    }
}

/// An initialized connection. It holds no session: any replica of the server answers any call.
pub struct Connection {
    endpoint: Endpoint,
    service: RunningService<RoleClient, ()>,
    pub protocol_version: String,
}

impl Connection {
    /// Connects, and asks for the protocol revision.
    ///
    /// # Errors
    /// Why it can't be used.
    pub async fn open(endpoint: Endpoint, http: reqwest::Client, token: Option<&Token>, deadline: Duration) -> Result<Self, McpError> {
        let url = endpoint.url.clone();
        let headers = headers(&endpoint, token)?;
        // Who waits for less than that is told what refused, and not that time was up.
        let client = HeaderClient { http, refused_for: REFUSED_FOR.min(deadline / 2) };
        let serve = |mode| {
            let config = StreamableHttpClientTransportConfig::with_uri(url.clone()).custom_headers(headers.clone());
            ().serve_with_lifecycle(StreamableHttpClientTransport::with_client(client.clone(), config), mode)
        };
        let served = async {
            match serve(ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::V_2026_07_28], legacy_version: None }).await {
                // It says which revisions it knows, and they are older: rmcp takes that for an end. kubernetes-mcp-server answers so.
                Err(ClientInitializeError::NoCompatibleProtocolVersion { .. }) => serve(ClientLifecycleMode::Initialize).await,
                done => done,
            }
        };
        let service =
            tokio::time::timeout(deadline, served).await.map_err(|_| McpError::Timeout { url: url.clone(), seconds: deadline.as_secs() })?.map_err(|e| {
                let text = chain(&e);
                tracing::debug!(%url, error = text, "no MCP connection");
                let unavailable = ["HTTP 502", "HTTP 503", "HTTP 504"].iter().any(|c| text.contains(c));
                if unavailable {
                    McpError::Unreachable {
                        url: url.clone(),
                        why: format!("{} (a tool server of ours answers so while it cannot fetch the operator's keys)", last(&text)),
                    }
                } else if e.is_authorization_required() || text.contains("401") || text.contains("403") {
                    McpError::Unauthorized { url: url.clone() }
                } else if ["connection", "connect", "dns", "tcp", "resolve", "lookup", "sending request"].iter().any(|w| text.to_ascii_lowercase().contains(w))
                {
                    McpError::Unreachable { url: url.clone(), why: last(&text) }
                } else {
                    McpError::NotMcp { url: url.clone(), why: last(&text) }
                }
            })?;
        let protocol_version = service.peer_info().map(|i| i.protocol_version.to_string()).unwrap_or_default();
        Ok(Self { endpoint, service, protocol_version })
    }

    /// The tools it lists.
    ///
    /// # Errors
    /// When it does not answer with a list.
    pub async fn tools(&self, deadline: Duration) -> Result<Vec<Offered>, McpError> {
        let url = &self.endpoint.url;
        let tools = tokio::time::timeout(deadline, self.service.list_all_tools())
            .await
            .map_err(|_| McpError::Timeout { url: url.clone(), seconds: deadline.as_secs() })?
            .map_err(|e| McpError::NotMcp { url: url.clone(), why: last(&chain(&e)) })?;
        Ok(tools
            .into_iter()
            .take(MAX_TOOLS)
            .map(|t| Offered {
                name: t.name.to_string(),
                read_only: t.annotations.and_then(|a| a.read_only_hint).unwrap_or(false),
                description: t.description.map(|d| d.to_string()).unwrap_or_default(),
                schema: Value::Object(t.input_schema.as_ref().clone()),
            })
            .collect())
    }

    /// Calls a tool. Whatever happens is a result.
    pub async fn call(&self, tool: &str, arguments: &Value, token: Option<&Token>, limits: CallLimits) -> Received {
        let failed = |code: &str, error: String| Received {
            at: Timestamp::now(),
            text: json!({"error": error, "guardrail_code": code}).to_string(),
            truncated: false,
            code: Some(code.to_owned()),
        };
        if self.endpoint.header.is_some() && token.is_none() {
            // Never with the token that the connection was opened with: that was another run's.
            return failed("unauthenticated", "no token could be signed for this run".to_owned());
        }
        let headers = match headers(&self.endpoint, token) {
            Ok(headers) => headers,
            Err(error) => return failed("invalid_header", error.to_string()),
        };
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = arguments.as_object().cloned();
        let mut request = CallToolRequest::new(params);
        request.extensions.insert(PerRequestHeaders(headers));
        let sent = async {
            let options = PeerRequestOptions::with_timeout(limits.timeout);
            self.service.send_cancellable_request(ClientRequest::CallToolRequest(request), options).await?.await_response().await
        };
        // The deadline of the request does not cover a server that never takes it.
        match tokio::time::timeout(limits.timeout + Duration::from_secs(1), sent).await {
            Ok(Ok(ServerResult::CallToolResult(result))) => received(&result, limits.max_bytes),
            Ok(Ok(_other)) => failed("protocol_error", "the server answered something that is no tool result".to_owned()),
            Ok(Err(ServiceError::Timeout { .. })) | Err(_) => failed("timeout", format!("no answer in {} s", limits.timeout.as_secs())),
            Ok(Err(error @ (ServiceError::TransportClosed | ServiceError::TransportSend(_)))) => failed("unreachable", last(&chain(&error))),
            Ok(Err(error)) => failed("tool_error", last(&chain(&error))),
        }
    }

    /// Whether the connection can still be used.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.service.is_closed()
    }
}

/// The result as text, cut to size with a mark.
fn received(result: &CallToolResult, max: usize) -> Received {
    // Whoever the server is: what looks secret goes no further than here.
    let mut text = match &result.structured_content {
        Some(value) => {
            let mut value = value.clone();
            redact_value(&mut value);
            value.to_string()
        }
        None => redact_text(&result.content.iter().filter_map(|c| c.as_text().map(|t| t.text.as_str())).collect::<Vec<_>>().join("\n")).0,
    };
    let truncated = text.len() > max;
    if truncated {
        text.truncate(crate::text::head(&text, max).len());
        text.push_str("…[cut]");
    }
    let code = (result.is_error == Some(true)).then(|| {
        let said = serde_json::from_str::<Value>(&text).ok().and_then(|v| v["guardrail_code"].as_str().map(str::to_owned));
        said.unwrap_or_else(|| "tool_error".to_owned()).chars().take(64).collect()
    });
    Received { at: Timestamp::now(), text, truncated, code }
}

fn headers(endpoint: &Endpoint, token: Option<&Token>) -> Result<HashMap<HeaderName, HeaderValue>, McpError> {
    let (Some(header), Some(token)) = (&endpoint.header, token) else { return Ok(HashMap::new()) };
    let bad = || McpError::Header(header.clone());
    let name = HeaderName::from_bytes(header.as_bytes()).map_err(|_| bad())?;
    let value = if name == http::header::AUTHORIZATION { format!("Bearer {}", token.reveal()) } else { token.reveal().to_owned() };
    let mut value = HeaderValue::from_str(&value).map_err(|_| bad())?;
    value.set_sensitive(true);
    Ok(HashMap::from([(name, value)]))
}

/// Headers of one request, carried in its extensions: rmcp has no other place for them.
#[derive(Clone)]
struct PerRequestHeaders(HashMap<HeaderName, HeaderValue>);

/// A connection that is refused was to a replica that is gone, and the Service has others: nothing was sent, so it is tried anew. The
/// call's own deadline holds all the same.
const REFUSED_FOR: Duration = Duration::from_secs(3);
const BETWEEN: Duration = Duration::from_millis(40);

/// Adds the headers that a request carries to those of the connection, and finds another replica where one is gone.
#[derive(Clone)]
struct HeaderClient {
    http: reqwest::Client,
    refused_for: Duration,
}

fn merge(message: &ClientJsonRpcMessage, headers: &mut HashMap<HeaderName, HeaderValue>) {
    if let ClientJsonRpcMessage::Request(request) = message
        && let Some(more) = request.request.extensions().get::<PerRequestHeaders>()
    {
        headers.extend(more.0.clone());
    }
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Failure = StreamableHttpError<reqwest::Error>;

impl StreamableHttpClient for HeaderClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        mut headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        merge(&message, &mut headers);
        self.http.post_message(uri, message, session, auth, headers).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        mut headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        merge(&message, &mut headers);
        let until = tokio::time::Instant::now() + self.refused_for;
        loop {
            let sent =
                self.http.post_message_with_response_limits(Arc::clone(&uri), message.clone(), session.clone(), auth.clone(), headers.clone(), limits).await;
            match sent {
                Err(StreamableHttpError::Client(error)) if error.is_connect() && tokio::time::Instant::now() < until => tokio::time::sleep(BETWEEN).await,
                done => return done,
            }
        }
    }

    async fn delete_session(&self, uri: Arc<str>, session: Arc<str>, auth: Option<String>, headers: Headers) -> Result<(), Failure> {
        self.http.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<sse_stream::Sse, SseError>>, Failure> {
        self.http.get_stream(uri, session, last_event, auth, headers).await
    }
}

/// An error with all its causes, in a line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut inner = error.source();
    while let Some(cause) = inner {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        inner = cause.source();
    }
    text
}

/// The end of a chain, bounded: the most concrete part. Names of Rust types say nothing to a person.
fn last(text: &str) -> String {
    let tail = text.rsplit(": ").next().unwrap_or(text).trim_end_matches(", when send discover request").trim_end_matches(", when send initialize request");
    tail.chars().take(300).collect()
}
