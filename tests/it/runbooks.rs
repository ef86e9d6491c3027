//! The runbooks server over the served endpoint, and a run that cites a runbook only for the very words that prove its cause.

use std::{fs, path::PathBuf, sync::Arc};

use inquest::{
    identity::{SCOPE_KNOWLEDGE, SCOPE_TOOLS, Subject, mint},
    mcp::Connection,
    tools::{
        kubernetes::Snapshot,
        runbooks::{Folder, Settings, tools},
    },
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::{Served, http, served, served_by};

fn snapshot(denied: &[&str]) -> Snapshot {
    let book = |namespace: &str, name: &str, title: &str, signature: &str| json!({"kind": "Runbook", "metadata": {"name": name, "namespace": namespace}, "spec": {"title": title, "signatures": [signature], "services": [], "body": format!("# {title}\n\nDo what helps. password=hunter22")}});
    serde_json::from_value(json!({
        "takenAt": "2026-12-01T12:00:00Z", "denied": denied,
        "objects": [
            book("demo", "redis-down", "Redis refuses connections", "connect: connection refused"),
            book("inquest-system", "memory", "A container needs more memory than it may", "OOMKilled"),
            book("other", "theirs", "Another tenant's own", "connect: connection refused"),
            {"kind": "Runbook", "metadata": {"name": "broken", "namespace": "demo"}, "spec": {"title": 7}},
        ]
    }))
    .unwrap()
}

/// A folder that goes with the test.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

impl Mounted {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("inquest-runbooks-{}-{name}", std::process::id()));
        for (file, text) in [
            ("DNS_is down.md", "---\ntitle: Names are not resolved\nsignatures: ['no such host']\n---\nAsk CoreDNS."),
            ("demo/queue.md", "# The queue is full\n\nqueue depth over the limit"),
            ("other/secret.md", "# Another tenant's own\n\nqueue depth"),
            ("untitled.md", "no title"),
            ("notes.txt", "# Not Markdown by its name"),
        ] {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), text).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", root.join("passwd.md")).unwrap();
        Self(root)
    }
}

async fn both(name: &str, denied: &[&str]) -> (Served, Mounted) {
    let mounted = Mounted::new(name);
    let settings =
        Settings { readers: Some(Arc::new(Arc::new(snapshot(denied)))), folder: Some(Folder::open(&mounted.0).unwrap()), shared: "inquest-system".into() };
    (served(tools(settings), SCOPE_KNOWLEDGE).await, mounted)
}

#[tokio::test]
async fn s1_5_search_runbooks_ranks_a_tenants_own_and_the_shared_ones() {
    let (served, _mounted) = both("search", &[]).await;
    let (code, one) = served.call("search_runbooks", json!({"query": "dial tcp 10.0.0.7:6379: connect: connection refused"})).await;
    assert_eq!((code, one["runbooks"][0]["name"].as_str()), (None, Some("redis-down")), "{one}");
    assert_eq!(one["runbooks"][0]["signature"], "connect: connection refused");
    assert!(!one.to_string().contains("theirs") && !one.to_string().contains("hunter22"), "{one}");
    let skipped = one["skipped"].to_string();
    assert!(
        skipped.contains("demo/broken") && skipped.contains("untitled.md: no title") && skipped.contains("passwd.md: it is a link out of the folder"),
        "{skipped}"
    );
    let (_, shared) = served.call("search_runbooks", json!({"query": "container was OOMKilled"})).await;
    assert_eq!((shared["runbooks"][0]["namespace"].as_str(), shared["runbooks"][0]["signature"].as_str()), (Some("inquest-system"), Some("OOMKilled")));
    let (_, file) = served.call("search_runbooks", json!({"query": "lookup db: no such host"})).await;
    assert_eq!((file["runbooks"][0]["name"].as_str(), file["runbooks"][0]["kept"].as_str()), (Some("dns-is-down"), Some("file")), "{file}");
    let (_, words) = served.call("search_runbooks", json!({"query": "queue depth"})).await;
    assert_eq!(
        (words["runbooks"].as_array().unwrap().len(), words["runbooks"][0]["name"].as_str(), words["runbooks"][0].get("signature")),
        (1, Some("queue"), None),
        "{words}"
    );
    let (code, none) = served.call("search_runbooks", json!({"query": "zebra"})).await;
    assert_eq!((code, none["runbooks"].as_array().unwrap().len(), none["complete"].as_bool()), (None, 0, Some(true)), "{none}");
}

#[tokio::test]
async fn s1_5_read_runbook_reads_own_and_shared_ones_and_no_others() {
    let (served, _mounted) = both("read", &[]).await;
    let (code, own) = served.call("read_runbook", json!({"name": "redis-down"})).await;
    assert_eq!((code, own["runbook"]["signatures"][0].as_str()), (None, Some("connect: connection refused")), "{own}");
    assert!(own["runbook"]["body"].as_str().unwrap().contains("Do what helps"));
    let (_, file) = served.call("read_runbook", json!({"name": "dns-is-down", "namespace": "inquest-system"})).await;
    assert_eq!(file["runbook"]["body"], "Ask CoreDNS.");
    let attacks: Vec<(&str, Value, &str)> = vec![
        ("read_runbook", json!({"name": "theirs", "namespace": "other"}), "cross_tenant_denied"),
        ("read_runbook", json!({"name": "secret", "namespace": "other"}), "cross_tenant_denied"),
        ("read_runbook", json!({"name": "theirs"}), "not_found"),
        ("read_runbook", json!({"name": "secret"}), "not_found"),
        ("read_runbook", json!({"name": "../other/secret"}), "invalid_argument"),
        ("read_runbook", json!({"name": "queue", "namespace": ".."}), "invalid_argument"),
        ("read_runbook", json!({"name": "queue\0"}), "invalid_argument"),
        ("read_runbook", json!({"name": ""}), "invalid_argument"),
        ("read_runbook", json!({"name": "passwd"}), "not_found"),
        ("read_runbook", json!({"name": "redis-down", "path": "/etc/passwd"}), "invalid_argument"),
        ("search_runbooks", json!({}), "invalid_argument"),
        ("search_runbooks", json!({"query": "   "}), "invalid_argument"),
        ("search_runbooks", json!({"query": "x".repeat(4001)}), "invalid_argument"),
        ("search_runbooks", json!({"query": "x", "limit": 21}), "invalid_argument"),
        ("search_runbooks", json!({"query": "x", "limit": -1}), "invalid_argument"),
        ("search_runbooks", json!({"query": "x", "service": "x".repeat(254)}), "invalid_argument"),
        ("search_runbooks", json!({"query": "x", "namespace": "other"}), "invalid_argument"),
        ("search_runbooks", json!({"query": "x", "tenant": "other"}), "invalid_argument"),
    ];
    served.all_refused(&attacks).await;
}

#[tokio::test]
async fn s1_5_runbooks_need_the_scope_knowledge_read() {
    let (served, _mounted) = both("scope", &[]).await;
    let subject = Subject { namespace: "demo", name: "run", uid: "u", service_account: "inquest-reader" };
    let run = mint(&served.ring, inquest::identity::ISSUER, &subject, "j".into(), Timestamp::now()).unwrap();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let post = |token: String| {
        let (http, url, list) = (http(), served.url.clone(), list.clone());
        async move {
            http.post(url)
                .header("accept", "application/json, text/event-stream")
                .header("authorization", format!("Bearer {token}"))
                .json(&list)
                .send()
                .await
                .unwrap()
                .status()
        }
    };
    assert_eq!(post(run.reveal().to_owned()).await, 200);
    let narrow = served.token_with("demo", None, SCOPE_TOOLS);
    assert_eq!(post(narrow.reveal().to_owned()).await, 403);
    // And the other way round: who may read runbooks may not therefore look at the cluster.
    let kubernetes = served_by(Arc::clone(&served.ring), inquest::tools::kubernetes::tools(Arc::new(Arc::new(snapshot(&[])))), SCOPE_TOOLS).await;
    let knowing = served.token_with("demo", None, SCOPE_KNOWLEDGE);
    let endpoint = inquest::mcp::Endpoint { url: kubernetes.url.clone(), header: Some("Authorization".into()) };
    assert!(Connection::open(endpoint, http(), Some(&knowing), std::time::Duration::from_secs(5)).await.is_err());
}

#[tokio::test]
async fn what_the_account_may_not_read_is_said_and_the_rest_is_searched() {
    let (served, _mounted) = both("denied", &["inquest-system"]).await;
    let (code, got) = served.call("search_runbooks", json!({"query": "connect: connection refused"})).await;
    assert_eq!((code, got["runbooks"][0]["name"].as_str(), got["complete"].as_bool()), (None, Some("redis-down"), Some(false)), "{got}");
    assert!(got["denied"].to_string().contains("inquest-system"), "{got}");
}
