//! The codes of the frame itself, over the served endpoint, and that docs/tools.md lists every code that a guard can answer with.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc, time::Duration};

use inquest::{
    identity::{ISSUER, JwksSource, SCOPE_KNOWLEDGE, SCOPE_TOOLS, Verifier},
    tools::server::{Caller, Refusal, Registry, ServerOptions, ToolSpec, serve},
};
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{http, keys, served};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn registry() -> Registry {
    let sleeps = ToolSpec::new("sleeps", "Takes its time.", |_: Caller, _: Nothing| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok::<Value, Refusal>(json!({}))
    });
    Registry::new("test", vec![sleeps], Duration::from_secs(1), 10_000)
}

async fn post(url: &str, token: Option<&str>) -> (u16, Value) {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let mut request = http().post(url).header("accept", "application/json, text/event-stream").json(&list);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test]
async fn the_frame_answers_with_its_codes() {
    let served = served(registry(), SCOPE_TOOLS).await;
    let (code, said) = served.call("sleeps", json!({})).await;
    assert_eq!((code.as_deref(), said["error"].as_str()), (Some("timeout"), Some("the tool took longer than 1 s")), "{said}");
    let other = served.token_with("demo", None, SCOPE_KNOWLEDGE);
    for (token, status, wanted) in [(None, 401, "unauthenticated"), (Some("x.y.z"), 401, "unauthenticated"), (Some(other.reveal()), 403, "scope_denied")] {
        let (got, said) = post(&served.url, token).await;
        assert_eq!((got, said["guardrail_code"].as_str()), (status, Some(wanted)), "{said}");
    }
}

#[tokio::test]
async fn without_the_issuers_keys_a_server_says_that_and_does_not_guess() {
    let ring = keys();
    let verifier = Arc::new(Verifier::new(JwksSource::Url("http://127.0.0.1:1/jwks.json".into()), ISSUER, SCOPE_TOOLS).unwrap());
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(serve(registry(), verifier, ServerOptions { address, allowed_hosts: vec![] }, stop.clone()));
    crate::postgres::eventually("the server", async || http().get(format!("http://{address}/health")).send().await.is_ok()).await;
    let subject = inquest::identity::Subject { namespace: "demo", name: "run", uid: "u", service_account: "inquest-reader" };
    let token = inquest::identity::mint(&ring, ISSUER, &subject, "j".into(), jiff::Timestamp::now()).unwrap();
    let (status, said) = post(&format!("http://{address}/mcp"), Some(token.reveal())).await;
    assert_eq!((status, said["guardrail_code"].as_str()), (503, Some("issuer_unavailable")), "{said}");
    stop.cancel();
}

/// Every code in the source is in the table, with a test that exists; and the table names none that is gone.
#[test]
fn the_table_of_codes_is_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut codes = BTreeSet::new();
    let mut tests = String::new();
    let of = Regex::new(r#"(?:=> |denied\(\s*|: &str = )"([a-z]+(?:_[a-z]+)*)""#).unwrap();
    for file in walk(&root.join("src/tools")).into_iter().chain([root.join("src/identity/verify.rs")]) {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.to_string_lossy().into_owned();
        if name.ends_with("tests.rs") || !["guard.rs", "verify.rs", "tools/mod.rs", "workspace/mod.rs", "tools.rs"].iter().any(|n| name.ends_with(n)) {
            continue;
        }
        codes.extend(
            of.captures_iter(&text)
                .map(|c| c[1].to_owned())
                .filter(|c| c.contains('_') || ["timeout", "internal", "forbidden", "unauthenticated"].contains(&c.as_str())),
        );
    }
    for file in walk(&root.join("tests")) {
        if file.extension().is_some_and(|e| e == "rs") {
            tests.push_str(&fs::read_to_string(file).unwrap());
        }
    }
    let doc = fs::read_to_string(root.join("docs/tools.md")).unwrap();
    let table = doc.split("## Every code and its test").nth(1).unwrap().split("\n## ").next().unwrap();
    let row = Regex::new(r"(?m)^\| `([a-z_]+)` \| ([^|]+) \| ([^|]+) \|$").unwrap();
    let listed: BTreeSet<String> = row.captures_iter(table).map(|c| c[1].to_owned()).collect();
    let unlisted: Vec<&String> = codes.difference(&listed).collect();
    let gone: Vec<&String> = listed.difference(&codes).collect();
    assert!(unlisted.is_empty() && gone.is_empty(), "not in the table: {unlisted:?}; in the table and not in the source: {gone:?}");
    assert!(listed.len() >= 30, "{listed:?}");
    for test in row.captures_iter(table) {
        let name = test[2].trim().trim_matches('`').trim_end_matches('…').to_owned();
        assert!(tests.contains(&format!("fn {name}")), "there is no test {name}");
    }
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten().map(|e| e.path());
    entries.flat_map(|p| if p.is_dir() { walk(&p) } else { vec![p] }).collect()
}
