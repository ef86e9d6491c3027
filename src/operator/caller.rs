//! Calls tools for one step of one run, with that run's token.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use serde_json::json;

use super::servers::{self, Servers};
use crate::{
    agent::{PlannedCall, Received},
    api::ToolServer,
    identity::Token,
    mcp::CallLimits,
    runner::ToolCaller,
};

pub struct StepCaller {
    pub servers: Servers,
    pub known: HashMap<String, Arc<ToolServer>>,
    pub token: Option<Token>,
    /// What is left of the run's time: no call is waited for longer.
    pub left: Duration,
}

impl ToolCaller for StepCaller {
    fn call<'a>(&'a self, call: &'a PlannedCall, server: &'a str) -> BoxFuture<'a, Received> {
        async move {
            let failed = |code: &str, error: String| Received {
                at: Timestamp::now(),
                text: json!({"error": error, "guardrail_code": code}).to_string(),
                truncated: false,
                code: Some(code.to_owned()),
            };
            let Some(found) = self.known.get(server) else {
                return failed("unreachable", format!("the ToolServer {server} is gone"));
            };
            let CallLimits { timeout, max_bytes } = servers::limits(&found.spec);
            let limits = CallLimits { timeout: timeout.min(self.left.max(Duration::from_millis(100))), max_bytes };
            match tokio::time::timeout(limits.timeout, self.servers.connect(found, self.token.as_ref())).await {
                Ok(Ok(connection)) => connection.call(&call.tool, &call.arguments, self.token.as_ref(), limits).await,
                Ok(Err(error)) => failed("unreachable", error.to_string()),
                Err(_late) => failed("timeout", format!("no connection to {server} in {} s", limits.timeout.as_secs())),
            }
        }
        .boxed()
    }
}
