//! Logs and metrics.

mod metrics;

pub use metrics::{Metrics, text};

use tracing_subscriber::EnvFilter;

/// JSON lines for a cluster, plain lines for a terminal; always to standard error. The filter is `RUST_LOG`'s syntax.
pub fn init_logs(json: bool, filter: &str) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call in one process (tests) keeps the first subscriber.
    let _already = if json { builder.json().flatten_event(true).with_current_span(true).try_init() } else { builder.compact().try_init() };
}
