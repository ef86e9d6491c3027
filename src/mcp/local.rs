//! Tools in the same process: for a run from a laptop or from a snapshot.

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{PlannedCall, Received, ToolRef, ToolSchema},
    investigators::chat::plain,
    runner::ToolCaller,
    tools::server::{Caller, Refusal, Registry},
};

/// Calls registries as one caller, without a network.
pub struct LocalTools {
    pub registries: Vec<Registry>,
    pub caller: Caller,
}

impl LocalTools {
    #[must_use]
    pub fn catalogue(&self) -> Vec<ToolRef> {
        let of = |r: &Registry| r.names().map(|tool| ToolRef { server: server(r), tool: tool.to_owned() }).collect::<Vec<_>>();
        self.registries.iter().flat_map(of).collect()
    }

    /// What a model is told of them.
    #[must_use]
    pub fn schemas(&self) -> Vec<ToolSchema> {
        self.registries.iter().flat_map(|r| r.described().map(|(name, description, schema)| plain(name, description, &schema)).collect::<Vec<_>>()).collect()
    }
}

fn server(registry: &Registry) -> String {
    format!("local/{}", registry.name())
}

impl ToolCaller for LocalTools {
    fn call<'a>(&'a self, call: &'a PlannedCall, of: &'a str) -> BoxFuture<'a, Received> {
        async move {
            let result = match self.registries.iter().find(|r| server(r) == of) {
                Some(registry) => registry.call(self.caller.clone(), &call.tool, call.arguments.clone(), &CancellationToken::new()).await,
                None => Err(Refusal::UnknownTool(call.tool.clone())),
            };
            let at = Timestamp::now();
            match result {
                Ok(value) => Received { at, text: value.to_string(), truncated: false, code: None },
                Err(refusal) => Received { at, text: refusal.json().to_string(), truncated: false, code: Some(refusal.code().to_owned()) },
            }
        }
        .boxed()
    }
}
