//! `inquest tools <server>`: serve tools over MCP.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use rmcp::ServiceExt;

use crate::{
    identity::{ISSUER, JwksSource, SCOPE_TOOLS, Verifier},
    operator::shutdown::signal,
    tools::{
        kubernetes::{self, Impersonating, cluster_version},
        server::{Audit, AuditTarget, Caller, Registry, ServerOptions, serve},
    },
};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which tools.
    #[command(subcommand)]
    server: Server,
    #[command(flatten)]
    common: Common,
}

/// What every server is told.
#[derive(clap::Args, Debug)]
struct Common {
    /// http serves many callers, each with a token; stdio serves the one who started it, with their own rights.
    #[arg(long, global = true, env = "INQUEST_TRANSPORT", value_enum, default_value_t = Transport::Http)]
    transport: Transport,
    /// Where to listen.
    #[arg(long, global = true, env = "INQUEST_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// Host names under which the server is called; a request under another is refused. None: any.
    #[arg(long, global = true, env = "INQUEST_ALLOWED_HOSTS", value_delimiter = ',')]
    allowed_hosts: Vec<String>,
    /// Where the operator publishes its keys.
    #[arg(long, global = true, env = "INQUEST_JWKS_URL", default_value = "http://inquest-operator.inquest-system:8080/.well-known/jwks.json")]
    jwks_url: String,
    /// The issuer that tokens must name.
    #[arg(long, global = true, env = "INQUEST_ISSUER", default_value = ISSUER)]
    issuer: String,
    /// Where each call leaves a JSON line: stdout, stderr, off, or a folder (a new file each day). Unset: stdout over http, stderr over stdio.
    #[arg(long, global = true, env = "INQUEST_AUDIT_LOG")]
    audit_log: Option<AuditTarget>,
    /// Days of audit files that are kept in that folder.
    #[arg(long, global = true, env = "INQUEST_AUDIT_KEEP_DAYS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    audit_keep_days: u16,
}

#[derive(Subcommand, Debug)]
enum Server {
    /// What a cluster's objects, events and logs say.
    Kubernetes,
    /// Files of one folder, and read-only commands in it.
    #[cfg(target_os = "linux")]
    Workspace(Workspace),
}

#[cfg(target_os = "linux")]
#[derive(clap::Args, Debug)]
struct Workspace {
    /// The folder that is served.
    #[arg(long, env = "INQUEST_WORKSPACE", default_value = "/workspace")]
    workspace: PathBuf,
    /// Each tenant sees the folder of its own name in it, and no other.
    #[arg(long, env = "INQUEST_WORKSPACE_PER_TENANT", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    per_tenant: bool,
    /// Folders with the commands that run_shell runs.
    #[arg(long, env = "INQUEST_WORKSPACE_PROGRAMS", value_delimiter = ':', default_value = "/bin:/usr/bin")]
    programs: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Transport {
    Http,
    Stdio,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { server, common } = args;
    match server {
        Server::Kubernetes => {
            let client = kube::Client::try_default().await.context("no cluster: run it in a pod, or set KUBECONFIG")?;
            match cluster_version(&client).await {
                Ok(version) => tracing::info!(%version, "the cluster answers"),
                // Its tools say `cluster_unavailable` until it does: no reason to end.
                Err(error) => tracing::warn!(%error, "the cluster does not answer yet"),
            }
            let impersonate = common.transport == Transport::Http;
            serve_tools(common, kubernetes::tools(Arc::new(Impersonating { client, impersonate })), SCOPE_TOOLS).await
        }
        #[cfg(target_os = "linux")]
        Server::Workspace(Workspace { workspace, per_tenant, programs }) => {
            use crate::tools::workspace::{Root, Settings, shell::Shell, tools};
            let root = Root::open(&workspace).with_context(|| format!("the workspace {} cannot be served", workspace.display()))?;
            let helper = std::env::current_exe().context("this program's own file cannot be found")?;
            let settings = Settings { root: Arc::new(root), per_tenant, shell: Shell::new(helper, programs) };
            serve_tools(common, tools(settings), SCOPE_TOOLS).await
        }
    }
}

/// Over the transport that was asked for: with tokens of `scope`, or for the one who started it.
async fn serve_tools(common: Common, tools: Registry, scope: &str) -> anyhow::Result<ExitCode> {
    let Common { transport, listen, allowed_hosts, jwks_url, issuer, audit_log, audit_keep_days } = common;
    let audit = match (audit_log, transport) {
        (Some(AuditTarget::Stdout), Transport::Stdio) => {
            anyhow::bail!("--audit-log stdout: over stdio standard output carries the protocol; use stderr or a folder")
        }
        (Some(target), _) => target,
        (None, Transport::Http) => AuditTarget::Stdout,
        (None, Transport::Stdio) => AuditTarget::Stderr,
    };
    let registry = tools.audited(Audit::open(&audit, audit_keep_days.into())?);
    match transport {
        Transport::Http => {
            let verifier = Arc::new(Verifier::new(JwksSource::Url(jwks_url), issuer, scope)?);
            serve(registry.measured()?, verifier, ServerOptions { address: listen, allowed_hosts }, signal()).await?;
        }
        Transport::Stdio => {
            let caller = Caller { tenant: "default".to_owned(), service_account: String::new(), subject: "stdio".to_owned(), uid: String::new(), role: None };
            let service = registry.for_local(caller).serve(rmcp::transport::stdio()).await.context("the client did not begin a session")?;
            service.waiting().await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
