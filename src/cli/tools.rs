//! `inquest tools <server>`: serve tools over MCP.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use rmcp::ServiceExt;

use crate::{
    identity::{ISSUER, JwksSource, SCOPE_KNOWLEDGE, SCOPE_TOOLS, Verifier},
    operator::shutdown::signal,
    tools::{
        kubernetes::{self, Impersonating, Readers, cluster_version},
        metrics::{self, Backend, Catalogue, DenyList, HttpBackend, Limits, MockMode, Postgres, Role},
        observability::{self, Prometheus, Queries},
        runbooks::{self, Folder},
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
    /// A file with the issuer's public keys, instead of the address.
    #[arg(long, global = true, env = "INQUEST_JWKS_FILE")]
    jwks_file: Option<PathBuf>,
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
    /// What was deployed, which errors the logs hold, and how figures went over time.
    Observability(Observability),
    /// What teams have written down about failures.
    Runbooks(Runbooks),
    /// Business figures of a catalogue: what can be asked for, never how.
    Metrics(Box<Metrics>),
    /// Files of one folder, and read-only commands in it.
    #[cfg(target_os = "linux")]
    Workspace(Workspace),
}

#[derive(clap::Args, Debug)]
struct Observability {
    /// A Prometheus, or what speaks its HTTP API. Unset: there is no query_metrics.
    #[arg(long, env = "INQUEST_PROMETHEUS_URL")]
    prometheus_url: Option<String>,
    /// A file with a bearer token for it.
    #[arg(long, env = "INQUEST_PROMETHEUS_TOKEN_FILE")]
    prometheus_token_file: Option<PathBuf>,
    /// A header for it, as in `X-Scope-OrgID: platform`. Can be given more than once.
    #[arg(long, env = "INQUEST_PROMETHEUS_HEADER")]
    prometheus_header: Vec<String>,
    /// The file with the queries that may be asked for. Unset: the built-in ones.
    #[arg(long, env = "INQUEST_PROMETHEUS_QUERIES")]
    queries: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
struct Runbooks {
    /// The namespace whose Runbooks every tenant sees.
    #[arg(long, env = "INQUEST_SHARED_NAMESPACE", default_value = "inquest-system")]
    shared_namespace: String,
    /// A folder with more: *.md are shared, <tenant>/*.md are that tenant's own.
    #[arg(long, env = "INQUEST_RUNBOOKS")]
    folder: Option<PathBuf>,
    /// Only the folder: Runbook resources are not read, and no cluster is needed.
    #[arg(long, env = "INQUEST_RUNBOOKS_NO_CLUSTER", requires = "folder")]
    no_cluster: bool,
}

#[derive(clap::Args, Debug)]
struct Metrics {
    /// The catalogue file. Unset: the example that is built in.
    #[arg(long, env = "INQUEST_METRICS_CATALOGUE")]
    catalogue: Option<PathBuf>,
    /// A PostgreSQL database, as postgres://user:password@host:5432/name.
    #[arg(long, env = "INQUEST_METRICS_DATABASE_URL", hide_env_values = true, conflicts_with = "backend_url")]
    database_url: Option<String>,
    /// A PEM file with the authority that signed the database's certificate. Unset: the public ones.
    #[arg(long, env = "INQUEST_METRICS_DATABASE_CA")]
    database_ca: Option<PathBuf>,
    /// An HTTP backend: GET <url>/metrics, POST <url>/metrics/query.
    #[arg(long, env = "INQUEST_METRICS_BACKEND_URL")]
    backend_url: Option<String>,
    /// A file with the token that this server shows to the HTTP backend.
    #[arg(long, env = "INQUEST_METRICS_BACKEND_TOKEN_FILE")]
    backend_token_file: Option<PathBuf>,
    /// Whether example figures answer: auto, where the backend cannot be reached; always; never.
    #[arg(long, env = "INQUEST_METRICS_MOCK_BACKEND", value_enum, default_value_t = MockMode::Auto)]
    mock_backend: MockMode,
    /// Seconds that the backend has for an answer.
    #[arg(long, env = "INQUEST_METRICS_REQUEST_TIMEOUT_SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10))]
    request_timeout_seconds: u64,
    #[arg(long, env = "INQUEST_METRICS_MAX_DIMENSIONS", default_value_t = 3)]
    max_dimensions: usize,
    #[arg(long, env = "INQUEST_METRICS_MAX_FILTERS", default_value_t = 5)]
    max_filters: usize,
    /// Characters.
    #[arg(long, env = "INQUEST_METRICS_MAX_FILTER_VALUE_LEN", default_value_t = 200)]
    max_filter_value_len: usize,
    #[arg(long, env = "INQUEST_METRICS_MAX_DATE_RANGE_DAYS", default_value_t = 366)]
    max_date_range_days: u32,
    /// The first day that can be asked for.
    #[arg(long, env = "INQUEST_METRICS_OLDEST_DATE", default_value = "2000-01-01")]
    oldest_date: jiff::civil::Date,
    /// Days after today that a range may end on: the caller's clock may be ahead.
    #[arg(long, env = "INQUEST_METRICS_MAX_FUTURE_SLACK_DAYS", default_value_t = 1)]
    max_future_slack_days: u32,
    #[arg(long, env = "INQUEST_METRICS_MAX_ROWS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    max_rows: u32,
    /// Models that are described to nobody: globs.
    #[arg(
        long,
        env = "INQUEST_METRICS_DENYLISTED_MODELS",
        value_delimiter = ',',
        default_value = "raw*,raw.*,*__pii*,*_pii,*_pii__*,*_internal,*_confidential,mart_finance_confidential"
    )]
    denylisted_models: Vec<String>,
    /// Roles that schemas are described to.
    #[arg(long, env = "INQUEST_METRICS_SCHEMA_ROLES", value_enum, value_delimiter = ',', default_value = "owner,analyst")]
    schema_roles: Vec<Role>,
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
            let (readers, identity) = cluster(&common).await?;
            serve_tools(common, kubernetes::tools(readers), SCOPE_TOOLS, identity).await
        }
        Server::Observability(args) => {
            let prometheus = args.prometheus()?;
            let (readers, identity) = cluster(&common).await?;
            serve_tools(common, observability::tools(observability::Settings { readers, prometheus }), SCOPE_TOOLS, identity).await
        }
        Server::Runbooks(Runbooks { shared_namespace: shared, folder, no_cluster }) => {
            let folder = folder.as_deref().map(|f| Folder::open(f).with_context(|| format!("--folder {}", f.display()))).transpose()?;
            let (readers, identity) = if no_cluster {
                (None, Identity::nobody())
            } else {
                let (readers, identity) = cluster(&common).await?;
                (Some(readers), identity)
            };
            serve_tools(common, runbooks::tools(runbooks::Settings { readers, folder, shared }), SCOPE_KNOWLEDGE, identity).await
        }
        #[cfg(target_os = "linux")]
        Server::Workspace(Workspace { workspace, per_tenant, programs }) => {
            use crate::tools::workspace::{Root, Settings, shell::Shell, tools};
            let root = Root::open(&workspace).with_context(|| format!("the workspace {} cannot be served", workspace.display()))?;
            let helper = std::env::current_exe().context("this program's own file cannot be found")?;
            let settings = Settings { root: Arc::new(root), per_tenant, shell: Shell::new(helper, programs) };
            serve_tools(common, tools(settings), SCOPE_TOOLS, Identity::nobody()).await
        }
        Server::Metrics(args) => serve_tools(common, args.tools()?, SCOPE_TOOLS, Identity::Token).await,
    }
}

/// The cluster, as each caller's ServiceAccount; over stdio as the one who started the process, in the namespace of their kubeconfig.
async fn cluster(common: &Common) -> anyhow::Result<(Arc<dyn Readers>, Identity)> {
    let client = kube::Client::try_default().await.context("no cluster: run it in a pod, or set KUBECONFIG")?;
    match cluster_version(&client).await {
        Ok(version) => tracing::info!(%version, "the cluster answers"),
        // Its tools say `cluster_unavailable` until it does: no reason to end.
        Err(error) => tracing::warn!(%error, "the cluster does not answer yet"),
    }
    let identity = Identity::WhoStartedIt { namespace: client.default_namespace().to_owned() };
    Ok((Arc::new(Impersonating { client, impersonate: common.transport == Transport::Http }), identity))
}

impl Observability {
    fn prometheus(self) -> anyhow::Result<Option<(Prometheus, Queries)>> {
        let Some(url) = self.prometheus_url else { return Ok(None) };
        let token = self.prometheus_token_file.as_deref().map(|file| read(file, "--prometheus-token-file")).transpose()?;
        let text = match &self.queries {
            Some(file) => read(file, "--queries")?,
            None => include_str!("../../config/promql.yaml").to_owned(),
        };
        Ok(Some((Prometheus::new(&url, token.as_deref(), &self.prometheus_header)?, Queries::parse(&text).context("--queries")?)))
    }
}

impl Metrics {
    fn tools(self) -> anyhow::Result<Registry> {
        let denied_models = DenyList::new(&self.denylisted_models).context("--denylisted-models")?;
        let timeout = Duration::from_secs(self.request_timeout_seconds);
        let backend = match (&self.database_url, &self.backend_url) {
            (Some(url), _) => {
                anyhow::ensure!(self.catalogue.is_some(), "--database-url needs --catalogue: it says how each metric is read");
                Backend::Postgres(Postgres::new(url, self.database_ca.as_deref(), timeout)?)
            }
            (None, Some(url)) => {
                let token = self.backend_token_file.as_deref().map(|file| read(file, "--backend-token-file")).transpose()?;
                Backend::Http(HttpBackend::new(url, token.as_deref(), timeout)?)
            }
            (None, None) => Backend::None,
        };
        let text = match &self.catalogue {
            Some(file) => read(file, "--catalogue")?,
            None => {
                tracing::warn!("no --catalogue: the built-in example is served");
                include_str!("../../config/metrics/example.yaml").to_owned()
            }
        };
        let limits = Limits {
            max_dimensions: self.max_dimensions,
            max_filters: self.max_filters,
            max_filter_value_len: self.max_filter_value_len,
            max_date_range_days: self.max_date_range_days,
            oldest_date: self.oldest_date,
            max_future_slack_days: self.max_future_slack_days,
            max_rows: self.max_rows,
            denied_models,
            schema_roles: self.schema_roles,
        };
        let catalogue = Catalogue::parse(&text, &limits.denied_models).context("--catalogue")?;
        Ok(metrics::tools(metrics::Settings { backend, catalogue, mode: self.mock_backend, limits }))
    }
}

fn read(file: &Path, flag: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("{flag}: {} cannot be read", file.display()))
}

/// Who calls over stdio, where no request carries a token.
#[derive(Clone, Debug)]
enum Identity {
    /// The one who started the process, with their own rights; the tenant is their namespace.
    WhoStartedIt { namespace: String },
    /// Whom the token in INQUEST_TOOL_TOKEN names; without a valid one nothing is served.
    Token,
}

impl Identity {
    /// Where there is no cluster.
    fn nobody() -> Self {
        Self::WhoStartedIt { namespace: "default".to_owned() }
    }
}

/// Over the transport that was asked for: with tokens of `scope`, or for the one who started it.
async fn serve_tools(common: Common, tools: Registry, scope: &str, identity: Identity) -> anyhow::Result<ExitCode> {
    let Common { transport, listen, allowed_hosts, jwks_url, jwks_file, issuer, audit_log, audit_keep_days } = common;
    let keys = match jwks_file {
        Some(file) => JwksSource::Fixed(serde_json::from_str(&read(&file, "--jwks-file")?).context("--jwks-file holds no JSON")?),
        None => JwksSource::Url(jwks_url),
    };
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
            let verifier = Arc::new(Verifier::new(keys, issuer, scope)?);
            serve(registry.measured()?, verifier, ServerOptions { address: listen, allowed_hosts }, signal()).await?;
        }
        Transport::Stdio => {
            let caller = match identity {
                Identity::WhoStartedIt { namespace } => {
                    Caller { tenant: namespace, service_account: String::new(), subject: "stdio".to_owned(), uid: String::new(), role: None }
                }
                Identity::Token => caller_of_this_connection(keys, issuer, scope).await.context("not started")?,
            };
            let service = registry.for_local(caller).serve(rmcp::transport::stdio()).await.context("the client did not begin a session")?;
            service.waiting().await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The identity of a stdio connection: fixed at its start, for as long as it lives.
async fn caller_of_this_connection(keys: JwksSource, issuer: String, scope: &str) -> anyhow::Result<Caller> {
    let token = std::env::var("INQUEST_TOOL_TOKEN")
        .ok()
        .filter(|t| !t.is_empty())
        .context("INQUEST_TOOL_TOKEN is not set: this server serves over stdio only whom a token names; `inquest token` makes one")?;
    let verifier = Verifier::new(keys, issuer, scope)?.with_longest_life(super::token::LONGEST_LIFE);
    let caller = Caller::from(verifier.verify(&token).await.context("INQUEST_TOOL_TOKEN is refused")?);
    Role::of(&caller).map_err(|refusal| anyhow::anyhow!("INQUEST_TOOL_TOKEN is refused: {refusal}"))?;
    tracing::info!(tenant = caller.tenant, subject = caller.subject, role = caller.role, "this connection is theirs");
    Ok(caller)
}
