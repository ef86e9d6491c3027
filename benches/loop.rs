//! The agent loop as another agent of a benchmark: so many investigations against a mock model and a tool server, and one line of JSON with
//! what it took. `benches/loop.sh` runs it beside a LangGraph agent; its flags and its line are those of that harness.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a benchmark ends at the first surprise, and prints"
)]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use clap::Parser;
use futures::{FutureExt, future::BoxFuture};
use inquest::{
    agent::{Caps, Control, Mind, PlannedCall, Prices, Received, ToolRef, ToolSchema},
    api::{Fallback, MicroUsd, Protocol, Provider},
    grounding::Draft,
    http_client,
    investigators::{
        Case, Script,
        chat::{Chat, plain},
    },
    mcp::{CallLimits, Connection, Endpoint, Offered},
    models::{Client, Gate, Key, Line, Settings, StaticKey},
    runner::{self, Parts, Stepped, ToolCaller, step},
    store::{JournalStore, MemoryStore, PostgresStore, RunId},
};
use jiff::Timestamp;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

#[derive(Parser)]
struct Args {
    #[arg(long, default_value_t = 100)]
    n: usize,
    #[arg(long, default_value_t = 10)]
    concurrency: usize,
    /// memory or postgres.
    #[arg(long, default_value = "memory")]
    checkpoint: String,
    #[arg(long, default_value = "")]
    llm_url: String,
    /// Empty: one tool in this process.
    #[arg(long, default_value = "")]
    mcp_url: String,
    /// Serve the mock model on this port instead: so many milliseconds an answer.
    #[arg(long)]
    mock: Option<u16>,
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    #[arg(long, default_value = "")]
    token: String,
    #[arg(long, default_value = "")]
    pg_dsn: String,
    #[arg(long, default_value_t = 8)]
    max_tool_calls: u32,
    #[arg(long, default_value_t = 3)]
    warmup: usize,
    /// What cargo passes to a benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A server over MCP, or one tool at hand.
struct Tools(Option<Connection>);

const LOGS: &str = r#"{"service":"checkout-api","count":2,"entries":[{"level":"ERROR","msg":"HikariPool-1 - Connection is not available, request timed out after 30000ms"},{"level":"ERROR","msg":"POST /checkout 503 upstream connect error"}]}"#;

impl ToolCaller for Tools {
    fn call<'a>(&'a self, call: &'a PlannedCall, _server: &'a str) -> BoxFuture<'a, Received> {
        let Some(connection) = &self.0 else {
            let received = Received { at: Timestamp::now(), text: LOGS.to_owned(), truncated: false, code: None };
            return async move { received }.boxed();
        };
        async move { connection.call(&call.tool, &call.arguments, None, CallLimits { timeout: Duration::from_secs(30), max_bytes: 32_768 }).await }.boxed()
    }
}

struct World {
    store: Arc<dyn JournalStore>,
    chat: Chat,
    line: Line,
    tools: Tools,
    catalogue: Vec<ToolRef>,
    schemas: Vec<ToolSchema>,
    caps: Caps,
}

impl World {
    /// One investigation, as the operator does it: the journal is opened anew for each step. Returns the tool calls that were made.
    async fn investigate(&self, id: &str) -> u32 {
        let run = RunId { namespace: "bench".into(), name: id.into(), uid: id.into() };
        let rules = Script { moves: vec![], last: Draft::unknown("the playbooks are not measured here") };
        let case = Case { namespace: "bench".into(), question: "checkout-api: error rate 12 % (alert HighErrorRate)".into(), ..Case::default() };
        let control = Control { caps: self.caps, suspend: false, cancel: false, mind: Mind::Model { fallback: Fallback::None } };
        let model = Some(runner::Model { chat: &self.chat, caller: &self.line });
        let parts = Parts { case: &case, control, investigator: &rules, model, tools: &self.tools, catalogue: &self.catalogue, schemas: &self.schemas };
        loop {
            let mut open = self.store.open(&run).await.unwrap();
            match step(open.as_mut(), &parts, &Timestamp::now).await.unwrap() {
                Stepped::Finished => return open.journal().committed().tool_calls,
                Stepped::Later(wait) => tokio::time::sleep(wait).await,
                Stepped::Again | Stepped::Waiting => {}
            }
        }
    }

    async fn many(self: &Arc<Self>, n: usize, concurrency: usize, prefix: &str) -> (u32, Vec<f64>) {
        let queue = Arc::new(Mutex::new((0..n).map(|i| format!("{prefix}-{i}")).collect::<Vec<_>>()));
        let workers: Vec<_> = (0..concurrency.min(n))
            .map(|_| {
                let (world, queue) = (Arc::clone(self), Arc::clone(&queue));
                tokio::spawn(async move {
                    let (mut steps, mut took) = (0, Vec::new());
                    loop {
                        let Some(id) = queue.lock().unwrap().pop() else { return (steps, took) };
                        let began = Instant::now();
                        steps += world.investigate(&id).await;
                        took.push(began.elapsed().as_secs_f64() * 1e3);
                    }
                })
            })
            .collect();
        let (mut steps, mut took) = (0, Vec::new());
        for worker in workers {
            let (s, t) = worker.await.unwrap();
            steps += s;
            took.extend(t);
        }
        took.sort_by(f64::total_cmp);
        (steps, took)
    }
}

fn status(key: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    text.lines().find(|l| l.starts_with(key)).and_then(|l| l.split_whitespace().nth(1)).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// Seconds of CPU of this process; the kernel counts in hundredths.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

/// A model that asks for another eight log queries and then concludes: the turn is the number of results that it has.
async fn mock(port: u16, latency: Duration) {
    let answer = move |body: axum::Json<Value>| async move {
        tokio::time::sleep(latency).await;
        let results = body["messages"].as_array().map_or(0, |m| m.iter().filter(|m| m["role"] == "tool").count());
        let (name, arguments) = if results < 8 {
            ("get_error_logs", json!({"service": "checkout-api", "minutes": 15 + results}))
        } else {
            ("conclude", json!({"outcome": "unknown"}))
        };
        let call = json!({"id": "c", "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
        axum::Json(json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null, "tool_calls": [call]}}],
            "usage": {"prompt_tokens": 900 + 100 * results, "completion_tokens": 20}}))
    };
    let app = axum::Router::new().route("/v1/chat/completions", axum::routing::post(answer));
    axum::serve(tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap(), app).await.unwrap();
}

async fn store(args: &Args) -> Arc<dyn JournalStore> {
    match args.checkpoint.as_str() {
        "memory" => Arc::new(MemoryStore::default()),
        "postgres" => Arc::new(PostgresStore::connect(&args.pg_dsn, None).await.unwrap()),
        other => panic!("--checkpoint {other}: memory or postgres"),
    }
}

#[tokio::main]
async fn main() {
    let began = Instant::now();
    inquest::identity::install_crypto();
    let args = Args::parse();
    if let Some(port) = args.mock {
        return mock(port, Duration::from_millis(args.latency_ms)).await;
    }
    if args.llm_url.is_empty() {
        // What `cargo bench` starts: nothing is measured without a model.
        println!("make bench-loop");
        return;
    }
    let mut headers = HeaderMap::new();
    if !args.token.is_empty() {
        headers.insert("x-sentinel-tool-token", HeaderValue::from_str(&args.token).unwrap());
    }
    let http = http_client::builder().unwrap().default_headers(headers).build().unwrap();
    let (connection, listed) = if args.mcp_url.is_empty() {
        let schema = json!({"type": "object", "properties": {"service": {"type": "string"}, "minutes": {"type": "integer"}}});
        (None, vec![Offered { name: "get_error_logs".into(), read_only: true, description: "Recent error logs of a service.".into(), schema }])
    } else {
        let connection = Connection::open(Endpoint { url: args.mcp_url.clone(), header: None }, http, None, Duration::from_secs(10)).await.unwrap();
        let listed = connection.tools(Duration::from_secs(10)).await.unwrap();
        (Some(connection), listed)
    };
    let settings = Settings {
        provider: Provider::OpenAI,
        base_url: args.llm_url.clone(),
        model: "mock-model".into(),
        temperature: 0.0,
        seed: -1,
        stream: false,
        timeout: Duration::from_secs(60),
        key_header: String::new(),
        headers: BTreeMap::new(),
        script: None,
    };
    let client = Client::new(settings, http_client::for_endpoint(None, "").unwrap()).unwrap();
    let world = Arc::new(World {
        store: store(&args).await,
        chat: Chat {
            name: "bench/mock".into(),
            protocol: Protocol::Tools,
            max_output: 1024,
            context: 128_000,
            prices: Prices { input: MicroUsd(2_500_000), cached_input: MicroUsd(2_500_000), cache_write: MicroUsd(2_500_000), output: MicroUsd(10_000_000) },
        },
        line: Line { client, keys: Arc::new(StaticKey(Some(Key::new("mock")))), gate: Arc::new(Gate::new(10_000, 0)), observer: None },
        tools: Tools(connection),
        catalogue: listed.iter().map(|t| ToolRef { server: "bench/tools".into(), tool: t.name.clone() }).collect(),
        schemas: listed.iter().map(|t| plain(&t.name, &t.description, &t.schema)).collect(),
        caps: Caps { tool_calls: args.max_tool_calls, cost: MicroUsd(10_000_000), tokens: 10_000_000, duration: Duration::from_secs(600) },
    });
    let run = std::process::id();
    world.many(args.warmup, 1, &format!("warm-{run}")).await;
    let ready = began.elapsed().as_secs_f64();
    // What it took to come so far is not what a run takes. Where the kernel does not let it be reset, the higher figure stands.
    let _not_reset = std::fs::write("/proc/self/clear_refs", "5");
    let (idle, cpu_before, started) = (status("VmRSS"), cpu(), Instant::now());
    let (steps, took) = world.many(args.n, args.concurrency, &format!("run-{run}")).await;
    let (wall, cpu_s) = (started.elapsed().as_secs_f64(), cpu() - cpu_before);
    let at = |p: f64| took[(p * (took.len() - 1) as f64) as usize];
    println!(
        "{}",
        json!({"investigations": args.n, "steps": steps, "wall_s": wall, "cpu_s": cpu_s, "rss_peak_mb": status("VmHWM"), "rss_idle_mb": idle,
            "p50_ms": at(0.5), "p99_ms": at(0.99), "ready_s": ready, "errors": 0})
    );
}
