//! Stateless streamable HTTP at `/mcp`, `/health` and `/metrics` beside it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, http::StatusCode, middleware, routing::get};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Registry, authenticate};
use crate::identity::Verifier;

/// Calls in flight get this long after the stop signal. Under the pod's 30 s of grace.
const DRAIN: Duration = Duration::from_secs(15);

#[derive(thiserror::Error, Debug)]
pub enum ServeError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("the server failed: {0}")]
    Serve(#[source] std::io::Error),
}

pub struct ServerOptions {
    pub address: SocketAddr,
    /// Names under which the Service is called; others are refused (DNS rebinding). Empty: any.
    pub allowed_hosts: Vec<String>,
}

/// Serves until `stop`; then stops accepting, lets the calls in flight finish, and only then cancels them.
///
/// # Errors
/// When the address is taken, or the listener fails.
pub async fn serve(registry: Registry, verifier: Arc<Verifier>, options: ServerOptions, stop: CancellationToken) -> Result<(), ServeError> {
    let address = options.address;
    let listener = TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
    let hard = CancellationToken::new();
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_keep_alive(None)
        .with_cancellation_token(hard.clone());
    let config = if options.allowed_hosts.is_empty() { config.disable_allowed_hosts() } else { config.with_allowed_hosts(options.allowed_hosts) };
    let door = (verifier, registry.clone());
    let scraped = registry.clone();
    let service = StreamableHttpService::new(move || Ok(registry.clone()), Arc::new(NeverSessionManager::default()), config);
    let app = Router::new()
        .nest_service("/mcp", service)
        .layer(middleware::from_fn_with_state(door, authenticate))
        .route("/health", get(|| async { (StatusCode::OK, "ok\n") }))
        .route("/metrics", get(move || std::future::ready(scraped.metrics_text())));
    tracing::info!(%address, "serving MCP at /mcp");
    let accept = stop.clone();
    let server = tokio::spawn(axum::serve(listener, app).with_graceful_shutdown(accept.cancelled_owned()).into_future());
    tokio::pin!(server);
    tokio::select! {
        result = &mut server => return flatten(result),
        () = stop.cancelled() => {}
    }
    match tokio::time::timeout(DRAIN, &mut server).await {
        Ok(result) => flatten(result),
        Err(_late) => {
            hard.cancel();
            server.abort();
            Ok(())
        }
    }
}

fn flatten(result: Result<std::io::Result<()>, tokio::task::JoinError>) -> Result<(), ServeError> {
    match result {
        Ok(result) => result.map_err(ServeError::Serve),
        Err(join) => Err(ServeError::Serve(std::io::Error::other(join))),
    }
}
