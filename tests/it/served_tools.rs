//! The kubernetes tools over real HTTP with real tokens, on a saved cluster: transport, authentication, guards, results.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use inquest::{
    identity::{ISSUER, JwksSource, SCOPE_TOOLS, Subject, Verifier, mint},
    mcp::{Connection, Endpoint, McpError},
    tools::{
        kubernetes::{Snapshot, tools},
        server::{Audit, AuditTarget, ServerOptions, serve},
    },
};
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio_util::sync::CancellationToken;

use crate::support::{self, Served, http};

fn snapshot() -> Snapshot {
    serde_json::from_value(json!({
        "takenAt": "2026-11-30T12:00:00Z",
        "denied": ["Node", "other"],
        "objects": [
            {"kind": "Deployment", "metadata": {"name": "web", "namespace": "demo", "uid": "d", "creationTimestamp": "2026-11-30T11:00:00Z"},
             "spec": {"replicas": 1, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:2", "env": [{"name": "API_TOKEN", "value": "hunter22"}]}]}}}, "status": {}},
            {"kind": "ReplicaSet", "metadata": {"name": "web-1", "namespace": "demo", "uid": "r1", "annotations": {"deployment.kubernetes.io/revision": "1"}, "creationTimestamp": "2026-11-30T11:00:00Z",
             "ownerReferences": [{"kind": "Deployment", "name": "web", "uid": "d", "controller": true}]}, "spec": {"replicas": 0, "template": {"spec": {"containers": [{"name": "web", "image": "web:1"}]}}}},
            {"kind": "ReplicaSet", "metadata": {"name": "web-2", "namespace": "demo", "uid": "r2", "annotations": {"deployment.kubernetes.io/revision": "2"}, "creationTimestamp": "2026-11-30T11:30:00Z",
             "ownerReferences": [{"kind": "Deployment", "name": "web", "uid": "d", "controller": true}]}, "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}},
            {"kind": "Pod", "metadata": {"name": "web-2-x", "namespace": "demo", "labels": {"app": "web"}, "creationTimestamp": "2026-11-30T11:30:00Z",
             "ownerReferences": [{"kind": "ReplicaSet", "name": "web-2", "uid": "r2", "controller": true}]},
             "spec": {"nodeName": "n", "containers": [{"name": "web", "envFrom": [{"configMapRef": {"name": "settings"}}]}]},
             "status": {"phase": "Pending", "containerStatuses": [{"name": "web", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "CreateContainerConfigError", "message": "configmap \"settings\" not found"}}}]}},
            {"kind": "ConfigMap", "metadata": {"name": "big", "namespace": "demo"}, "data": {"password": "hunter22", "note": "x"}}
        ],
        "logs": {"demo/web-2-x/web": "2026-11-30T11:59:00Z connecting to postgres://app:hunter22@db/x\n2026-11-30T11:59:01Z ready"}
    }))
    .unwrap()
}

async fn served() -> Served {
    served_with(Audit::off()).await
}

async fn served_with(audit: Audit) -> Served {
    support::served(tools(Arc::new(Arc::new(snapshot()))).audited(audit), SCOPE_TOOLS).await
}

#[tokio::test]
async fn s1_1_without_a_token_nothing_is_served_and_no_session_is_needed() {
    let served = served().await;
    let http = http();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let post = || http.post(&served.url).header("accept", "application/json, text/event-stream").json(&list);
    assert_eq!(post().send().await.unwrap().status(), 401);
    assert_eq!(post().header("authorization", "Bearer x.y.z").send().await.unwrap().status(), 401);
    // One request, without initialize: any replica could serve it.
    let answer = post().header("authorization", format!("Bearer {}", served.token("demo").reveal())).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let text = answer.text().await.unwrap();
    for tool in ["kubectl_get", "kubectl_describe", "kubectl_logs", "kubectl_events", "find_problems", "related_objects", "rollout_history"] {
        assert!(text.contains(&format!("\"{tool}\"")), "{tool} in {text}");
    }
    assert!(text.contains("\"readOnlyHint\":true") && !text.contains("\"readOnlyHint\":false"));
    assert!(!text.contains("[\"string\",\"null\"]"), "some model APIs refuse a type list");
    // A name under which the server is not called: DNS rebinding.
    let rebound = post().header("host", "evil.example").header("authorization", format!("Bearer {}", served.token("demo").reveal())).send().await.unwrap();
    assert_eq!(rebound.status(), 403);
}

#[tokio::test]
async fn find_problems_tells_facts_with_their_exact_words() {
    let served = served().await;
    let (code, found) = served.call("find_problems", json!({"kind": "Deployment", "name": "web"})).await;
    assert_eq!(code, None, "{found}");
    let texts: Vec<&str> = found["problems"].as_array().unwrap().iter().map(|p| p["text"].as_str().unwrap()).collect();
    assert!(texts.contains(&"Pod demo/web-2-x container web: CreateContainerConfigError: configmap \"settings\" not found"), "{texts:?}");
    let pod = found["problems"].as_array().unwrap().iter().find(|p| p["kind"] == "Pod").unwrap();
    assert_eq!(pod["workload"], "Deployment/web");
    assert_eq!(found["complete"], true);
    assert!(found["denied"][0]["what"].as_str().unwrap().contains("nodes"), "{found}");

    let (_, edges) = served.call("related_objects", json!({"kind": "Deployment", "name": "web"})).await;
    let has = |from: &str, relation: &str, to: &str| {
        edges["edges"].as_array().unwrap().iter().any(|e| e["from"] == from && e["relation"] == relation && e["to"] == to)
    };
    assert!(has("Deployment/web", "owns", "ReplicaSet/web-2") && has("Pod/web-2-x", "envFrom", "ConfigMap/settings"), "{edges}");
    assert!(edges["edges"].as_array().unwrap().iter().any(|e| e["to"] == "ConfigMap/settings" && e["exists"] == false), "{edges}");

    let (_, history) = served.call("rollout_history", json!({"kind": "deploy", "name": "web"})).await;
    assert!(history["changes"].as_array().unwrap().iter().any(|c| c["text"] == "spec.containers[web].image: web:1 -> web:2"), "{history}");
}

#[tokio::test]
async fn s3_3_s3_5_every_guard_answers_with_its_code() {
    let served = served().await;
    let attacks = [
        ("kubectl_get", json!({"kind": "Secret"}), "secret_denied"),
        ("kubectl_get", json!({"kind": "secrets", "name": "db"}), "secret_denied"),
        ("kubectl_describe", json!({"kind": "Secret", "name": "db"}), "secret_denied"),
        ("kubectl_get", json!({"kind": "pods --all-namespaces"}), "invalid_argument"),
        ("kubectl_get", json!({"kind": "Pod", "name": "../secrets/db"}), "invalid_argument"),
        ("kubectl_get", json!({"kind": "Pod", "name": "a b"}), "invalid_argument"),
        ("kubectl_get", json!({"kind": "Pod", "namespace": "demo/../kube-system"}), "invalid_argument"),
        ("kubectl_get", json!({"kind": "Pod", "namespace": "--as=admin"}), "invalid_argument"),
        ("kubectl_get", json!({"kind": "Widget"}), "unknown_kind"),
        ("kubectl_get", json!({"kind": "Pod", "flags": "-o yaml"}), "invalid_argument"),
        ("kubectl_get", json!({"kind": "Pod", "namespace": "other"}), "forbidden"),
        ("kubectl_get", json!({"kind": "Pod", "name": "gone"}), "not_found"),
        ("kubectl_describe", json!({"kind": "Pod", "name": "gone"}), "not_found"),
        ("kubectl_logs", json!({"pod": "web-2-x", "container": "nope"}), "invalid_argument"),
        ("find_problems", json!({"kind": "Deployment"}), "invalid_argument"),
        ("rollout_history", json!({"kind": "Pod", "name": "web-2-x"}), "invalid_argument"),
        ("kubectl_events", json!({"window_minutes": "all"}), "invalid_argument"),
    ];
    served.all_refused(&attacks).await;
    let (code, said) = served.call("kubectl_delete", json!({})).await;
    assert_eq!(code.as_deref(), Some("tool_error"), "{said}");
}

#[tokio::test]
async fn s3_5_values_that_look_secret_are_redacted_everywhere() {
    let served = served().await;
    for (tool, arguments) in [
        ("kubectl_get", json!({"kind": "Deployment", "name": "web"})),
        ("kubectl_get", json!({"kind": "ConfigMap", "name": "big"})),
        ("kubectl_describe", json!({"kind": "ConfigMap", "name": "big"})),
        ("kubectl_logs", json!({"pod": "web-2-x"})),
    ] {
        let (code, said) = served.call(tool, arguments).await;
        assert_eq!(code, None, "{said}");
        let text = said.to_string();
        assert!(!text.contains("hunter22") && text.contains("[redacted:"), "{tool}: {text}");
        assert!(said["redacted"].as_u64().unwrap() >= 1);
    }
}

#[tokio::test]
async fn s4_5_the_served_endpoint_leaves_a_line_for_what_it_did_and_for_what_it_refused() {
    let folder = std::env::temp_dir().join(format!("inquest-served-audit-{}", std::process::id()));
    let served = served_with(Audit::open(&AuditTarget::Folder(folder.clone()), 1).unwrap()).await;
    served.call("kubectl_get", json!({"kind": "Pod"})).await;
    served.call("kubectl_get", json!({"kind": "Secret"})).await;
    served.call("kubectl_delete", json!({"kind": "Pod"})).await;
    let http = http();
    let forged = served.token("demo").reveal().to_owned() + "x";
    assert_eq!(http.post(&served.url).header("authorization", format!("Bearer {forged}")).send().await.unwrap().status(), 401);
    let file = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let said: Vec<_> = lines.iter().map(|l| [l["tool"].as_str(), l["user"].as_str(), l["status"].as_str(), l["guardrail_code"].as_str()]).collect();
    let run = Some("agent:demo/run");
    assert_eq!(
        said,
        [
            [Some("kubectl_get"), run, Some("success"), None],
            [Some("kubectl_get"), run, Some("rejected"), Some("secret_denied")],
            [Some("kubectl_delete"), run, Some("rejected"), Some("unknown_tool")],
            [None, None, Some("rejected"), Some("unauthenticated")],
        ]
    );
    assert_eq!(lines[0]["row_count"], 1);
    assert!(!text.contains(&forged) && !text.contains("Bearer"), "{text}");
}

/// A replica that is gone refuses; the next one is there in a moment. Who will not wait for it is told that the connection was refused.
#[tokio::test]
async fn s1_1_a_refused_connection_is_tried_again_for_as_long_as_there_is_time() {
    // Bound and not listening: it refuses, and no other test is given the port.
    let reserved = TcpSocket::new_v4().unwrap();
    reserved.set_reuseaddr(true).unwrap();
    reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = reserved.local_addr().unwrap();
    let ring = support::keys();
    let subject = Subject { namespace: "demo", name: "run", uid: "u", service_account: "inquest-reader" };
    let token = mint(&ring, ISSUER, &subject, "j".into(), jiff::Timestamp::now()).unwrap();
    let endpoint = Endpoint { url: format!("http://{free}/mcp"), header: Some("Authorization".into()) };
    let open = |seconds| Connection::open(endpoint.clone(), http(), Some(&token), Duration::from_secs(seconds));
    let begun = Instant::now();
    let refused = open(3).await.err().unwrap();
    assert!(matches!(&refused, McpError::Unreachable { .. }) && begun.elapsed() < Duration::from_secs(3), "{refused}");
    let verifier = Arc::new(Verifier::new(JwksSource::Fixed(ring.jwks()), ISSUER, SCOPE_TOOLS).unwrap());
    let stop = CancellationToken::new();
    let late = stop.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(700)).await;
        serve(tools(Arc::new(Arc::new(snapshot()))), verifier, ServerOptions { address: free, allowed_hosts: vec![] }, late).await
    });
    let connection = open(8).await.unwrap();
    assert_eq!(connection.call("kubectl_get", &json!({"kind": "Pod"}), Some(&token), support::LIMITS).await.code, None);
    stop.cancel();
}
