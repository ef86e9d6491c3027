//! The observability server: `recent_deploys`, `error_logs` and, over a Prometheus, `query_metrics`.
//!
//! What a log line, a revision or a series means (`logs`, `deploys`, `series`) is pure; the cluster is read by the kubernetes tools' own
//! [`Source`](super::kubernetes::Source), as the run's ServiceAccount.

mod deploys;
mod logs;
mod prometheus;
mod queries;
mod series;
#[cfg(test)]
mod tests;
mod tools;

pub use prometheus::Prometheus;
pub use queries::{Queries, QueriesError};
pub use tools::{Settings, tools};
