//! Refusals and the validation of slots. What a caller gives is only ever a value in a validated slot.

use serde_json::{Value, json};

use crate::text::Pattern;

/// Why a tool did not do what was asked. A normal result with a code, which the investigator reads.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    #[error("{field}: {problem}")]
    InvalidArgument { field: &'static str, problem: String },
    #[error("{what} is not known here; known are: {known}")]
    UnknownKind { what: String, known: String },
    #[error("there is no tool {0:?}")]
    UnknownTool(String),
    #[error("the API server does not let {who} {what}")]
    Forbidden { who: String, what: String },
    #[error("{what} was not found")]
    NotFound { what: String },
    #[error("{0}")]
    SecretDenied(String),
    /// A guard of one server: its code is one of those that docs/tools.md lists.
    #[error("{message}")]
    Denied { code: &'static str, message: String },
    #[error("the cluster cannot be reached: {0}")]
    ClusterUnavailable(String),
    /// What stands behind the server, and is no cluster, does not answer.
    #[error("{0}")]
    BackendUnavailable(String),
    #[error("the tool took longer than {0} s")]
    Timeout(u64),
    #[error("the tool failed: {0}")]
    Internal(String),
}

impl Refusal {
    /// A bounded word, the same in results, logs and metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidArgument { .. } => "invalid_argument",
            Self::UnknownKind { .. } => "unknown_kind",
            Self::UnknownTool(_) => "unknown_tool",
            Self::Forbidden { .. } => "forbidden",
            Self::NotFound { .. } => "not_found",
            Self::SecretDenied(_) => "secret_denied",
            Self::Denied { code, .. } => code,
            Self::ClusterUnavailable(_) => "cluster_unavailable",
            Self::BackendUnavailable(_) => "backend_unavailable",
            Self::Timeout(_) => "timeout",
            Self::Internal(_) => "internal",
        }
    }

    #[must_use]
    pub fn denied(code: &'static str, message: impl Into<String>) -> Self {
        Self::Denied { code, message: message.into() }
    }

    /// The call was turned away, by a guard or by the API server's own; otherwise what stands behind the tool failed.
    #[must_use]
    pub fn is_guard(&self) -> bool {
        match self {
            Self::InvalidArgument { .. }
            | Self::UnknownKind { .. }
            | Self::UnknownTool(_)
            | Self::Forbidden { .. }
            | Self::SecretDenied(_)
            | Self::Denied { .. } => true,
            Self::NotFound { .. } | Self::ClusterUnavailable(_) | Self::BackendUnavailable(_) | Self::Timeout(_) | Self::Internal(_) => false,
        }
    }

    #[must_use]
    pub fn json(&self) -> Value {
        json!({"error": self.to_string(), "guardrail_code": self.code()})
    }
}

/// A DNS subdomain, as the API server asks: no label is empty.
static NAME: Pattern = Pattern::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$");
static LABEL: Pattern = Pattern::new(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$");
static WORD: Pattern = Pattern::new(r"^[A-Za-z][A-Za-z0-9]{0,62}$");

/// The name of an object.
///
/// # Errors
/// When it is none.
pub fn object_name(field: &'static str, text: &str) -> Result<String, Refusal> {
    slot(field, text, text.len() <= 253 && NAME.is_match(text), "a lower-case object name such as payments-api")
}

/// The name of a namespace or a container.
///
/// # Errors
/// When it is none.
pub fn label_name(field: &'static str, text: &str) -> Result<String, Refusal> {
    slot(field, text, LABEL.is_match(text), "a lower-case name of at most 63 characters such as demo")
}

/// A kind or a resource's name.
///
/// # Errors
/// When it is none.
pub fn kind_name(field: &'static str, text: &str) -> Result<String, Refusal> {
    slot(field, text, WORD.is_match(text), "a kind such as Deployment")
}

fn slot(field: &'static str, text: &str, ok: bool, wanted: &str) -> Result<String, Refusal> {
    if ok {
        return Ok(text.to_owned());
    }
    let shown: String = text.chars().take(40).collect();
    let problem = if text.is_empty() { format!("is missing: give {wanted}") } else { format!("{shown:?} is not {wanted}") };
    Err(Refusal::InvalidArgument { field, problem })
}
