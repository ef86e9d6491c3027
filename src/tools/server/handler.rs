//! The MCP side of a tool server: lists the tools, and runs one inside its deadline, its size and its panics.

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use rmcp::{
    ErrorData, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
        Tool, ToolAnnotations,
    },
    service::{RequestContext, RoleServer},
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Audit, Caller, Refusal, ToolMetrics, audit, redact_value};
use crate::identity::Refused;

type Run = Arc<dyn Fn(Caller, Value) -> BoxFuture<'static, Result<Value, Refusal>> + Send + Sync>;

/// A tool: a name, a description, a schema made from its argument type, and a function.
#[derive(Clone)]
pub struct ToolSpec {
    tool: Tool,
    run: Run,
}

impl ToolSpec {
    /// A read-only tool. `run` gets the verified caller and arguments of type `A`.
    pub fn new<A, F, Fut>(name: &'static str, description: &'static str, run: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(Caller, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, Refusal>> + Send + 'static,
    {
        let schema = schemars::generate::SchemaSettings::draft2020_12()
            .with(|s| {
                s.inline_subschemas = true;
                s.meta_schema = None;
            })
            .into_generator()
            .into_root_schema_for::<A>()
            .to_value();
        let schema = match schema {
            Value::Object(map) => map,
            _ => serde_json::Map::new(),
        };
        let tool = Tool::new(name, description, Arc::new(schema))
            .with_annotations(ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false));
        let run: Run = Arc::new(move |caller, arguments| match serde_json::from_value::<A>(arguments) {
            Ok(arguments) => run(caller, arguments).boxed(),
            Err(error) => {
                let problem = error.to_string();
                async move { Err(Refusal::InvalidArgument { field: "arguments", problem }) }.boxed()
            }
        });
        Self { tool, run }
    }

    /// A read-only tool over what the tools of a server share.
    pub fn over<S, A, F, Fut>(state: &Arc<S>, name: &'static str, description: &'static str, run: F) -> Self
    where
        S: ?Sized + Send + Sync + 'static,
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(Arc<S>, Caller, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, Refusal>> + Send + 'static,
    {
        let state = Arc::clone(state);
        Self::new(name, description, move |caller, arguments| run(Arc::clone(&state), caller, arguments))
    }
}

/// The tools of one server, with the limits that hold for each of them.
#[derive(Clone)]
pub struct Registry {
    name: &'static str,
    tools: Arc<BTreeMap<String, ToolSpec>>,
    deadline: Duration,
    max_bytes: usize,
    audit: Arc<Audit>,
    metrics: Option<Arc<ToolMetrics>>,
    /// For stdio, where there is no token: the one who started the process.
    local: Option<Caller>,
}

impl Registry {
    #[must_use]
    pub fn new(name: &'static str, tools: Vec<ToolSpec>, deadline: Duration, max_bytes: usize) -> Self {
        let tools = tools.into_iter().map(|t| (t.tool.name.to_string(), t)).collect();
        Self { name, tools: Arc::new(tools), deadline, max_bytes, audit: Arc::new(Audit::off()), metrics: None, local: None }
    }

    /// Where each call leaves its line. Without it nothing is kept.
    #[must_use]
    pub fn audited(mut self, audit: impl Into<Arc<Audit>>) -> Self {
        self.audit = audit.into();
        self
    }

    /// Counts the calls, for `/metrics`. Without it nothing is counted.
    ///
    /// # Errors
    /// A defect: a metric's name that is used twice.
    pub fn measured(mut self) -> Result<Self, prometheus::Error> {
        self.metrics = Some(Arc::new(ToolMetrics::new(self.name)?));
        Ok(self)
    }

    #[must_use]
    pub fn for_local(mut self, caller: Caller) -> Self {
        self.local = Some(caller);
        self
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Each tool's name, description and schema.
    pub fn described(&self) -> impl Iterator<Item = (&str, &str, Value)> {
        self.tools
            .values()
            .map(|t| (t.tool.name.as_ref(), t.tool.description.as_deref().unwrap_or_default(), Value::Object(t.tool.input_schema.as_ref().clone())))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Runs a tool as the served endpoint does. Whatever comes of it, cancelled too, leaves its line in the audit log.
    pub async fn call(&self, caller: Caller, name: &str, arguments: Value, cancelled: &CancellationToken) -> Result<Value, Refusal> {
        let started = Instant::now();
        let call = self.audit.is_on().then(|| audit::Call::new(self.name, name, &caller, &arguments));
        let result = tokio::select! {
            result = self.execute(caller, name, arguments) => result,
            () = cancelled.cancelled() => Err(Refusal::Internal("cancelled by the caller".to_owned())),
        };
        let took = started.elapsed();
        if let Some(metrics) = &self.metrics {
            metrics.called(self.tools.get_key_value(name).map(|(name, _)| name.as_str()), took, &result);
        }
        if let Some(call) = call {
            self.audit.call(call, took, &result);
        }
        result
    }

    /// The server's metrics, in Prometheus' text format.
    pub(super) fn metrics_text(&self) -> String {
        self.metrics.as_ref().map(|m| m.text(self.audit.failed())).unwrap_or_default()
    }

    pub(super) fn refused_at_the_door(&self, why: &Refused) {
        if let Some(metrics) = &self.metrics {
            metrics.unauthenticated(why);
        }
        self.audit.unauthenticated(self.name, why);
    }

    async fn execute(&self, caller: Caller, name: &str, arguments: Value) -> Result<Value, Refusal> {
        let Some(spec) = self.tools.get(name) else { return Err(Refusal::UnknownTool(name.chars().take(64).collect())) };
        let work = AssertUnwindSafe((spec.run)(caller, arguments)).catch_unwind();
        match tokio::time::timeout(self.deadline, work).await {
            Ok(Ok(result)) => result,
            Ok(Err(_panic)) => Err(Refusal::Internal("a defect stopped it; the server's log has more".to_owned())),
            Err(_late) => Err(Refusal::Timeout(self.deadline.as_secs())),
        }
        .map(|mut value| {
            let redacted = redact_value(&mut value);
            if let Some(metrics) = &self.metrics {
                metrics.redacted(redacted);
            }
            if let (true, Value::Object(map)) = (redacted > 0, &mut value) {
                let before = map.get("redacted").and_then(Value::as_u64).unwrap_or(0);
                map.insert("redacted".to_owned(), json!(before + redacted as u64));
            }
            bound(value, self.max_bytes)
        })
    }
}

/// Cuts the longest lists of a result until it fits, and says what was cut.
fn bound(mut value: Value, max: usize) -> Value {
    let mut cut = 0;
    while value.to_string().len() > max {
        let Some(list) = longest_list(&mut value) else { break };
        let keep = list.len() / 2;
        cut += list.len() - keep;
        list.truncate(keep);
    }
    if cut > 0
        && let Value::Object(map) = &mut value
    {
        map.insert("complete".to_owned(), json!(false));
        map.insert("cut".to_owned(), json!(format!("{cut} items left out to stay under {max} bytes")));
    }
    if value.to_string().len() > max {
        return Refusal::Internal(format!("the result is longer than {max} bytes and cannot be cut; ask for less")).json();
    }
    value
}

fn longest_list(value: &mut Value) -> Option<&mut Vec<Value>> {
    let Value::Object(map) = value else { return None };
    map.values_mut()
        .filter_map(|v| match v {
            Value::Array(items) if items.len() > 1 => Some(items),
            _ => None,
        })
        .max_by_key(|items| items.iter().map(|i| i.to_string().len()).sum::<usize>())
}

impl ServerHandler for Registry {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new(format!("inquest-{}", self.name), env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(&self, _page: Option<PaginatedRequestParams>, _context: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.values().map(|t| t.tool.clone()).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.get(name).map(|t| t.tool.clone())
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let caller = context
            .extensions
            .get::<::http::request::Parts>()
            .and_then(|parts| parts.extensions.get::<Caller>())
            .or(self.local.as_ref())
            .cloned()
            .ok_or_else(|| ErrorData::invalid_request("no verified caller", None))?;
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        Ok(match self.call(caller, &request.name, arguments, &context.ct).await {
            // What MCP asks for: a tool that is not there is the caller's fault in the protocol, and no result.
            Err(refusal @ Refusal::UnknownTool(_)) => return Err(ErrorData::invalid_params(refusal.to_string(), None)),
            Ok(value) => CallToolResult::structured(value),
            Err(refusal) => CallToolResult::structured_error(refusal.json()),
        }
        .into())
    }
}
