//! `/metrics`. Labels are bounded: of objects only Models are named, which are few. Each metric is documented in `docs/metrics.md`.

use prometheus::{CounterVec, Encoder, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};

/// The metrics of the operator.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    /// `inquest_investigations_total{phase,stop_reason}`.
    pub finished: IntCounterVec,
    /// `inquest_tool_calls_total{result}`: executed, skipped, denied, failed.
    pub tool_calls: IntCounterVec,
    /// `inquest_reconcile_errors_total{reason}`.
    pub errors: IntCounterVec,
    /// `inquest_watch_errors_total{resource}`.
    pub watch_errors: IntCounterVec,
    /// `inquest_investigation_duration_seconds{investigator}`.
    pub duration: HistogramVec,
    /// `inquest_status_writes_refused_total`.
    pub refused_writes: IntCounter,
    /// `inquest_model_requests_total{model,result}`.
    pub model_requests: IntCounterVec,
    /// `inquest_model_request_duration_seconds{model}`.
    pub model_seconds: HistogramVec,
    /// `inquest_model_tokens_total{model,type}`: input, cached, output.
    pub model_tokens: IntCounterVec,
    /// `inquest_model_cost_usd_total{model}`.
    pub model_cost: CounterVec,
    /// `inquest_model_fallbacks_total{model,reason}`.
    pub model_fallbacks: IntCounterVec,
    /// `inquest_model_breaker_open{model}`.
    pub model_breaker_open: IntGaugeVec,
    /// `inquest_steps_in_flight`.
    pub in_flight: IntGauge,
}

impl Metrics {
    /// # Errors
    /// When a name is used twice: a defect.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counters = |name: &str, help: &str, labels: &[&str]| -> Result<IntCounterVec, prometheus::Error> {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok(counter)
        };
        let finished = counters("inquest_investigations_total", "Investigations that ended.", &["phase", "stop_reason"])?;
        let tool_calls = counters("inquest_tool_calls_total", "Results of tool calls.", &["result"])?;
        let errors = counters("inquest_reconcile_errors_total", "Steps that failed and are tried again.", &["reason"])?;
        let watch_errors = counters("inquest_watch_errors_total", "Errors of watches, each backed off by itself.", &["resource"])?;
        let duration = HistogramVec::new(
            HistogramOpts::new("inquest_investigation_duration_seconds", "From the start to the end of a run.")
                .buckets(vec![0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0]),
            &["investigator"],
        )?;
        registry.register(Box::new(duration.clone()))?;
        let refused_writes =
            IntCounter::new("inquest_status_writes_refused_total", "Status writes that the API server refused and that were made again in a minimal form.")?;
        registry.register(Box::new(refused_writes.clone()))?;
        let in_flight = IntGauge::new("inquest_steps_in_flight", "Steps being done at this moment.")?;
        registry.register(Box::new(in_flight.clone()))?;
        let model_requests = counters("inquest_model_requests_total", "Requests to models, by what came of them.", &["model", "result"])?;
        let model_tokens = counters("inquest_model_tokens_total", "Tokens of models, as they were charged to runs.", &["model", "type"])?;
        let model_fallbacks = counters("inquest_model_fallbacks_total", "Runs that playbooks finished in place of their model.", &["model", "reason"])?;
        let model_cost = CounterVec::new(Opts::new("inquest_model_cost_usd_total", "US dollars that models cost, as they were charged to runs."), &["model"])?;
        registry.register(Box::new(model_cost.clone()))?;
        let model_seconds = HistogramVec::new(
            HistogramOpts::new("inquest_model_request_duration_seconds", "How long models take to answer.")
                .buckets(vec![0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0]),
            &["model"],
        )?;
        registry.register(Box::new(model_seconds.clone()))?;
        let model_breaker_open = IntGaugeVec::new(Opts::new("inquest_model_breaker_open", "1 while a model is let alone because it fails."), &["model"])?;
        registry.register(Box::new(model_breaker_open.clone()))?;
        Ok(Self {
            registry,
            finished,
            tool_calls,
            errors,
            watch_errors,
            duration,
            refused_writes,
            model_requests,
            model_seconds,
            model_tokens,
            model_cost,
            model_fallbacks,
            model_breaker_open,
            in_flight,
        })
    }

    /// In Prometheus' text format.
    #[must_use]
    pub fn text(&self) -> String {
        text(&self.registry)
    }
}

/// What a registry holds, in Prometheus' text format.
#[must_use]
pub fn text(registry: &Registry) -> String {
    let mut buffer = Vec::new();
    match TextEncoder::new().encode(&registry.gather(), &mut buffer) {
        Ok(()) => String::from_utf8_lossy(&buffer).into_owned(),
        Err(error) => {
            tracing::warn!(%error, "metrics could not be encoded");
            String::new()
        }
    }
}
