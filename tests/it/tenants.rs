//! S1.9: the tenant reaches a tool through the request's own context; concurrent calls of two tenants never cross.

use std::time::Duration;

use futures::{StreamExt, stream};
use inquest::{
    identity::SCOPE_TOOLS,
    tools::server::{Caller, Registry, ToolSpec},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{LIMITS, served};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct At {
    index: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s1_9_no_answer_crosses_between_two_tenants() {
    let whoami = ToolSpec::new("whoami", "Says who calls.", |caller: Caller, _: Nothing| async move {
        tokio::task::yield_now().await;
        Ok(json!({"tenant": caller.tenant, "subject": caller.subject}))
    });
    let panics = ToolSpec::new("panics", "Has a defect.", |_: Caller, at: At| async move {
        let empty: Vec<Value> = vec![];
        Ok(empty[at.index].clone())
    });
    let registry = Registry::new("test", vec![whoami, panics], Duration::from_secs(5), 10_000);
    let served = served(registry, SCOPE_TOOLS).await;
    // One connection for both, as the operator shares it: the token travels with each request.
    let connection = served.connect().await;
    let crossed = stream::iter(0..20_000)
        .map(|n| {
            let (tenant, connection) = (if n % 2 == 0 { "red" } else { "blue" }, &connection);
            let token = served.token(tenant);
            async move {
                let got = connection.call("whoami", &json!({}), Some(&token), LIMITS).await;
                let said: Value = serde_json::from_str(&got.text).unwrap();
                usize::from(got.code.is_some() || said["tenant"] != tenant || said["subject"] != format!("agent:{tenant}/run"))
            }
        })
        .buffer_unordered(64)
        .fold(0, |sum, n| async move { sum + n })
        .await;
    assert_eq!(crossed, 0, "of 20 000 calls");
    // Without a token of its own a run gets nothing: never the one that the connection was opened with.
    assert_eq!(connection.call("whoami", &json!({}), None, LIMITS).await.code.as_deref(), Some("unauthenticated"));
    // A defect of a tool is a result, and the server goes on.
    assert_eq!(connection.call("panics", &json!({"index": 7}), Some(&served.token("red")), LIMITS).await.code.as_deref(), Some("internal"));
    assert_eq!(connection.call("whoami", &json!({}), Some(&served.token("red")), LIMITS).await.code, None);
}
