//! The operator's own HTTP: health, metrics, and the public keys. Nothing here can open, read or change an investigation.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use axum::{
    Json, Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use http::{StatusCode, header};
use jiff::Timestamp;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::keys::Keys;
use crate::{identity::AUDIENCE, telemetry::Metrics};

/// The loop turns at least this often while the operator is alive.
const LIVE_SECONDS: i64 = 60;

/// What the endpoints tell.
#[derive(Clone)]
pub struct Health {
    ready: Arc<AtomicBool>,
    filled: Arc<AtomicBool>,
    turned: Arc<AtomicI64>,
}

impl Health {
    pub fn new() -> Self {
        Self { ready: Arc::default(), filled: Arc::default(), turned: Arc::new(AtomicI64::new(Timestamp::now().as_second())) }
    }
    /// This replica can take over: it serves keys, and waits for the Lease.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }
    /// The caches are filled.
    pub fn set_filled(&self) {
        self.filled.store(true, Ordering::Relaxed);
        self.set_ready();
    }
    pub fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Relaxed)
    }
    /// The loop turned.
    pub fn turn(&self) {
        self.turned.store(Timestamp::now().as_second(), Ordering::Relaxed);
    }
}

#[derive(Clone)]
struct Told {
    health: Health,
    metrics: Metrics,
    keys: Keys,
    issuer: String,
    url: String,
}

/// Serves until `stop`.
pub async fn serve(
    address: SocketAddr,
    health: Health,
    metrics: Metrics,
    keys: Keys,
    issuer: String,
    url: String,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let told = Told { health, metrics, keys, issuer, url };
    let app = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics_text))
        .route("/.well-known/jwks.json", get(jwks))
        .route("/.well-known/openid-configuration", get(discovery))
        .layer(middleware::from_fn(refuse_tool_tokens))
        .with_state(told);
    let listener = TcpListener::bind(address).await?;
    tracing::info!(%address, "serving health, metrics and keys");
    axum::serve(listener, app).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn healthz(State(told): State<Told>) -> Response {
    let silent = Timestamp::now().as_second() - told.health.turned.load(Ordering::Relaxed);
    if silent < LIVE_SECONDS {
        "ok\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("the loop has not turned for {silent} s\n")).into_response()
    }
}

async fn readyz(State(told): State<Told>) -> Response {
    if told.health.ready.load(Ordering::Relaxed) {
        "ok\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the caches are not filled yet\n").into_response()
    }
}

async fn metrics_text(State(told): State<Told>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], told.metrics.text()).into_response()
}

async fn jwks(State(told): State<Told>) -> Response {
    Json(told.keys.ring().jwks()).into_response()
}

async fn discovery(State(told): State<Told>) -> Response {
    Json(json!({
        "issuer": told.issuer,
        "jwks_uri": format!("{}/.well-known/jwks.json", told.url),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }))
    .into_response()
}

/// A token of a run is for the tools alone. Whoever shows one here has found one.
async fn refuse_tool_tokens(request: Request, next: Next) -> Response {
    let token = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).and_then(|v| v.split_once(' ')).map(|(_, t)| t.trim());
    let for_tools = token.is_some_and(|t| {
        jsonwebtoken::dangerous::insecure_decode_claims::<serde_json::Value>(t).is_ok_and(|claims| match &claims["aud"] {
            serde_json::Value::String(aud) => aud == AUDIENCE,
            serde_json::Value::Array(many) => many.iter().any(|a| a == AUDIENCE),
            _ => false,
        })
    });
    if for_tools {
        tracing::warn!(path = request.uri().path(), "a token of a run was shown to the operator: it is for the tools alone");
        return (StatusCode::FORBIDDEN, "a token for the tools is not accepted here\n").into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        identity::{ISSUER, KeyRing, Subject, install_crypto, mint},
        operator::keys::KeyStore,
    };

    /// S1.7: a token of a run opens nothing of the operator's; without one, its endpoints answer.
    #[tokio::test]
    async fn s1_7_every_endpoint_refuses_a_token_for_the_tools() {
        install_crypto();
        let keys = Keys::default();
        KeyStore::Memory.refresh(&keys).await.unwrap();
        let ring: KeyRing = keys.ring();
        let subject = Subject { namespace: "demo", name: "run", uid: "u", service_account: "inquest-reader" };
        let token = mint(&ring, ISSUER, &subject, "j".into(), Timestamp::now()).unwrap();
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (health, stop) = (Health::new(), CancellationToken::new());
        health.set_filled();
        tokio::spawn(serve(address, health, Metrics::new().unwrap(), keys, ISSUER.into(), "http://operator".into(), stop.clone()));
        let http = crate::http_client::builder().unwrap().build().unwrap();
        let url = |path: &str| format!("http://{address}{path}");
        for _ in 0..100 {
            if http.get(url("/healthz")).send().await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for path in ["/healthz", "/readyz", "/metrics", "/.well-known/jwks.json", "/.well-known/openid-configuration"] {
            assert_eq!(http.get(url(path)).send().await.unwrap().status(), 200, "{path}");
            let shown = http.get(url(path)).bearer_auth(token.reveal()).send().await.unwrap();
            assert_eq!(shown.status(), 403, "{path}");
            assert!(!shown.text().await.unwrap().contains("kid"), "{path}");
        }
        let jwks = http.get(url("/.well-known/jwks.json")).send().await.unwrap().text().await.unwrap();
        assert!(jwks.contains("\"x\"") && !jwks.contains("\"d\""), "public halves alone: {jwks}");
        stop.cancel();
    }
}
