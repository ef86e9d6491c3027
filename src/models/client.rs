//! One request over HTTP: deadline, bounds, and a failure for whatever is no answer.

use std::{collections::BTreeMap, time::Duration};

use futures::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::Value;
use sse_stream::SseStream;

use super::{Script, anthropic, openai};
use crate::{
    agent::Again,
    api::{Provider, Span},
    investigators::chat::{ChatReply, ChatRequest, Failure},
    text::head,
    tools::server::redact_text,
};

/// Bytes of a reply. The longest answer that any model gives is far below.
const MAX_BODY: usize = 8 * 1024 * 1024;
/// Bytes of a provider's own words in a failure.
const SAID: usize = 300;

/// A secret that is never printed.
#[derive(Clone)]
pub struct Key(String);

impl Key {
    #[must_use]
    pub fn new(text: &str) -> Self {
        // A file or a Secret often ends in a line feed, which no key does.
        Self(text.trim().to_owned())
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Where a model is and how it is asked.
#[derive(Clone, Debug)]
pub struct Settings {
    pub provider: Provider,
    /// Empty: the provider's public address.
    pub base_url: String,
    pub model: String,
    /// Negative: not sent.
    pub temperature: f64,
    /// Negative: not sent.
    pub seed: i64,
    pub stream: bool,
    pub timeout: Duration,
    /// The header that carries the key; empty: the provider's own.
    pub key_header: String,
    pub headers: BTreeMap<String, String>,
    /// The recorded conversation, with provider Script.
    pub script: Option<Script>,
}

/// A client for one model.
#[derive(Clone, Debug)]
pub struct Client {
    pub settings: Settings,
    http: reqwest::Client,
    headers: HeaderMap,
}

impl Client {
    /// # Errors
    /// When a header can't be sent, naming it.
    pub fn new(settings: Settings, http: reqwest::Client) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let bad = |what: &str| format!("spec.headers: {what} of {name:?} is not one that HTTP takes");
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("the name"))?;
            headers.insert(key, HeaderValue::from_str(value).map_err(|_| bad("the value"))?);
        }
        if settings.provider == Provider::Script && settings.script.is_none() {
            return Err("spec.scriptRef: provider Script needs a recorded conversation".to_owned());
        }
        Ok(Self { settings, http, headers })
    }

    /// Asks once.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn ask(&self, key: Option<&Key>, request: &ChatRequest) -> Result<ChatReply, Failure> {
        if let (Provider::Script, Some(script)) = (self.settings.provider, &self.settings.script) {
            return script.reply(request);
        }
        match tokio::time::timeout(self.settings.timeout, self.send(key, request)).await {
            Ok(result) => result,
            Err(_late) => {
                let message = format!("no answer from {} in {}: see spec.timeout of the Model", self.url(), Span::of(self.settings.timeout));
                Err(Failure { reason: "Timeout", message, again: Again::Soon, billed: true })
            }
        }
    }

    /// Where the requests go.
    #[must_use]
    pub fn url(&self) -> String {
        let given = self.settings.base_url.trim_end_matches('/');
        match self.settings.provider {
            Provider::OpenAI | Provider::Script if given.is_empty() => "https://api.openai.com/v1/chat/completions".to_owned(),
            Provider::OpenAI | Provider::Script => format!("{given}/chat/completions"),
            Provider::Anthropic if given.is_empty() => "https://api.anthropic.com/v1/messages".to_owned(),
            Provider::Anthropic => format!("{}/v1/messages", given.trim_end_matches("/v1")),
        }
    }

    async fn send(&self, key: Option<&Key>, request: &ChatRequest) -> Result<ChatReply, Failure> {
        let url = self.url();
        let anthropic = self.settings.provider == Provider::Anthropic;
        let body = if anthropic { anthropic::body(&self.settings, request) } else { openai::body(&self.settings, request) };
        let mut headers = self.headers.clone();
        if anthropic {
            headers.entry("anthropic-version").or_insert(HeaderValue::from_static("2023-06-01"));
        }
        if let Some(Key(key)) = key {
            let (name, value) = match self.settings.key_header.as_str() {
                "" if anthropic => ("x-api-key", key.clone()),
                "" => (header::AUTHORIZATION.as_str(), format!("Bearer {key}")),
                other => (other, key.clone()),
            };
            let bad = |_| failure("InvalidKey", "the API key or its header's name cannot be sent in a header".to_owned(), Again::Never);
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|e| bad(e.to_string()))?;
            let mut value = HeaderValue::from_str(&value).map_err(|e| bad(e.to_string()))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let response = self.http.post(&url).headers(headers).json(&body).send().await.map_err(|e| unsent(&url, &e))?;
        let status = response.status();
        if !status.is_success() {
            let wait = retry_after(response.headers());
            let text = read(response).await.unwrap_or_default();
            return Err(refused(&url, status, wait, &text));
        }
        let streamed = response.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).is_some_and(|t| t.starts_with("text/event-stream"));
        if streamed {
            return self.stream(response).await;
        }
        let text = read(response).await?;
        let value: Value = serde_json::from_str(&text).map_err(|e| invalid(&format!("no JSON ({e})")))?;
        if let Some(error) = value.get("error").filter(|e| !e.is_null()) {
            return Err(inner_error(&url, error));
        }
        let reply = if anthropic { anthropic::reply(&value) } else { openai::reply(&value) };
        reply.ok_or_else(|| invalid("a JSON value without an answer in it"))
    }

    async fn stream(&self, response: reqwest::Response) -> Result<ChatReply, Failure> {
        let anthropic = self.settings.provider == Provider::Anthropic;
        let mut events = SseStream::from_bytes_stream(response.bytes_stream());
        let mut openai = openai::Stream::default();
        let mut messages = anthropic::Stream::default();
        let mut bytes = 0;
        while let Some(event) = events.next().await {
            let event = event.map_err(|e| cut(&e.to_string()))?;
            let Some(data) = event.data else { continue };
            bytes += data.len();
            if bytes > MAX_BODY {
                return Err(invalid(&format!("longer than {MAX_BODY} bytes")));
            }
            if data.trim() == "[DONE]" {
                openai.done = true;
                break;
            }
            let value: Value = serde_json::from_str(&data).map_err(|e| invalid(&format!("a stream with an event that is no JSON ({e})")))?;
            if let Some(error) = value.get("error").filter(|e| !e.is_null()) {
                return Err(inner_error(&self.url(), error));
            }
            if anthropic {
                messages.take(&value);
            } else {
                openai.take(&value);
            }
            if messages.done {
                break;
            }
        }
        let reply = if anthropic { messages.reply() } else { openai.reply() };
        reply.ok_or_else(|| cut("the stream ended before the answer did"))
    }
}

pub(super) fn failure(reason: &'static str, message: String, again: Again) -> Failure {
    Failure { reason, message, again, billed: false }
}

fn invalid(what: &str) -> Failure {
    Failure {
        reason: "InvalidResponse",
        message: format!("the answer is {what}: check spec.provider and spec.baseURL of the Model"),
        again: Again::Soon,
        billed: true,
    }
}

fn cut(why: &str) -> Failure {
    Failure { reason: "Cut", message: format!("the connection was cut in the middle of the answer: {}", head(why, SAID)), again: Again::Soon, billed: true }
}

/// The whole body, bounded.
async fn read(mut response: reqwest::Response) -> Result<String, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| cut(&last_cause(&e)))? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BODY {
            return Err(invalid(&format!("longer than {MAX_BODY} bytes")));
        }
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

fn unsent(url: &str, error: &reqwest::Error) -> Failure {
    let why = last_cause(error);
    if error.is_connect() {
        let message =
            format!("{url} cannot be reached: {why}: check spec.baseURL, spec.proxyURL, spec.tls, and that a NetworkPolicy lets the operator through");
        return failure("Unreachable", message, Again::Soon);
    }
    // The request may have arrived.
    Failure { reason: "Cut", message: format!("the connection to {url} broke: {why}"), again: Again::Soon, billed: true }
}

fn last_cause(error: &dyn std::error::Error) -> String {
    let mut at = error;
    while let Some(inner) = at.source() {
        at = inner;
    }
    head(&at.to_string(), SAID).to_owned()
}

/// What an HTTP error means. The provider has refused: it is not paid for what it did not do.
fn refused(url: &str, status: StatusCode, wait: Option<Duration>, body: &str) -> Failure {
    let said = said(body);
    let (reason, message, again) = match status.as_u16() {
        401 | 403 => ("Unauthorized", format!("{url} refused the key ({status}): check spec.apiKeySecretRef of the Model: {said}"), Again::Never),
        402 => ("QuotaExhausted", format!("{url} wants to be paid first ({status}): {said}"), Again::Never),
        404 => ("ModelNotFound", format!("{url} knows no such model or path ({status}): check spec.model and spec.baseURL: {said}"), Again::Never),
        400 | 413 | 422 if is_overflow(&said) => (crate::agent::OVERFLOW, format!("the prompt is longer than the model takes: {said}"), Again::Smaller),
        429 if said.contains("insufficient_quota") || said.contains("exceeded your current quota") => {
            ("QuotaExhausted", format!("the account's quota is used up: {said}"), Again::Never)
        }
        429 => ("RateLimited", format!("{url} is asked too often ({status}): {said}"), wait.map_or(Again::Soon, Again::After)),
        408 | 409 | 425 | 500..=599 => ("Unavailable", format!("{url} answers {status}: {said}"), wait.map_or(Again::Soon, Again::After)),
        300..=399 => ("Redirected", format!("{url} answers {status}: a key is sent nowhere else; set spec.baseURL to where it points"), Again::Never),
        _ => ("BadRequest", format!("{url} refused the request ({status}): {said}"), Again::Never),
    };
    failure(reason, message, again)
}

/// An error in the place of an answer, as some gateways send with status 200.
fn inner_error(url: &str, error: &Value) -> Failure {
    let code = ["code", "status"].iter().find_map(|k| error.get(*k).and_then(|c| c.as_u64().or_else(|| c.as_str()?.parse().ok())));
    let kind = error.get("type").and_then(Value::as_str).unwrap_or_default();
    let status = match kind {
        "overloaded_error" => StatusCode::SERVICE_UNAVAILABLE,
        "rate_limit_error" => StatusCode::TOO_MANY_REQUESTS,
        _ => code.and_then(|c| u16::try_from(c).ok()).and_then(|c| StatusCode::from_u16(c).ok()).filter(|s| !s.is_success()).unwrap_or(StatusCode::BAD_GATEWAY),
    };
    // The answer had begun: it may be charged.
    Failure { billed: true, ..refused(url, status, None, &error.to_string()) }
}

/// The provider's message, without secrets, in a line.
fn said(body: &str) -> String {
    let value: Option<Value> = serde_json::from_str(body).ok();
    let error = value.as_ref().map(|v| v.get("error").unwrap_or(v));
    let field = |name: &str| error.and_then(|e| e.get(name)).and_then(Value::as_str).map(str::to_owned);
    let text = match (field("message").or_else(|| error.and_then(|e| e.as_str().map(str::to_owned))), field("code")) {
        (Some(message), Some(code)) => format!("{code}: {message}"),
        (Some(message), None) => message,
        (None, _) => body.to_owned(),
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    redact_text(head(&line, SAID)).0
}

/// How providers say that a prompt is too long.
fn is_overflow(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    ["context_length", "context length", "context window", "context size", "prompt is too long", "too many tokens", "maximum context", "input is too long"]
        .iter()
        .any(|w| said.contains(w))
}

/// `Retry-After` in seconds or as a date, or OpenAI's own header in milliseconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    if let Some(millis) = text("retry-after-ms").and_then(|t| t.parse::<u64>().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let given = text("retry-after")?;
    if let Ok(seconds) = given.trim().parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = jiff::fmt::rfc2822::parse(&given).ok()?.timestamp();
    Duration::try_from(at.duration_since(jiff::Timestamp::now())).ok()
}
