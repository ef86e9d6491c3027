//! S3.14: a tool server as a subprocess over stdio, as local runs and desktop clients start it.

use std::{fs, path::PathBuf, process::Stdio, time::Duration};

use rmcp::{RoleClient, ServiceExt, model::CallToolRequestParams, service::RunningService, transport::TokioChildProcess};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

/// A kubeconfig of a cluster that does not answer: the tools must say so, and the server must not end.
fn kubeconfig(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("inquest-stdio-{}-{name}.yaml", std::process::id()));
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "none",
        "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "me"}}],
        "users": [{"name": "me", "user": {}}],
    });
    fs::write(&path, text.to_string()).unwrap();
    path
}

fn server(name: &str) -> (Command, PathBuf) {
    let config = kubeconfig(name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_inquest"));
    command.args(["tools", "kubernetes", "--transport", "stdio"]).env("KUBECONFIG", &config);
    (command, config)
}

pub type Client = RunningService<RoleClient, ()>;

/// rmcp's client over a subprocess.
pub async fn connect(command: Command) -> Client {
    let (transport, _) = TokioChildProcess::builder(command).stderr(Stdio::null()).spawn().unwrap();
    tokio::time::timeout(Duration::from_secs(20), ().serve(transport)).await.unwrap().unwrap()
}

pub async fn call(client: &Client, tool: &'static str, arguments: Value) -> Value {
    let mut request = CallToolRequestParams::new(tool);
    request.arguments = arguments.as_object().cloned();
    client.call_tool(request).await.unwrap().structured_content.unwrap()
}

#[tokio::test]
async fn s3_14_a_tool_server_is_a_subprocess_over_stdio() {
    let (command, config) = server("calls");
    let (transport, stderr) = TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn().unwrap();
    let client = tokio::time::timeout(Duration::from_secs(20), ().serve(transport)).await.unwrap().unwrap();
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), 7);
    assert!(tools.iter().all(|t| t.annotations.as_ref().unwrap().read_only_hint == Some(true)));
    let call = |tool: &'static str, arguments: Value| {
        let mut request = CallToolRequestParams::new(tool);
        request.arguments = arguments.as_object().cloned();
        client.call_tool(request)
    };
    let code = |result: rmcp::model::CallToolResult| result.structured_content.unwrap()["guardrail_code"].clone();
    assert_eq!(code(call("kubectl_get", json!({"kind": "Secret"})).await.unwrap()), "secret_denied");
    assert_eq!(code(call("kubectl_get", json!({"kind": "Pod"})).await.unwrap()), "cluster_unavailable");
    assert!(call("kubectl_delete", json!({})).await.is_err());
    client.cancel().await.unwrap();
    // The trail is on standard error: standard output carries the protocol, which a stray line would have broken.
    let mut lines = BufReader::new(stderr.unwrap()).lines();
    let mut codes = vec![];
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Ok(line) = serde_json::from_str::<Value>(&line) {
            codes.push(line["guardrail_code"].clone());
        }
    }
    assert_eq!(codes, ["secret_denied", "cluster_unavailable", "unknown_tool"]);
    fs::remove_file(config).unwrap();
}

#[tokio::test]
async fn s3_14_an_audit_log_on_the_protocols_own_stream_is_refused() {
    let (mut command, config) = server("refused");
    let output = command.args(["--audit-log", "stdout"]).stdin(Stdio::null()).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("--audit-log stdout") && said.contains("stderr or a folder"), "{said}");
    let typo = command.args(["--audit-log", "stdot"]).stdin(Stdio::null()).output().await.unwrap();
    assert_eq!(typo.status.code(), Some(2));
    fs::remove_file(config).unwrap();
}
