//! ToolServers: discovery, their status, and the connections that runs call through.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Client, Resource, ResourceExt, runtime::controller::Action};

use super::{
    keys::Keys,
    status::{self, condition},
};
use crate::{
    agent::{ToolRef, ToolSchema},
    api::{AuthType, DiscoveredTool, ToolFilter, ToolServer, ToolServerSpec, ToolServerStatus},
    identity::{Subject, Token, mint},
    investigators::chat::plain,
    mcp::{CallLimits, Connection, Endpoint, McpError, Offered},
};

/// A server that was well is asked again so often, and one that was not, sooner.
const WELL: Duration = Duration::from_secs(120);
const UNWELL: Duration = Duration::from_secs(5);

/// Connections by server; one is made anew when the server's spec changed or it broke.
#[derive(Clone)]
pub struct Servers {
    client: Client,
    http: reqwest::Client,
    keys: Keys,
    issuer: String,
    open: Arc<Mutex<Open>>,
}

/// By server: the object and generation that it was opened for, the connection, and the tools that it listed last.
type Open = HashMap<String, Opened>;

#[derive(Clone)]
struct Opened {
    made_for: String,
    connection: Arc<Connection>,
    listed: Option<Arc<Vec<Offered>>>,
}

/// The status of a ToolServer or a Model could not be written, and why.
#[derive(thiserror::Error, Debug)]
#[error("{0}")]
pub struct NotWritten(pub String);

/// `namespace/name`, as journals and evidence name it.
pub fn id(server: &ToolServer) -> String {
    format!("{}/{}", server.namespace().unwrap_or_default(), server.name_any())
}

impl Servers {
    pub fn new(client: Client, keys: Keys, issuer: String) -> anyhow::Result<Self> {
        let http = crate::http_client::builder()?.pool_idle_timeout(Duration::from_secs(60)).build()?;
        Ok(Self { client, http, keys, issuer, open: Arc::default() })
    }

    /// A token for one step of one run.
    pub fn token(&self, subject: &Subject<'_>, jti: String) -> Option<Token> {
        match mint(&self.keys.ring(), &self.issuer, subject, jti, Timestamp::now()) {
            Ok(token) => Some(token),
            Err(error) => {
                tracing::error!(%error, "no token could be signed; the tools will refuse the call");
                None
            }
        }
    }

    /// The connection to a server, made if need be.
    pub async fn connect(&self, server: &ToolServer, token: Option<&Token>) -> Result<Arc<Connection>, McpError> {
        // A server that was deleted and made anew is another one, whatever its name.
        let (key, generation) = (id(server), format!("{}/{}", server.uid().unwrap_or_default(), server.meta().generation.unwrap_or_default()));
        if let Some(open) = self.lock().get(&key).filter(|o| o.made_for == generation && o.connection.is_open()) {
            return Ok(Arc::clone(&open.connection));
        }
        let connection = Arc::new(Connection::open(endpoint(server), self.http.clone(), token, limits(&server.spec).timeout).await?);
        self.lock().insert(key, Opened { made_for: generation, connection: Arc::clone(&connection), listed: None });
        Ok(connection)
    }

    /// What a model is told of these tools, as their servers listed them last. Asked for once, at the start of a run. A server that does
    /// not answer leaves its tools without a schema, and so unknown to the model.
    pub async fn schemas(&self, servers: &HashMap<String, Arc<ToolServer>>, tools: &[ToolRef], token: Option<&Token>) -> Vec<ToolSchema> {
        let mut lists: HashMap<&str, Arc<Vec<Offered>>> = HashMap::new();
        for (key, server) in servers.iter().filter(|(key, _)| tools.iter().any(|t| t.server == **key)) {
            match self.list(server, token).await {
                Ok(list) => drop(lists.insert(key.as_str(), list)),
                Err(error) => tracing::warn!(server = key, %error, "the tools of a server are not known to the model"),
            }
        }
        let schema = |t: &ToolRef| {
            let listed = lists.get(t.server.as_str())?.iter().find(|o| o.name == t.tool)?;
            Some(plain(&t.tool, &listed.description, &listed.schema))
        };
        tools.iter().filter_map(schema).collect()
    }

    async fn list(&self, server: &ToolServer, token: Option<&Token>) -> Result<Arc<Vec<Offered>>, McpError> {
        let connection = self.connect(server, token).await?;
        if let Some(listed) = self.lock().get(&id(server)).and_then(|o| o.listed.clone()) {
            return Ok(listed);
        }
        let listed = Arc::new(connection.tools(limits(&server.spec).timeout).await?);
        self.remember(server, &listed);
        Ok(listed)
    }

    fn remember(&self, server: &ToolServer, listed: &Arc<Vec<Offered>>) {
        if let Some(open) = self.lock().get_mut(&id(server)) {
            open.listed = Some(Arc::clone(listed));
        }
    }

    fn forget(&self, server: &ToolServer) {
        self.lock().remove(&id(server));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a server for its tools and writes what came of it into its status.
    pub async fn discover(&self, server: Arc<ToolServer>) -> Result<Action, NotWritten> {
        let namespace = server.namespace().unwrap_or_default();
        let uid = server.uid().unwrap_or_default();
        let name = server.name_any();
        // Its own identity: the namespace of the ToolServer, and no investigation's.
        let subject = Subject { namespace: &namespace, name: &name, uid: &uid, service_account: "discovery" };
        let found = self.ask(&server, &subject).await;
        let before = server.status.clone().unwrap_or_default();
        let mut after = ToolServerStatus { observed_generation: server.meta().generation, ..before.clone() };
        let next = match &found {
            Ok((protocol, tools)) => {
                after.protocol_version.clone_from(protocol);
                let offered = tools.iter().filter(|t| t.offered).count();
                if *tools != before.tools {
                    after.last_discovered = Some(Time(Timestamp::now()));
                }
                after.tools.clone_from(tools);
                condition(
                    &mut after.conditions,
                    "Ready",
                    offered > 0,
                    if offered > 0 { "Discovered" } else { "NoToolsOffered" },
                    &format!("{offered} of {} tools are offered", tools.len()),
                    server.meta().generation,
                );
                WELL
            }
            Err(error) => {
                self.forget(&server);
                condition(&mut after.conditions, "Ready", false, error.reason(), &error.to_string(), server.meta().generation);
                UNWELL
            }
        };
        if after != before {
            if let Err(error) = &found {
                tracing::warn!(server = id(&server), %error, "a tool server is not ready");
            }
            status::write_other(&self.client, server.as_ref(), &after).await.map_err(NotWritten)?;
        }
        Ok(Action::requeue(next))
    }

    async fn ask(&self, server: &ToolServer, subject: &Subject<'_>) -> Result<(String, Vec<DiscoveredTool>), McpError> {
        // A field that is not obeyed yet is refused aloud, never ignored.
        if server.spec.auth.kind == AuthType::SecretToken {
            return Err(McpError::Unsupported { field: "spec.auth.type: SecretToken", instead: "InvestigationToken or None" });
        }
        if server.spec.tls.ca_secret_ref.is_some() {
            return Err(McpError::Unsupported { field: "spec.tls.caSecretRef", instead: "a certificate of a public authority" });
        }
        let token = self.token(subject, format!("{}-discovery", subject.uid));
        let connection = self.connect(server, token.as_ref()).await?;
        let listed = match connection.tools(limits(&server.spec).timeout).await {
            Ok(listed) => listed,
            // The connection's own token has expired, or the server was replaced: once more from the start.
            Err(_stale) => {
                self.forget(server);
                self.connect(server, token.as_ref()).await?.tools(limits(&server.spec).timeout).await?
            }
        };
        let tools = offered(&listed, &server.spec.tools);
        self.remember(server, &Arc::new(listed));
        Ok((connection.protocol_version.clone(), tools))
    }
}

/// Where a server is.
fn endpoint(server: &ToolServer) -> Endpoint {
    let spec = &server.spec;
    let url = match &spec.service {
        Some(service) => {
            let own = server.namespace().unwrap_or_default();
            let namespace = if service.namespace.is_empty() { &own } else { &service.namespace };
            format!("http://{}.{namespace}.svc:{}{}", service.name, service.port, service.path)
        }
        None => spec.url.clone(),
    };
    let header = (spec.auth.kind == AuthType::InvestigationToken).then(|| spec.auth.header.clone());
    Endpoint { url, header }
}

pub fn limits(spec: &ToolServerSpec) -> CallLimits {
    CallLimits { timeout: spec.timeout.or(Duration::from_secs(10)), max_bytes: usize::try_from(spec.max_result_bytes).unwrap_or(32_768) }
}

/// Which of the listed tools are offered, and why the others are not.
pub fn offered(listed: &[Offered], filter: &ToolFilter) -> Vec<DiscoveredTool> {
    listed
        .iter()
        .map(|tool| {
            let exactly = filter.allow.contains(&tool.name);
            let allowed = filter.allow.is_empty() || filter.allow.iter().any(|p| matches(p, &tool.name));
            let reason = if filter.deny.iter().any(|p| matches(p, &tool.name)) {
                "spec.tools.deny names it"
            } else if !allowed {
                "spec.tools.allow does not name it"
            } else if !tool.read_only && !exactly {
                "it is not annotated readOnlyHint: true, and spec.tools.allow does not name it exactly"
            } else {
                ""
            };
            DiscoveredTool { name: tool.name.chars().take(128).collect(), offered: reason.is_empty(), reason: reason.to_owned() }
        })
        .take(128)
        .collect()
}

/// `*` stands for any text.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, wanted) in [
            ("kubectl_*", "kubectl_get", true),
            ("kubectl_*", "find", false),
            ("*", "x", true),
            ("a*b*c", "a1b2c", true),
            ("a*b", "abx", false),
            ("get", "get", true),
            ("get", "gets", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, name), wanted, "{pattern} {name}");
        }
    }
}
