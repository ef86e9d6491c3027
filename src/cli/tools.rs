//! `inquest tools <server>`: serve tools over MCP.

use std::{net::SocketAddr, process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::ValueEnum;
use rmcp::ServiceExt;

use crate::{
    identity::{ISSUER, JwksSource, SCOPE_TOOLS, Verifier},
    operator::shutdown::signal,
    tools::{
        kubernetes::{Impersonating, cluster_version, tools},
        server::{Audit, AuditTarget, Caller, ServerOptions, serve},
    },
};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which tools.
    #[arg(value_enum)]
    server: Server,
    /// http serves many callers, each with a token; stdio serves the one who started it, with their own rights.
    #[arg(long, env = "INQUEST_TRANSPORT", value_enum, default_value_t = Transport::Http)]
    transport: Transport,
    /// Where to listen.
    #[arg(long, env = "INQUEST_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// Host names under which the server is called; a request under another is refused. None: any.
    #[arg(long, env = "INQUEST_ALLOWED_HOSTS", value_delimiter = ',')]
    allowed_hosts: Vec<String>,
    /// Where the operator publishes its keys.
    #[arg(long, env = "INQUEST_JWKS_URL", default_value = "http://inquest-operator.inquest-system:8080/.well-known/jwks.json")]
    jwks_url: String,
    /// The issuer that tokens must name.
    #[arg(long, env = "INQUEST_ISSUER", default_value = ISSUER)]
    issuer: String,
    /// Where each call leaves a JSON line: stdout, stderr, off, or a folder (a new file each day). Unset: stdout over http, stderr over stdio.
    #[arg(long, env = "INQUEST_AUDIT_LOG")]
    audit_log: Option<AuditTarget>,
    /// Days of audit files that are kept in that folder.
    #[arg(long, env = "INQUEST_AUDIT_KEEP_DAYS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    audit_keep_days: u16,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Server {
    Kubernetes,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Transport {
    Http,
    Stdio,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { server: Server::Kubernetes, transport, listen, allowed_hosts, jwks_url, issuer, audit_log, audit_keep_days } = args;
    let audit = match (audit_log, transport) {
        (Some(AuditTarget::Stdout), Transport::Stdio) => {
            anyhow::bail!("--audit-log stdout: over stdio standard output carries the protocol; use stderr or a folder")
        }
        (Some(target), _) => target,
        (None, Transport::Http) => AuditTarget::Stdout,
        (None, Transport::Stdio) => AuditTarget::Stderr,
    };
    let audit = Audit::open(&audit, audit_keep_days.into())?;
    let client = kube::Client::try_default().await.context("no cluster: run it in a pod, or set KUBECONFIG")?;
    match cluster_version(&client).await {
        Ok(version) => tracing::info!(%version, "the cluster answers"),
        // Its tools say `cluster_unavailable` until it does: no reason to end.
        Err(error) => tracing::warn!(%error, "the cluster does not answer yet"),
    }
    match transport {
        Transport::Http => {
            let verifier = Arc::new(Verifier::new(JwksSource::Url(jwks_url), issuer, SCOPE_TOOLS)?);
            let registry = tools(Arc::new(Impersonating { client, impersonate: true })).audited(audit);
            serve(registry, verifier, ServerOptions { address: listen, allowed_hosts }, signal()).await?;
        }
        Transport::Stdio => {
            let caller = Caller { tenant: "default".to_owned(), service_account: String::new(), subject: "stdio".to_owned(), uid: String::new() };
            let registry = tools(Arc::new(Impersonating { client, impersonate: false })).audited(audit).for_local(caller);
            let service = registry.serve(rmcp::transport::stdio()).await.context("the client did not begin a session")?;
            service.waiting().await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
