//! A tool server over real HTTP, with real tokens, and a client of ours for it.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use inquest::{
    identity::{AUDIENCE, Claims, ISSUER, JwksSource, KeyRing, Subject, Token, Verifier, install_crypto, mint, sign},
    mcp::{CallLimits, Connection, Endpoint},
    tools::server::{Registry, ServerOptions, serve},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub const LIMITS: CallLimits = CallLimits { timeout: Duration::from_secs(20), max_bytes: 65_536 };

pub struct Served {
    pub url: String,
    pub ring: Arc<KeyRing>,
    stop: CancellationToken,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub fn keys() -> Arc<KeyRing> {
    install_crypto();
    let mut ring = KeyRing::default();
    ring.rotate(Timestamp::now()).unwrap();
    Arc::new(ring)
}

pub fn http() -> reqwest::Client {
    inquest::http_client::builder().unwrap().build().unwrap()
}

/// Serves `registry` to bearers of a token with `scope`.
pub async fn served(registry: Registry, scope: &str) -> Served {
    served_by(keys(), registry, scope).await
}

pub async fn served_by(ring: Arc<KeyRing>, registry: Registry, scope: &str) -> Served {
    let verifier = Arc::new(Verifier::new(JwksSource::Fixed(ring.jwks()), ISSUER, scope).unwrap());
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stop = CancellationToken::new();
    let options = ServerOptions { address, allowed_hosts: vec!["127.0.0.1".into()] };
    tokio::spawn(serve(registry.measured().unwrap(), verifier, options, stop.clone()));
    let (health, http) = (format!("http://{address}/health"), http());
    for _ in 0..100 {
        if http.get(&health).send().await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Served { url: format!("http://{address}/mcp"), ring, stop }
}

impl Served {
    pub fn token(&self, tenant: &str) -> Token {
        let subject = Subject { namespace: tenant, name: "run", uid: "u", service_account: "inquest-reader" };
        mint(&self.ring, ISSUER, &subject, "j".into(), Timestamp::now()).unwrap()
    }

    /// A token that says just this.
    pub fn token_with(&self, tenant: &str, role: Option<&str>, scope: &str) -> Token {
        let now = Timestamp::now();
        let claims = Claims {
            iss: ISSUER.into(),
            sub: format!("agent:{tenant}/run"),
            aud: AUDIENCE.into(),
            exp: (now + SignedDuration::from_mins(5)).as_second(),
            nbf: now.as_second(),
            iat: now.as_second(),
            jti: "j".into(),
            tenant_id: tenant.into(),
            uid: "u".into(),
            service_account: "inquest-reader".into(),
            scope: scope.into(),
            role: role.map(str::to_owned),
        };
        sign(&self.ring, &claims, now).unwrap()
    }

    pub async fn connect(&self) -> Connection {
        let endpoint = Endpoint { url: self.url.clone(), header: Some("Authorization".into()) };
        Connection::open(endpoint, http(), Some(&self.token("demo")), Duration::from_secs(5)).await.unwrap()
    }

    /// As the tenant `demo`: the code, and the result as JSON.
    pub async fn call(&self, tool: &str, arguments: Value) -> (Option<String>, Value) {
        let got = self.connect().await.call(tool, &arguments, Some(&self.token("demo")), LIMITS).await;
        (got.code, serde_json::from_str(&got.text).unwrap_or(Value::String(got.text)))
    }

    /// What the server counted of a tool's calls with a result.
    pub async fn counted(&self, tool: &str, result: &str) -> u64 {
        let text = http().get(self.url.replace("/mcp", "/metrics")).send().await.unwrap().text().await.unwrap();
        let wanted = format!("tool=\"{tool}\"");
        text.lines()
            .filter(|l| l.starts_with("inquest_tool_server_calls_total") && l.contains(&wanted) && l.contains(&format!("result=\"{result}\"")))
            .filter_map(|l| l.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    }

    /// Each of `attacks` must be refused with its code; how many there were.
    pub async fn all_refused(&self, attacks: &[(&str, Value, &str)]) -> usize {
        let connection = self.connect().await;
        let token = self.token("demo");
        let wrong: Vec<String> = stream::iter(attacks)
            .map(|(tool, arguments, wanted)| {
                let (connection, token) = (&connection, &token);
                async move {
                    let got = connection.call(tool, arguments, Some(token), LIMITS).await;
                    let said: Value = serde_json::from_str(&got.text).unwrap_or(json!({}));
                    let refused = got.code.as_deref() == Some(*wanted) && said["guardrail_code"] == *wanted && !said["error"].as_str().unwrap_or("").is_empty();
                    (!refused).then(|| format!("{tool} {arguments}: wanted {wanted}, got {:?}: {}", got.code, got.text))
                }
            })
            .buffer_unordered(16)
            .filter_map(|wrong| async { wrong })
            .collect()
            .await;
        assert!(wrong.is_empty(), "{} of {} passed or were refused otherwise:\n{}", wrong.len(), attacks.len(), wrong.join("\n"));
        attacks.len()
    }
}
