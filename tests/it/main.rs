//! Tests through the widest seams that need no cluster.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test ends at the first surprise, and says what it saw")]

mod chart;
mod codes;
mod injection;
mod interop;
mod journals;
mod metrics;
mod model_servers;
mod models;
mod money;
mod observability;
mod playbooks;
mod postgres;
mod purity;
mod redaction;
mod runbooks;
mod served_tools;
mod stdio;
mod support;
mod tenants;
mod whole_loop;
#[cfg(target_os = "linux")]
mod workspace;
