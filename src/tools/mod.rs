//! The tool servers: one folder each, over the shared frame in `server/`.
//!
//! Must not import: the operator, the agent, the investigators. A tool knows nothing of who asks but the verified caller.

pub mod kubernetes;
pub mod metrics;
pub mod observability;
pub mod runbooks;
pub mod server;
#[cfg(target_os = "linux")]
pub mod workspace;
