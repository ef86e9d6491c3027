//! S1.2, S3.14: our servers under the official clients of others, and our client against the servers of others.
//! `tests/services.sh` installs them.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, LazyLock},
    time::Duration,
};

use inquest::{
    identity::SCOPE_TOOLS,
    mcp::{Connection, Endpoint, Offered},
    tools::kubernetes::{Snapshot, tools},
};
use serde_json::{Value, json};

use crate::{
    postgres::eventually,
    support::{LIMITS, http, keys, served},
};

/// Where `tests/interop/install.sh` put the packages.
static INSTALLED: LazyLock<PathBuf> = LazyLock::new(|| {
    let env = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = env("INQUEST_CACHE").or_else(|| Some(env("XDG_CACHE_HOME")?.join("inquest"))).or_else(|| Some(env("HOME")?.join(".cache/inquest"))).unwrap();
    let folder = cache.join("interop");
    assert!(folder.join("venv").exists() && folder.join("node_modules").exists(), "the clients of others are needed: run tests/services.sh");
    // Node looks for packages beside the script.
    for script in ["client.mjs", "client.py", "server.py"] {
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(script), folder.join(script)).unwrap();
    }
    folder
});

/// The official clients, each as a command.
fn clients() -> [(&'static str, PathBuf, &'static str); 2] {
    [("Python", INSTALLED.join("venv/bin/python"), "client.py"), ("TypeScript", "node".into(), "client.mjs")]
}

async fn drive(client: &(&'static str, PathBuf, &'static str), arguments: &[&str], config: Option<&Path>) -> Value {
    let mut command = tokio::process::Command::new(&client.1);
    command.arg(INSTALLED.join(client.2)).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    if let Some(config) = config {
        command.env("KUBECONFIG", config);
    }
    let output = tokio::time::timeout(Duration::from_secs(60), command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}: {}", client.0, String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn cluster() -> Arc<Snapshot> {
    Arc::new(
        serde_json::from_value(json!({
            "takenAt": "2026-12-01T12:00:00Z",
            "objects": [{"kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "demo"}, "data": {"password": "hunter22", "note": "x"}}]
        }))
        .unwrap(),
    )
}

fn check(who: &str, got: &Value) {
    assert_eq!(got["server"], "inquest-kubernetes", "{who}: {got}");
    let tools = got["tools"].as_array().unwrap();
    assert!(tools.len() == 7 && tools.iter().all(|t| t["readOnly"] == true), "{who}: {got}");
    let (object, denied) = (&got["results"][0], &got["results"][1]);
    assert_eq!((object["isError"].as_bool(), denied["isError"].as_bool()), (Some(false), Some(true)), "{who}: {got}");
    assert_eq!(denied["structured"]["guardrail_code"], "secret_denied", "{who}: {got}");
    // A client that knows no structured content gets the same as text.
    assert_eq!(serde_json::from_str::<Value>(object["text"].as_str().unwrap()).unwrap(), object["structured"], "{who}");
    assert!(!got.to_string().contains("hunter22"), "{who}: {got}");
}

#[tokio::test]
async fn s1_1_the_official_clients_call_our_server_over_http() {
    let served = served(tools(Arc::new(cluster())), SCOPE_TOOLS).await;
    let token = served.token("demo");
    for client in clients() {
        let calls = ["kubectl_get", r#"{"kind": "ConfigMap", "name": "settings"}"#, "kubectl_get", r#"{"kind": "Secret"}"#];
        let got = drive(&client, &[&["http", &served.url, token.reveal()][..], &calls].concat(), None).await;
        check(client.0, &got);
        println!("{} over HTTP: {} tools", client.0, got["tools"].as_array().unwrap().len());
    }
}

#[tokio::test]
async fn s3_14_the_official_clients_start_our_servers_over_stdio() {
    let folder = std::env::temp_dir().join(format!("inquest-interop-{}", std::process::id()));
    fs::create_dir_all(folder.join("files")).unwrap();
    fs::write(folder.join("files/note.md"), "the queue is full\n").unwrap();
    let config = folder.join("kubeconfig");
    fs::write(&config, kubeconfig("none")).unwrap();
    let binary = env!("CARGO_BIN_EXE_inquest");
    let files = folder.join("files");
    for client in clients() {
        let server = [binary, "tools", "workspace", "--transport", "stdio", "--workspace", files.to_str().unwrap(), "--calls"];
        let calls = ["read_file", r#"{"path": "note.md"}"#, "read_file", r#"{"path": "../kubeconfig"}"#];
        let got = drive(&client, &[&["stdio"][..], &server, &calls].concat(), None).await;
        assert_eq!(got["results"][0]["structured"]["lines"], json!(["the queue is full"]), "{}: {got}", client.0);
        assert_eq!(got["results"][1]["structured"]["guardrail_code"], "path_outside_workspace", "{}: {got}", client.0);
        let server = [binary, "tools", "kubernetes", "--transport", "stdio", "--calls"];
        let calls = ["kubectl_get", r#"{"kind": "Pod"}"#];
        let got = drive(&client, &[&["stdio"][..], &server, &calls].concat(), Some(&config)).await;
        assert_eq!(
            (got["tools"].as_array().unwrap().len(), got["results"][0]["structured"]["guardrail_code"].as_str()),
            (7, Some("cluster_unavailable")),
            "{}: {got}",
            client.0
        );
        println!("{} over stdio: both servers", client.0);
    }
    fs::remove_dir_all(folder).unwrap();
}

fn kubeconfig(token: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "none",
        "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "me"}}],
        "users": [{"name": "me", "user": {"token": token}}],
    })
    .to_string()
}

/// A server of somebody else, as a process of this test.
struct Foreign(Child, String);

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

impl Foreign {
    fn start(program: &Path, arguments: impl Fn(u16) -> Vec<String>) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program).args(arguments(port)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self(child, format!("http://127.0.0.1:{port}/mcp"))
    }

    async fn connect(&self) -> Connection {
        keys();
        let open = || async { Connection::open(Endpoint { url: self.1.clone(), header: None }, http(), None, Duration::from_secs(10)).await };
        let mut connection = None;
        eventually("the server", async || {
            connection = open().await.ok();
            connection.is_some()
        })
        .await;
        connection.unwrap()
    }
}

#[tokio::test]
async fn s1_2_our_client_calls_a_fastmcp_server() {
    let server = Foreign::start(&INSTALLED.join("venv/bin/python"), |port| vec![INSTALLED.join("server.py").display().to_string(), port.to_string()]);
    let connection = server.connect().await;
    let mut tools = connection.tools(Duration::from_secs(5)).await.unwrap();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    let named = |listed: Vec<Offered>| listed.into_iter().map(|o| (o.name, o.read_only)).collect::<Vec<_>>();
    assert!(tools.iter().all(|t| t.schema["type"] == "object"), "{tools:?}");
    assert_eq!(named(tools), [("broken".to_owned(), true), ("forecast".to_owned(), true), ("seed_clouds".to_owned(), false)]);
    let good = connection.call("forecast", &json!({"city": "Ulm", "days": 2}), None, LIMITS).await;
    let said: Value = serde_json::from_str(&good.text).unwrap();
    assert_eq!((good.code, said["days"].as_array().unwrap().len()), (None, 2), "{said}");
    // Whoever the server is: its errors are results, and what looks secret goes no further.
    let bad = connection.call("broken", &json!({}), None, LIMITS).await;
    assert_eq!(bad.code.as_deref(), Some("tool_error"));
    assert!(bad.text.contains("the barometer fell") && !bad.text.contains("hunter22"), "{}", bad.text);
    let none = connection.call("no_such_tool", &json!({}), None, LIMITS).await;
    assert!(none.code.is_some(), "{none:?}");
    let wrong = connection.call("forecast", &json!({"city": 7}), None, LIMITS).await;
    assert!(wrong.code.is_some() && connection.is_open(), "{wrong:?}");
    println!("FastMCP speaks {}", connection.protocol_version);
}

#[tokio::test]
async fn s1_2_our_client_calls_kubernetes_mcp_server() {
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let name = format!("kubernetes-mcp-server-linux-{arch}");
    let config = std::env::temp_dir().join(format!("inquest-interop-{}.yaml", std::process::id()));
    fs::write(&config, kubeconfig("hunter22hunter22")).unwrap();
    let server = Foreign::start(&INSTALLED.join("node_modules").join(&name).join("bin").join(&name), |port| {
        ["--port", &port.to_string(), "--read-only", "--bind-address", "127.0.0.1", "--kubeconfig", config.to_str().unwrap()].map(str::to_owned).to_vec()
    });
    let connection = server.connect().await;
    let tools = connection.tools(Duration::from_secs(5)).await.unwrap();
    assert!(tools.len() >= 10 && tools.iter().all(|t| t.read_only), "{tools:?}");
    let view = connection.call("configuration_view", &json!({}), None, LIMITS).await;
    assert_eq!(view.code, None, "{view:?}");
    assert!(view.text.contains("current-context: none") && !view.text.contains("hunter22"), "{}", view.text);
    let down = connection.call("pods_list", &json!({}), None, LIMITS).await;
    assert!(down.code.is_some() && down.text.contains("refused"), "{down:?}");
    println!("kubernetes-mcp-server speaks {} and has {} tools", connection.protocol_version, tools.len());
    fs::remove_file(config).unwrap();
}
