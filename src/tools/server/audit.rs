//! The audit trail: one JSON line per call, written before the answer leaves.
//!
//! A line is one write under one lock, so concurrent writers never interleave. A write that fails is logged and counted and never
//! fails the call. Writing is not queued: a server that is killed has a line for each answer that it gave.

use std::{
    fmt,
    io::{self, Write},
    path::PathBuf,
    str::FromStr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use tracing_appender::rolling::{InitError, RollingFileAppender, Rotation};

use super::{Caller, Refusal, redact_text, redact_value};
use crate::{identity::Refused, text::head};

/// Bytes of a call's arguments, or of its error, that are kept: a hostile argument must not fill the disk.
const MAX_FIELD: usize = 2048;

/// Where the lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    Off,
    Stdout,
    Stderr,
    /// A folder: `audit.<day>.jsonl`, a new file each day (UTC).
    Folder(PathBuf),
}

impl FromStr for AuditTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "off" => Self::Off,
            "stdout" => Self::Stdout,
            "stderr" => Self::Stderr,
            // A folder has a slash in it, so that a misspelt word does not become one.
            folder if folder.contains('/') => Self::Folder(folder.into()),
            other => return Err(format!("{other:?} is none of off, stdout, stderr, or a folder such as /var/log/inquest")),
        })
    }
}

#[derive(thiserror::Error, Debug)]
#[error("the audit log cannot be written to {folder}: {source}")]
pub struct AuditError {
    folder: PathBuf,
    source: InitError,
}

/// The trail of one server.
pub struct Audit {
    sink: Option<Mutex<Box<dyn Write + Send>>>,
    failed: AtomicU64,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("on", &self.sink.is_some()).field("failed", &self.failed).finish()
    }
}

/// How a call came out.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Status {
    Success,
    /// A guard refused it: nothing behind the tool was asked.
    Rejected,
    /// It was allowed, and what stands behind the tool failed.
    Error,
}

#[derive(Serialize)]
struct Line<'a> {
    timestamp: Timestamp,
    server: &'a str,
    tool: Option<&'a str>,
    user: Option<&'a str>,
    tenant_id: Option<&'a str>,
    /// The caller's role; where the token names none, the ServiceAccount whose rights the call had.
    role: Option<&'a str>,
    params: Value,
    status: Status,
    row_count: Option<usize>,
    latency_ms: f64,
    error: Option<String>,
    guardrail_code: Option<&'a str>,
}

/// A call as it arrived: taken before the tool has the arguments.
pub(super) struct Call<'a> {
    server: &'a str,
    tool: &'a str,
    caller: Caller,
    params: Value,
}

impl<'a> Call<'a> {
    pub(super) fn new(server: &'a str, tool: &'a str, caller: &Caller, arguments: &Value) -> Self {
        let mut params = arguments.clone();
        redact_value(&mut params);
        let text = params.to_string();
        if text.len() > MAX_FIELD {
            params = json!({"cut": start_of(&text)});
        }
        Self { server, tool, caller: caller.clone(), params }
    }
}

impl Audit {
    /// Keeps nothing: for a run on a laptop, whose journal holds the calls.
    #[must_use]
    pub fn off() -> Self {
        Self { sink: None, failed: AtomicU64::new(0) }
    }

    #[must_use]
    pub fn to(sink: impl Write + Send + 'static) -> Self {
        Self { sink: Some(Mutex::new(Box::new(sink))), failed: AtomicU64::new(0) }
    }

    /// `keep`: how many days' files stay.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub fn open(target: &AuditTarget, keep: usize) -> Result<Self, AuditError> {
        Ok(match target {
            AuditTarget::Off => Self::off(),
            AuditTarget::Stdout => Self::to(io::stdout()),
            AuditTarget::Stderr => Self::to(io::stderr()),
            AuditTarget::Folder(folder) => Self::to(
                RollingFileAppender::builder()
                    .rotation(Rotation::DAILY)
                    .filename_prefix("audit")
                    .filename_suffix("jsonl")
                    .max_log_files(keep)
                    .build(folder)
                    .map_err(|source| AuditError { folder: folder.clone(), source })?,
            ),
        })
    }

    #[must_use]
    pub fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    /// Lines that could not be written.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn call(&self, call: Call<'_>, took: Duration, result: &Result<Value, Refusal>) {
        let Call { server, tool, caller, params } = call;
        let refusal = result.as_ref().err();
        self.write(&Line {
            timestamp: Timestamp::now(),
            server,
            tool: Some(start_of(tool)),
            user: Some(&caller.subject),
            tenant_id: Some(&caller.tenant),
            role: Some(caller.role.as_deref().unwrap_or(&caller.service_account)),
            params,
            status: refusal.map_or(Status::Success, |r| if r.is_guard() { Status::Rejected } else { Status::Error }),
            row_count: result.as_ref().ok().and_then(rows),
            latency_ms: milliseconds(took),
            error: refusal.map(|r| start_of(&redact_text(&r.to_string()).0).to_owned()),
            guardrail_code: refusal.map(Refusal::code),
        });
    }

    /// A request that proved no identity: nobody is named, since nobody is known.
    pub(super) fn unauthenticated(&self, server: &str, why: &Refused) {
        self.write(&Line {
            timestamp: Timestamp::now(),
            server,
            tool: None,
            user: None,
            tenant_id: None,
            role: None,
            params: Value::Null,
            status: if *why == Refused::KeysUnavailable { Status::Error } else { Status::Rejected },
            row_count: None,
            latency_ms: 0.0,
            error: Some(why.to_string()),
            guardrail_code: Some(why.code()),
        });
    }

    fn write(&self, line: &Line<'_>) {
        let Some(sink) = &self.sink else { return };
        let written = serde_json::to_vec(line).map_err(io::Error::from).and_then(|mut bytes| {
            bytes.push(b'\n');
            let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
            sink.write_all(&bytes).and_then(|()| sink.flush())
        });
        if let Err(error) = written {
            let failed = self.failed.fetch_add(1, Ordering::Relaxed) + 1;
            tracing::error!(%error, failed, "a line of the audit log could not be written");
        }
    }
}

fn start_of(text: &str) -> &str {
    head(text, MAX_FIELD)
}

fn milliseconds(took: Duration) -> f64 {
    // Three digits: microseconds are enough for a log, and short to read.
    (took.as_secs_f64() * 1e6).round() / 1e3
}

/// What the tool says of its rows; else the items of its longest list. A single object has none.
fn rows(result: &Value) -> Option<usize> {
    let said = result.get("row_count").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    said.or_else(|| result.as_object()?.values().filter_map(Value::as_array).map(Vec::len).max())
}
