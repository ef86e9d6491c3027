//! What a tool server counts. Labels are bounded: the server's own tools and codes, never a tenant or what a caller wrote.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use serde_json::Value;

use super::Refusal;
use crate::{identity::Refused, telemetry};

/// The metrics of one tool server.
pub struct ToolMetrics {
    registry: Registry,
    server: &'static str,
    calls: IntCounterVec,
    duration: HistogramVec,
    redactions: IntCounter,
    audit_failures: IntGauge,
}

impl ToolMetrics {
    /// # Errors
    /// When a name is used twice: a defect.
    pub fn new(server: &'static str) -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let calls = IntCounterVec::new(Opts::new("inquest_tool_server_calls_total", "Calls of a tool, by how they came out."), &["server", "tool", "result"])?;
        registry.register(Box::new(calls.clone()))?;
        let duration = HistogramVec::new(
            HistogramOpts::new("inquest_tool_server_call_duration_seconds", "From a call's arguments to its result.")
                .buckets(vec![0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0]),
            &["server", "tool"],
        )?;
        registry.register(Box::new(duration.clone()))?;
        let redactions = IntCounter::new("inquest_tool_server_redactions_total", "Values that looked secret and were replaced.")?;
        registry.register(Box::new(redactions.clone()))?;
        let audit_failures = IntGauge::new("inquest_tool_server_audit_lines_failed", "Lines of the audit log that could not be written.")?;
        registry.register(Box::new(audit_failures.clone()))?;
        Ok(Self { registry, server, calls, duration, redactions, audit_failures })
    }

    /// `tool`: none where there is no such tool.
    pub(super) fn called(&self, tool: Option<&str>, took: Duration, result: &Result<Value, Refusal>) {
        let tool = tool.unwrap_or("unknown");
        self.calls.with_label_values(&[self.server, tool, result.as_ref().map_or_else(Refusal::code, |_| "success")]).inc();
        self.duration.with_label_values(&[self.server, tool]).observe(took.as_secs_f64());
    }

    pub(super) fn unauthenticated(&self, why: &Refused) {
        self.calls.with_label_values(&[self.server, "unknown", why.code()]).inc();
    }

    pub(super) fn redacted(&self, count: usize) {
        self.redactions.inc_by(count as u64);
    }

    pub(super) fn text(&self, audit_failures: u64) -> String {
        self.audit_failures.set(i64::try_from(audit_failures).unwrap_or(i64::MAX));
        telemetry::text(&self.registry)
    }
}
