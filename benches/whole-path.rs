//! Figures of the whole path on a real cluster: `make bench`. It expects the namespaces of `make demo`, and prints medians and ranges.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a benchmark ends at the first surprise, and prints")]

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use futures::StreamExt;
use inquest::{
    api::{Investigation, InvestigationSpec, Phase},
    store::{JournalStore, KubernetesStore, RunId},
};
use jiff::Timestamp;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams},
    runtime::watcher,
};

const RUNS: usize = 20;

struct Run {
    first_call: f64,
    concluded: f64,
    calls: i32,
}

async fn one(client: &Client, namespace: &str, target: &str, number: usize) -> Run {
    let api: Api<Investigation> = Api::namespaced(client.clone(), namespace);
    let (kind, name) = target.split_once('/').unwrap();
    let spec: InvestigationSpec = serde_json::from_value(serde_json::json!({"target": {"kind": kind, "name": name}})).unwrap();
    let mut object = Investigation::new(&format!("bench-{number}"), spec);
    object.metadata.namespace = Some(namespace.to_owned());
    // The watch is open before the clock starts.
    let mut events = watcher(api.clone(), watcher::Config::default()).boxed();
    while !matches!(events.next().await.unwrap().unwrap(), watcher::Event::InitDone) {}
    let (wall, clock) = (Timestamp::now(), Instant::now());
    let created = api.create(&PostParams::default(), &object).await.unwrap();
    let done = loop {
        if let Ok(watcher::Event::Apply(o)) = events.next().await.unwrap()
            && o.uid() == created.uid()
            && o.status.as_ref().is_some_and(|s| s.phase.is_final())
        {
            break o;
        }
    };
    let concluded = clock.elapsed().as_secs_f64();
    let status = done.status.clone().unwrap();
    assert_eq!(status.phase, Phase::Concluded);
    let run = RunId { namespace: namespace.to_owned(), name: done.name_any(), uid: done.uid().unwrap() };
    let open = KubernetesStore::new(client.clone()).open(&run).await.unwrap();
    let first = open.journal().evidence().next().unwrap().at;
    api.delete(&done.name_any(), &DeleteParams::default()).await.unwrap();
    Run { first_call: first.duration_since(wall).as_secs_f64(), concluded, calls: status.usage.unwrap().tool_calls }
}

fn row(what: &str, unit: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    println!("{what:44} {:>9.0} {:>9.0} {:>9.0} {unit}", values[values.len() / 2], values[0], values[values.len() - 1]);
}

async fn api_requests(client: &Client) -> f64 {
    let text = client.request_text(http::Request::get("/metrics").body(vec![]).unwrap()).await.unwrap();
    text.lines().filter(|l| l.starts_with("apiserver_request_total{")).filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Resident memory in MB of the processes whose command line begins so. The local node's processes are this machine's.
fn memory(pattern: &str) -> Vec<f64> {
    let out = Command::new("pgrep").args(["-f", pattern]).output().unwrap();
    String::from_utf8_lossy(&out.stdout)
        .lines()
        .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).ok())
        .filter_map(|s| s.lines().find(|l| l.starts_with("VmRSS:"))?.split_whitespace().nth(1)?.parse::<f64>().ok())
        .map(|kb| kb / 1024.0)
        .collect()
}

/// From the start of the process until `/readyz` says ok, in milliseconds.
async fn start_to_ready() -> f64 {
    let http = inquest::http_client::builder().unwrap().build().unwrap();
    let from = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_inquest"))
        .args(["operator", "--listen", "127.0.0.1:18099"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while http.get("http://127.0.0.1:18099/readyz").send().await.map_or(true, |r| !r.status().is_success()) {
        assert!(from.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let took = from.elapsed().as_secs_f64() * 1000.0;
    child.kill().unwrap();
    child.wait().unwrap();
    took
}

#[tokio::main]
async fn main() {
    inquest::identity::install_crypto();
    let client = Client::try_default().await.unwrap();
    println!("{:44} {:>9} {:>9} {:>9}", "", "median", "min", "max");
    for (what, target) in [("one hop (Deployment redis)", "Deployment/redis"), ("two hops (Deployment payments-api)", "Deployment/payments-api")] {
        // What the cluster asks of itself meanwhile is not ours.
        let (idle_from, idle_clock) = (api_requests(&client).await, Instant::now());
        tokio::time::sleep(Duration::from_secs(10)).await;
        let idle = (api_requests(&client).await - idle_from) / idle_clock.elapsed().as_secs_f64();
        let (from, clock) = (api_requests(&client).await, Instant::now());
        let mut runs = Vec::new();
        for number in 0..RUNS {
            runs.push(one(&client, "demo", target, number).await);
        }
        let requests = (api_requests(&client).await - from - idle * clock.elapsed().as_secs_f64()) / f64::from(u32::try_from(RUNS).unwrap());
        row(&format!("{what}: apply to first result"), "ms", runs.iter().map(|r| r.first_call * 1000.0).collect());
        row(&format!("{what}: apply to Concluded"), "ms", runs.iter().map(|r| r.concluded * 1000.0).collect());
        row(&format!("{what}: tool calls"), "", runs.iter().map(|r| f64::from(r.calls)).collect());
        println!("{:44} {requests:>9.0} {:>19} API requests a run, the cluster's own ({idle:.1}/s) taken off", what, "");
    }
    for (what, pattern) in [("operator: resident memory", "^/inquest operator"), ("tool server: resident memory", "^/inquest tools")] {
        let found = memory(pattern);
        if found.is_empty() {
            println!("{what:44} not measured: its processes are not this machine's");
        } else {
            row(what, "MB", found);
        }
    }
    let mut ready = Vec::new();
    for _ in 0..7 {
        ready.push(start_to_ready().await);
    }
    row("operator: process start to ready", "ms", ready);
}
