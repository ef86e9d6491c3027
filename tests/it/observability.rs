//! The observability server over the served endpoint: a saved cluster, and a real Prometheus that scrapes.

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use inquest::{
    identity::SCOPE_TOOLS,
    tools::{
        kubernetes::Snapshot,
        observability::{Prometheus, Queries, Settings, tools},
    },
};
use serde_json::{Value, json};

use crate::{
    postgres::eventually,
    support::{Served, served},
};

const TRACE: &str = "2026-12-01T11:59:00Z starting
2026-12-01T11:59:01Z Traceback (most recent call last):
2026-12-01T11:59:01Z   File \"/app/main.py\", line 7, in <module>
2026-12-01T11:59:01Z KeyError: 'DATABASE_URL'";

fn snapshot() -> Arc<Snapshot> {
    let set = |revision: u32, made: &str, token: &str| {
        json!({"kind": "ReplicaSet", "metadata": {"name": format!("web-{revision}"), "namespace": "demo", "uid": format!("r{revision}"), "creationTimestamp": made,
               "annotations": {"deployment.kubernetes.io/revision": revision.to_string(), "kubernetes.io/change-cause": format!("release {revision}")},
               "ownerReferences": [{"kind": "Deployment", "name": "web", "uid": "d", "controller": true}]},
               "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "web", "image": format!("web:{revision}"), "env": [{"name": "API_TOKEN", "value": token}]}]}}}})
    };
    let pod = |name: &str, restarts: u32| {
        json!({"kind": "Pod", "metadata": {"name": name, "namespace": "demo", "creationTimestamp": "2026-12-01T11:30:00Z",
               "ownerReferences": [{"kind": "ReplicaSet", "name": "web-2", "uid": "r2", "controller": true}]},
               "spec": {"containers": [{"name": "web"}]}, "status": {"containerStatuses": [{"name": "web", "restartCount": restarts, "state": {"running": {}}}]}})
    };
    Arc::new(
        serde_json::from_value(json!({
            "takenAt": "2026-12-01T12:00:00Z",
            "objects": [
                {"kind": "Deployment", "metadata": {"name": "web", "namespace": "demo", "uid": "d", "creationTimestamp": "2026-11-01T00:00:00Z"}, "spec": {"replicas": 2}, "status": {}},
                {"kind": "Deployment", "metadata": {"name": "idle", "namespace": "demo", "uid": "i", "creationTimestamp": "2026-11-01T00:00:00Z"}, "spec": {"replicas": 0}, "status": {}},
                set(1, "2026-11-01T00:00:00Z", "hunter22"), set(2, "2026-12-01T11:30:00Z", "hunter33"), pod("web-2-a", 3), pod("web-2-b", 0),
                {"kind": "StatefulSet", "metadata": {"name": "db", "namespace": "demo", "uid": "s", "creationTimestamp": "2026-11-01T00:00:00Z"}, "spec": {}, "status": {}},
                {"kind": "ControllerRevision", "metadata": {"name": "db-1", "namespace": "demo", "creationTimestamp": "2026-11-01T00:00:00Z", "ownerReferences": [{"kind": "StatefulSet", "name": "db", "uid": "s"}]},
                 "revision": 1, "data": {"spec": {"template": {"spec": {"containers": [{"name": "db", "image": "db:1"}]}}}}},
                {"kind": "ControllerRevision", "metadata": {"name": "db-2", "namespace": "demo", "creationTimestamp": "2026-12-01T11:00:00Z", "ownerReferences": [{"kind": "StatefulSet", "name": "db", "uid": "s"}]},
                 "revision": 2, "data": {"spec": {"template": {"spec": {"containers": [{"name": "db", "image": "db:2"}]}}}}},
            ],
            "logs": {
                "demo/web-2-a/web": format!("2026-12-01T11:58:00Z level=info msg=ready\n2026-12-01T11:58:01Z level=error msg=\"cannot reach db\" password=hunter22"),
                "demo/web-2-a/web/previous": TRACE,
                "demo/web-2-b/web": "2026-12-01T11:58:09Z level=error msg=\"cannot reach db\" password=hunter22\n2026-11-30T01:00:00Z ERROR too old",
            }
        }))
        .unwrap(),
    )
}

async fn served_with(prometheus: Option<&str>) -> Served {
    let queries = Queries::parse(include_str!("../../config/promql.yaml")).unwrap();
    let prometheus = prometheus.map(|url| (Prometheus::new(url, None, &[]).unwrap(), queries));
    served(tools(Settings { readers: Arc::new(snapshot()), prometheus }), SCOPE_TOOLS).await
}

#[tokio::test]
async fn s1_4_recent_deploys_says_what_each_rollout_changed() {
    let served = served_with(None).await;
    let (code, many) = served.call("recent_deploys", json!({})).await;
    assert_eq!((code, many["deploys"].as_array().unwrap().len()), (None, 2), "{many}");
    let newest = &many["deploys"][0];
    assert_eq!(
        (newest["workload"].as_str(), newest["revision"].as_i64(), newest["change_cause"].as_str()),
        (Some("Deployment/web"), Some(2), Some("release 2")),
        "{newest}"
    );
    assert!(newest["changes"].to_string().contains("spec.containers[web].image: web:1 -> web:2"), "{newest}");
    assert_eq!(many["deploys"][1]["workload"], "StatefulSet/db");
    assert!(!many.to_string().contains("hunter"), "{many}");
    let (_, one) = served.call("recent_deploys", json!({"kind": "StatefulSet", "name": "db"})).await;
    assert_eq!(one["deploys"].as_array().unwrap().len(), 1);
    let (code, none) = served.call("recent_deploys", json!({"kind": "Deployment", "name": "web", "window_minutes": 5})).await;
    assert_eq!((code, none["deploys"].as_array().unwrap().len(), none["complete"].as_bool()), (None, 0, Some(true)), "{none}");
}

#[tokio::test]
async fn s1_4_error_logs_groups_what_current_and_previous_containers_said() {
    let served = served_with(None).await;
    let (code, many) = served.call("error_logs", json!({"kind": "Deployment", "name": "web"})).await;
    assert_eq!((code, many["groups"].as_array().unwrap().len()), (None, 2), "{many}");
    let (trace, db) = (&many["groups"][0], &many["groups"][1]);
    assert_eq!((trace["level"].as_str(), trace["template"].as_str()), (Some("fatal"), Some("KeyError: 'DATABASE_URL'")), "{many}");
    assert_eq!(trace["sources"], json!(["web-2-a/web (previous)"]));
    assert_eq!(
        (db["count"].as_u64(), db["first"].as_str(), db["last"].as_str()),
        (Some(2), Some("2026-12-01T11:58:01Z"), Some("2026-12-01T11:58:09Z")),
        "{db}"
    );
    assert!(db["sample"].as_str().unwrap().contains("password=[redacted"), "{db}");
    assert!(!many.to_string().contains("hunter") && !many.to_string().contains("too old"), "{many}");
    let (_, one) = served.call("error_logs", json!({"kind": "Pod", "name": "web-2-b"})).await;
    assert_eq!(one["groups"].as_array().unwrap().len(), 1, "{one}");
    let (code, none) = served.call("error_logs", json!({"kind": "Deployment", "name": "idle"})).await;
    assert_eq!((code, none["groups"].as_array().unwrap().len()), (None, 0), "{none}");
}

/// A Prometheus that scrapes `target` as a pod of two namespaces.
struct Scraper {
    child: Child,
    folder: PathBuf,
    url: String,
}

impl Drop for Scraper {
    fn drop(&mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

impl Scraper {
    fn start(target: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("inquest-prometheus-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let job = |namespace: &str| json!({"targets": [target], "labels": {"namespace": namespace, "pod": format!("{namespace}-web-5d8f-x")}});
        let config = json!({"global": {"scrape_interval": "1s"}, "scrape_configs": [{"job_name": "pods", "static_configs": [job("demo"), job("other")]}]});
        fs::write(folder.join("prometheus.yml"), config.to_string()).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new("prometheus")
            .args([
                format!("--config.file={}/prometheus.yml", folder.display()),
                format!("--storage.tsdb.path={}/data", folder.display()),
                format!("--web.listen-address={address}"),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Prometheus is needed: run tests/services.sh, or apt-get install prometheus");
        Self { child, folder, url: format!("http://{address}") }
    }
}

#[tokio::test]
async fn s1_4_query_metrics_asks_a_real_prometheus_by_name_and_shows_a_tenant_its_own() {
    let target = served_with(None).await;
    let address = target.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let prometheus = Scraper::start(&address);
    let served = served_with(Some(&prometheus.url)).await;
    eventually("a scraped point", async || {
        let (_, got) = served.call("query_metrics", json!({"query": "up", "range_minutes": 5})).await;
        got["series"][0]["summary"]["last"] == 1.0
    })
    .await;
    let (code, one) = served.call("query_metrics", json!({"query": "up", "workload": "demo-web", "range_minutes": 5})).await;
    assert_eq!((code, one["series"].as_array().unwrap().len()), (None, 1), "{one}");
    assert_eq!(one["series"][0]["labels"], json!({"job": "pods", "pod": "demo-web-5d8f-x"}));
    assert!(one["series"][0]["points"].as_array().unwrap().len() <= 61 && one["complete"] == true, "{one}");
    assert!(!one.to_string().contains("other"), "{one}");
    // A name that only begins like it, and one that another tenant has: nothing.
    for workload in ["demo", "dem", "other-web"] {
        let (code, none) = served.call("query_metrics", json!({"query": "up", "workload": workload})).await;
        let expected = usize::from(workload == "demo");
        assert_eq!((code, none["series"].as_array().unwrap().len()), (None, expected), "{workload}: {none}");
    }
    let (_, known) = served.call("query_metrics", json!({})).await;
    assert!(known["queries"].as_array().unwrap().len() >= 12, "{known}");
    drop(prometheus);
    let (code, gone) = served.call("query_metrics", json!({"query": "up"})).await;
    assert_eq!((code.as_deref(), gone["error"].as_str().unwrap().contains("Prometheus")), (Some("backend_unavailable"), true), "{gone}");
}

#[tokio::test]
async fn every_attack_on_the_observability_tools_is_refused() {
    // No Prometheus listens there: what passed the guards would be `backend_unavailable`.
    let served = served_with(Some("http://127.0.0.1:1")).await;
    let mut attacks: Vec<(&str, Value, &str)> = vec![];
    let injections = [
        "up",
        "UP ",
        "up{}",
        "up or vector(1)",
        "sum(up)",
        "{__name__=~\".+\"}",
        "up\" or \"",
        "cpu_usage)",
        "cpu_usage\n",
        "../up",
        "up#",
        "label_replace(up,\"a\",\"$1\",\"b\",\"(.*)\")",
        "$namespace",
        "",
    ];
    for text in injections.into_iter().filter(|t| !matches!(*t, "up" | "")) {
        attacks.push(("query_metrics", json!({"query": text}), "unknown_query"));
    }
    let workloads = [
        "web\"",
        "web\"} or up{namespace=\"other",
        ".*",
        "web|other",
        "web,namespace=\"other\"",
        "web\\",
        "web\n",
        "WEB",
        "web/x",
        "-web",
        "web.",
        "(web)",
        "$workload",
        "web{",
        "w\u{200b}eb",
        "wéb",
        "web'",
        "web`",
        "web;drop",
        "%22",
    ];
    for text in workloads {
        attacks.push(("query_metrics", json!({"query": "up", "workload": text}), "invalid_argument"));
        attacks.push(("recent_deploys", json!({"kind": "Deployment", "name": text}), "invalid_argument"));
        attacks.push(("error_logs", json!({"kind": "Pod", "name": text}), "invalid_argument"));
        attacks.push(("query_metrics", json!({"query": "up", "namespace": text}), "invalid_argument"));
    }
    for namespace in ["other", "kube-system", "inquest-system", "demo2", "default"] {
        attacks.push(("query_metrics", json!({"query": "up", "namespace": namespace}), "cross_tenant_denied"));
        attacks.push(("query_metrics", json!({"namespace": namespace}), "cross_tenant_denied"));
    }
    for (tool, most) in [("recent_deploys", 43_201), ("error_logs", 1441)] {
        attacks.push((tool, json!({"window_minutes": most}), "invalid_argument"));
        attacks.push((tool, json!({"window_minutes": u32::MAX}), "invalid_argument"));
        attacks.push((tool, json!({"window_minutes": -1}), "invalid_argument"));
        attacks.push((tool, json!({"name": "web"}), "invalid_argument"));
        attacks.push((tool, json!({"kind": "Deployment"}), "invalid_argument"));
        attacks.push((tool, json!({"kind": "Secret", "name": "x"}), "secret_denied"));
        attacks.push((tool, json!({"kind": "Node", "name": "x"}), "invalid_argument"));
        attacks.push((tool, json!({"kind": "Deployment", "name": "nothing"}), "not_found"));
        attacks.push((tool, json!({"promql": "up"}), "invalid_argument"));
    }
    attacks.push(("query_metrics", json!({"query": "up", "range_minutes": 10_081}), "invalid_argument"));
    attacks.push(("query_metrics", json!({"query": "up", "step": "1s"}), "invalid_argument"));
    attacks.push(("query_metrics", json!({"query": ["up"]}), "invalid_argument"));
    attacks.push(("error_logs", json!({"level": "info"}), "invalid_argument"));
    attacks.push(("error_logs", json!({"level": "ERROR"}), "invalid_argument"));
    let tried = served.all_refused(&attacks).await;
    println!("{tried} attacks refused");
    assert!(tried >= 110, "{tried}");
    assert_eq!(served.counted("query_metrics", "ok").await, 0);
    // Without a Prometheus the tool is not there at all.
    let bare = served_with(None).await;
    assert!(bare.call("query_metrics", json!({"query": "up"})).await.0.is_some());
}
