//! What every tool server is made of: transport, authentication, deadline, size limit, redaction, audit, panic containment.
//! A tool is a name, a schema and a function; it gets all of that for nothing.

mod audit;
mod auth;
mod guard;
mod handler;
mod http;
mod metrics;
mod redact;

pub use audit::{Audit, AuditError, AuditTarget};
pub use auth::{Caller, authenticate};
pub use guard::*;
pub use handler::{Registry, ToolSpec};
pub use http::{ServeError, ServerOptions, serve};
pub use metrics::ToolMetrics;
pub use redact::{is_secret_name, redact_text, redact_value};

#[cfg(test)]
mod tests;
