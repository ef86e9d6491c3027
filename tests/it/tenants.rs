//! S1.9: the tenant reaches a tool through the request's own context; concurrent calls of two tenants never cross.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use inquest::{
    identity::{ISSUER, JwksSource, KeyRing, SCOPE_TOOLS, Subject, Verifier, install_crypto, mint},
    mcp::{CallLimits, Connection, Endpoint},
    tools::server::{Registry, ServerOptions, ToolSpec, serve},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct At {
    index: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s1_9_no_answer_crosses_between_two_tenants() {
    install_crypto();
    let mut ring = KeyRing::default();
    ring.rotate(Timestamp::now()).unwrap();
    let verifier = Arc::new(Verifier::new(JwksSource::Fixed(ring.jwks()), ISSUER, SCOPE_TOOLS).unwrap());
    let whoami = ToolSpec::new("whoami", "Says who calls.", |caller: inquest::tools::server::Caller, _: Nothing| async move {
        tokio::task::yield_now().await;
        Ok(json!({"tenant": caller.tenant, "account": caller.service_account}))
    });
    let panics = ToolSpec::new("panics", "Has a defect.", |_: inquest::tools::server::Caller, at: At| async move {
        let empty: Vec<Value> = vec![];
        Ok(empty[at.index].clone())
    });
    let registry = Registry::new("test", vec![whoami, panics], Duration::from_secs(5), 10_000);
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(serve(registry, verifier, ServerOptions { address, allowed_hosts: vec![] }, stop.clone()));
    let http = inquest::http_client::builder().unwrap().build().unwrap();
    for _ in 0..100 {
        if http.get(format!("http://{address}/health")).send().await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // One connection for both, as the operator shares it: the token travels with each request.
    let token = |tenant: &str| {
        mint(&ring, ISSUER, &Subject { namespace: tenant, name: "run", uid: "u", service_account: tenant }, "j".into(), Timestamp::now()).unwrap()
    };
    let endpoint = Endpoint { url: format!("http://{address}/mcp"), header: Some("Authorization".into()) };
    let connection = Connection::open(endpoint, http, Some(&token("first")), Duration::from_secs(5)).await.unwrap();
    let limits = CallLimits { timeout: Duration::from_secs(10), max_bytes: 10_000 };
    let crossed = stream::iter(0..4000)
        .map(|n| {
            let (tenant, connection) = (if n % 2 == 0 { "red" } else { "blue" }, &connection);
            let token = token(tenant);
            async move {
                let got = connection.call("whoami", &json!({}), Some(&token), limits).await;
                let said: Value = serde_json::from_str(&got.text).unwrap();
                usize::from(got.code.is_some() || said["tenant"] != tenant || said["account"] != tenant)
            }
        })
        .buffer_unordered(64)
        .fold(0, |sum, n| async move { sum + n })
        .await;
    assert_eq!(crossed, 0, "of 4000 calls");
    // Without a token of its own a run gets nothing: never the one that the connection was opened with.
    assert_eq!(connection.call("whoami", &json!({}), None, limits).await.code.as_deref(), Some("unauthenticated"));
    // A defect of a tool is a result, and the server goes on.
    assert_eq!(connection.call("panics", &json!({"index": 7}), Some(&token("red")), limits).await.code.as_deref(), Some("internal"));
    assert_eq!(connection.call("whoami", &json!({}), Some(&token("red")), limits).await.code, None);
    stop.cancel();
}
