//! Tools in the same process: for a run from a laptop or from a snapshot.

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{PlannedCall, Received, ToolRef},
    runner::ToolCaller,
    tools::server::{Caller, Registry},
};

/// Calls a registry as one caller, without a network.
pub struct LocalTools {
    pub registry: Registry,
    pub caller: Caller,
}

impl LocalTools {
    #[must_use]
    pub fn catalogue(&self) -> Vec<ToolRef> {
        self.registry.names().map(|tool| ToolRef { server: "local/kubernetes".to_owned(), tool: tool.to_owned() }).collect()
    }
}

impl ToolCaller for LocalTools {
    fn call<'a>(&'a self, call: &'a PlannedCall, _server: &'a str) -> BoxFuture<'a, Received> {
        async move {
            let result = self.registry.call(self.caller.clone(), &call.tool, call.arguments.clone(), &CancellationToken::new()).await;
            let at = Timestamp::now();
            match result {
                Ok(value) => Received { at, text: value.to_string(), truncated: false, code: None },
                Err(refusal) => Received { at, text: refusal.json().to_string(), truncated: false, code: Some(refusal.code().to_owned()) },
            }
        }
        .boxed()
    }
}
