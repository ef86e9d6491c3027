//! The chart's tool servers as they run: each called through its Service with a token such as the operator signs.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use inquest::{
    identity::{ISSUER, KeyRing, Subject, Token, install_crypto, mint},
    mcp::{CallLimits, Connection, Endpoint},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kubectl::{apply, ended, investigate, json as get, kubectl, phase, until},
    scenarios::scenario,
};

const SYSTEM: &str = "inquest-system";
const TENANT: &str = "sc-healthy";
const LIMITS: CallLimits = CallLimits { timeout: Duration::from_secs(20), max_bytes: 65_536 };

fn ring() -> KeyRing {
    install_crypto();
    let secret = get(&["-n", SYSTEM, "get", "secret", "inquest-signing-keys"]);
    let data: BTreeMap<String, Vec<u8>> = secret["data"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(k, v)| (k.clone(), base64::Engine::decode(&base64::engine::general_purpose::STANDARD, v.as_str().unwrap()).unwrap()))
        .collect();
    KeyRing::from_data(&data).unwrap()
}

fn token(ring: &KeyRing) -> Token {
    let subject = Subject { namespace: TENANT, name: "e2e", uid: "e2e", service_account: "inquest-reader" };
    mint(ring, ISSUER, &subject, "e2e".into(), Timestamp::now()).unwrap()
}

/// A client that calls a Service by its name. `pooled`: it keeps its connection, and so its replica.
fn http(service: &str, pooled: bool) -> reqwest::Client {
    let address = get(&["-n", SYSTEM, "get", "service", service])["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let address: SocketAddr = format!("{address}:8080").parse().unwrap();
    let builder = inquest::http_client::builder().unwrap().resolve(&format!("{service}.{SYSTEM}.svc"), address);
    if pooled { builder } else { builder.pool_max_idle_per_host(0) }.build().unwrap()
}

async fn connect(service: &str, http: reqwest::Client, token: &Token) -> Connection {
    let endpoint = Endpoint { url: format!("http://{service}.{SYSTEM}.svc:8080/mcp"), header: Some("Authorization".into()) };
    Connection::open(endpoint, http, Some(token), Duration::from_secs(10)).await.unwrap()
}

struct Called {
    code: Option<String>,
    value: Value,
}

async fn call(service: &str, tool: &str, arguments: Value) -> Called {
    let token = token(&ring());
    let got = connect(service, http(service, true), &token).await.call(tool, &arguments, Some(&token), LIMITS).await;
    println!("{service} {tool} {arguments}\n    {}", got.text.chars().take(240).collect::<String>());
    Called { code: got.code, value: serde_json::from_str(&got.text).unwrap_or_default() }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn every_server_of_the_chart_answers_over_its_service() {
    scenario("healthy");
    apply(
        TENANT,
        "apiVersion: inquest.dev/v1alpha1\nkind: Runbook\nmetadata: {name: queue-is-full}\nspec: {title: The queue is full, signatures: ['queue depth over limit'], body: Scale the workers.}\n",
    );
    let servers = get(&["-n", SYSTEM, "get", "toolservers"]);
    for server in servers["items"].as_array().unwrap() {
        let ready = server["status"]["conditions"].as_array().unwrap().iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
        assert!(ready, "{server}");
        println!("{}: {}", server["metadata"]["name"], server["status"]["tools"]);
    }
    assert_eq!(servers["items"].as_array().unwrap().len(), 5);
    runtime().block_on(async {
        let found = call("kubernetes-tools", "find_problems", json!({})).await;
        assert_eq!((found.code, found.value["namespace"].as_str()), (None, Some(TENANT)));

        let deploys = call("observability-tools", "recent_deploys", json!({})).await;
        assert!(deploys.value["deploys"].to_string().contains("Deployment/web"), "{}", deploys.value);
        let errors = call("observability-tools", "error_logs", json!({"kind": "Deployment", "name": "web"})).await;
        assert_eq!((errors.code, errors.value["complete"].as_bool()), (None, Some(true)), "{}", errors.value);
        let other = call("observability-tools", "recent_deploys", json!({"namespace": "sc-silent-crash"})).await;
        assert_eq!(other.code.as_deref(), Some("forbidden"));

        let own = call("runbooks-tools", "search_runbooks", json!({"query": "worker-1: queue depth over limit (900)"})).await;
        assert_eq!(
            (own.value["runbooks"][0]["namespace"].as_str(), own.value["runbooks"][0]["signature"].as_str()),
            (Some(TENANT), Some("queue depth over limit")),
            "{}",
            own.value
        );
        let shared = call("runbooks-tools", "read_runbook", json!({"name": "readiness"})).await;
        assert_eq!((shared.value["runbook"]["namespace"].as_str(), shared.value["kept"].as_str()), (Some(SYSTEM), Some("file")), "{}", shared.value);

        let files = call("workspace-tools", "search_files", json!({"pattern": "db-[a-z]+"})).await;
        assert!(files.value["matches"].to_string().contains("oncall.md:2: The database of orders is db-orders."), "{}", files.value);
        let listed = call("workspace-tools", "run_shell", json!({"command": "wc -l oncall.md"})).await;
        assert_eq!((listed.value["exit_code"].as_i64(), listed.value["stdout"].as_str().map(str::trim)), (Some(0), Some("2 oncall.md")), "{}", listed.value);
        let secret = call("workspace-tools", "read_file", json!({"path": "app.env"})).await;
        assert_eq!(secret.code.as_deref(), Some("secret_file_denied"));

        let figures = call("metrics-tools", "list_available_metrics", json!({})).await;
        assert!(!figures.value["metrics"].as_array().unwrap().is_empty());
    });
}

/// S1.4: a Prometheus that scrapes the kubelet and real pods.
#[test]
fn s1_4_query_metrics_shows_what_prometheus_scraped_of_real_pods() {
    scenario("healthy");
    runtime().block_on(async {
        let end = Instant::now() + Duration::from_secs(90);
        let memory = loop {
            let got = call("observability-tools", "query_metrics", json!({"query": "memory_usage", "workload": "web", "range_minutes": 5})).await;
            assert_eq!(got.code, None, "{}", got.value);
            if got.value["series"][0]["summary"]["last"].as_f64().is_some_and(|v| v > 0.0) {
                break got.value;
            }
            assert!(Instant::now() < end, "no memory of pod web was scraped: {}", got.value);
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        let labels = &memory["series"][0]["labels"];
        assert!(labels["pod"].as_str().unwrap().starts_with("web-") && memory["unit"] == "bytes", "{memory}");
        assert!(memory["series"][0]["summary"]["last"].as_f64().unwrap() < 1e9);
        let denied = call("observability-tools", "query_metrics", json!({"query": "memory_usage", "namespace": SYSTEM})).await;
        assert_eq!(denied.code.as_deref(), Some("cross_tenant_denied"));
    });
    // And our own tool servers are scraped as they stand: an allowed peer, the port named http.
    let asked = until("Prometheus scraped the tool servers", 60, || {
        let path = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy/api/v1/query?query=count(inquest_tool_server_calls_total)by(namespace)";
        let got: Value = serde_json::from_str(&kubectl(&["get", "--raw", path])).ok()?;
        got["data"]["result"][0]["metric"]["namespace"].as_str().map(str::to_owned)
    });
    assert_eq!(asked, SYSTEM);
}

/// S1.1: two replicas behind one Service, alternating, one killed under load: no call fails but those in flight on it.
#[test]
fn s1_1_two_replicas_serve_and_the_loss_of_one_costs_only_its_calls_in_flight() {
    const CALLERS: u32 = 16;
    scenario("healthy");
    let selector = "app.kubernetes.io/component=kubernetes-tools";
    let pods = || get(&["-n", SYSTEM, "get", "pods", "-l", selector]);
    let restarts =
        || pods()["items"].as_array().unwrap().iter().map(|p| p["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(0)).sum::<i64>();
    let served = |pod: &str| {
        let text = kubectl(&["get", "--raw", &format!("/api/v1/namespaces/{SYSTEM}/pods/{pod}:8080/proxy/metrics")]);
        let of = |l: &str| l.starts_with("inquest_tool_server_calls_total").then(|| l.rsplit(' ').next()?.parse::<u64>().ok()).flatten();
        text.lines().filter_map(of).sum::<u64>()
    };
    let names: Vec<String> = pods()["items"].as_array().unwrap().iter().map(|p| p["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names.len(), 2);
    let before: Vec<u64> = names.iter().map(|n| served(n)).collect();
    let restarted = restarts();
    let (done, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU32::new(0)));
    let split = runtime().block_on(async {
        let ring = ring();
        let client = http("kubernetes-tools", false);
        let end = Instant::now() + Duration::from_secs(12);
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..CALLERS {
            let (token, client, done, failed) = (token(&ring), client.clone(), Arc::clone(&done), Arc::clone(&failed));
            callers.spawn(async move {
                let connection = connect("kubernetes-tools", client, &token).await;
                while Instant::now() < end {
                    let got = connection.call("kubectl_get", &json!({"kind": "Service"}), Some(&token), LIMITS).await;
                    match got.code {
                        None => done.fetch_add(1, Ordering::Relaxed),
                        Some(code) => {
                            println!("  a call failed: {code} {}", got.text);
                            u64::from(failed.fetch_add(1, Ordering::Relaxed))
                        }
                    };
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(4)).await;
        let split = tokio::task::spawn_blocking({
            let names = names.clone();
            move || {
                let split: Vec<u64> = names.iter().zip(before).map(|(n, b)| served(n) - b).collect();
                // One process, the first that is found, as the kernel would end it.
                let killed = std::process::Command::new("pkill").args(["-KILL", "-o", "-f", "^/inquest tools kubernetes"]).status().unwrap().success();
                if !killed {
                    kubectl(&["-n", SYSTEM, "delete", "pod", &names[0], "--grace-period=0", "--force", "--wait=false"]);
                }
                split
            }
        })
        .await
        .unwrap();
        while callers.join_next().await.is_some() {}
        split
    });
    let (done, failed) = (done.load(Ordering::Relaxed), failed.load(Ordering::Relaxed));
    println!("{done} calls of {CALLERS} callers; before the kill the replicas had served {split:?}; {failed} failed");
    assert!(split.iter().all(|s| *s > 20), "both replicas serve: {split:?}");
    assert!(failed <= CALLERS, "{failed} failed: more than were in flight");
    assert!(done > 200, "{done}");
    until("both replicas are back", 60, || {
        let pods = pods();
        let ready = pods["items"].as_array().unwrap().iter().filter(|p| p["status"]["containerStatuses"][0]["ready"] == true).count();
        (ready == 2 && (restarts() > restarted || pods["items"].as_array().unwrap().iter().any(|p| !names.iter().any(|n| p["metadata"]["name"] == n.as_str()))))
            .then_some(())
    });
}

/// S1.17 on a cluster: the run cites the Runbook that holds what proves its cause.
#[test]
fn s1_17_a_run_cites_the_runbook_of_its_cause() {
    let namespace = &scenario("configmap-missing");
    let book = |name: &str, signature: &str| {
        apply(
            namespace,
            &format!(
                "apiVersion: inquest.dev/v1alpha1\nkind: Runbook\nmetadata: {{name: {name}}}\nspec: {{title: A ConfigMap is not there, signatures: ['{signature}'], body: orders-settings not found}}\n"
            ),
        );
    };
    book("rollback", "ImagePullBackOff");
    book("settings", "configmap \"orders-settings\" not found");
    investigate(namespace, "cites", "{target: {kind: Deployment, name: orders}}");
    let object = ended(namespace, "cites");
    let cited = &object["status"]["postmortem"]["runbook"];
    assert_eq!((phase(&object), cited["name"].as_str(), cited["namespace"].as_str()), ("Concluded", Some("settings"), Some(namespace.as_str())), "{object}");
    println!("{}", object["status"]["postmortem"]["markdown"].as_str().unwrap());
}

/// S1.2: a server that nobody here wrote is a ToolServer, and nothing else. What it could change is not offered.
#[test]
fn s1_2_a_third_partys_server_is_one_more_tool_server() {
    scenario("healthy");
    apply(
        TENANT,
        "apiVersion: inquest.dev/v1alpha1\nkind: ToolServer\nmetadata: {name: third-party}\nspec: {url: 'http://kubernetes-mcp-server.third-party.svc:8080/mcp', auth: {type: None}}\n",
    );
    let ready = |o: &Value| o["status"]["conditions"].as_array().into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
    let server = until("it is discovered", 60, || Some(get(&["-n", TENANT, "get", "toolserver", "third-party"])).filter(ready));
    let listed = server["status"].to_string();
    assert!(listed.contains("pods_list_in_namespace"), "{listed}");
    println!("{}", kubectl(&["-n", TENANT, "get", "toolservers"]));
    println!("{}", server["status"]);
    investigate(TENANT, "with-third-party", "{target: {kind: Deployment, name: web}}");
    let object = ended(TENANT, "with-third-party");
    assert_eq!(phase(&object), "Concluded", "{object}");
    let offered: Vec<String> =
        crate::lifecycle::journal(&object).tools().iter().filter(|t| t.server == format!("{TENANT}/third-party")).map(|t| t.tool.clone()).collect();
    assert!(offered.iter().any(|t| t == "pods_list_in_namespace"), "{offered:?}");
    let writes = ["pods_delete", "pods_exec", "pods_run", "resources_create_or_update", "resources_delete", "resources_scale"];
    assert!(writes.iter().all(|w| !offered.iter().any(|t| t == w)), "{offered:?}");
    println!("offered of it: {offered:?}");
    // A model calls it as it calls every other, through the whole run.
    crate::models::scripts(&[(
        "third-party",
        "replies: [{calls: [{name: pods_list_in_namespace, arguments: {namespace: demo}}]}, {calls: [{name: conclude, arguments: {outcome: unknown}}]}]",
    )]);
    crate::models::model(
        "third-party",
        "{provider: Script, model: recorded, fallback: None, scriptRef: {name: inquest-scripts, key: third-party}, price: {inputPerMillionUSD: '0', outputPerMillionUSD: '0'}, allowedNamespaces: {from: All}}",
    );
    investigate(TENANT, "third-party-called", "{question: 'Which pods are there?', modelRef: {name: third-party, namespace: inquest-system}}");
    let object = ended(TENANT, "third-party-called");
    let journal = crate::lifecycle::journal(&object);
    let evidence = journal.evidence().next().unwrap_or_else(|| panic!("{object}"));
    assert_eq!((evidence.server.as_str(), evidence.tool.as_str()), (format!("{TENANT}/third-party").as_str(), "pods_list_in_namespace"));
    println!("called through a run: {}: {}", evidence.tool, evidence.text.lines().next().unwrap_or_default());
    kubectl(&["-n", TENANT, "delete", "toolserver", "third-party"]);
}
