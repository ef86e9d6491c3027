//! `inquest investigate`: one run from this machine, with the caller's own rights or on a saved cluster.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::{Context, bail};
use jiff::Timestamp;

use super::model::ModelArgs;
use crate::{
    agent::{Caps, Control, Mind},
    api::{BudgetSpec, ObjectRef, Outcome, Span, StopReason, Usd},
    investigators::{Case, playbook::Playbooks},
    mcp::LocalTools,
    operator::usage,
    report,
    runner::{self, Parts, Stepped, postmortem, step},
    store::{JournalStore, MemoryStore, RunId},
    tools::{
        kubernetes::{
            Impersonating, Readers, Snapshot,
            kinds::{self, Kind},
            tools,
        },
        runbooks::{self, Folder},
        server::{Caller, object_name},
    },
};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to look at, as kind/name: deployment/payments-api. None: the whole namespace.
    #[arg(value_parser = parse_target)]
    target: Option<Target>,
    /// The namespace.
    #[arg(short, long, env = "INQUEST_NAMESPACE", default_value = "default")]
    namespace: String,
    /// The question, in words.
    #[arg(short, long, default_value = "")]
    question: String,
    /// A saved cluster (JSON) to look at instead of the one that the kubeconfig names.
    #[arg(long)]
    snapshot: Option<PathBuf>,
    /// Tool calls that may be made.
    #[arg(long, env = "INQUEST_MAX_TOOL_CALLS", default_value_t = 8)]
    max_tool_calls: i32,
    /// How long it may take.
    #[arg(long, env = "INQUEST_MAX_DURATION", default_value = "10m")]
    max_duration: String,
    /// US dollars that a model may cost.
    #[arg(long, env = "INQUEST_MAX_COST_USD", default_value = "0.50")]
    max_cost_usd: String,
    #[command(flatten)]
    model: ModelArgs,
    /// The namespace whose Runbooks are shared.
    #[arg(long, env = "INQUEST_SHARED_NAMESPACE", default_value = "inquest-system")]
    shared_namespace: String,
    /// A folder with more runbooks: *.md.
    #[arg(long, env = "INQUEST_RUNBOOKS")]
    runbooks: Option<PathBuf>,
    /// Print the structured postmortem instead of the Markdown.
    #[arg(long)]
    json: bool,
}

#[expect(clippy::print_stdout, reason = "the postmortem is this command's output")]
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { target, namespace, question, snapshot, max_tool_calls, max_duration, max_cost_usd, model, shared_namespace, runbooks: folder, json } = args;
    let target =
        target.map(|Target { kind, name }| ObjectRef { api_version: kind.api_version(), kind: kind.kind.to_owned(), namespace: namespace.clone(), name });
    let readers: Arc<dyn Readers> = match &snapshot {
        Some(path) => {
            let text = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
            let snapshot: Snapshot = serde_json::from_slice(&text).with_context(|| format!("{} is not a snapshot", path.display()))?;
            Arc::new(Arc::new(snapshot))
        }
        None => {
            Arc::new(Impersonating { client: kube::Client::try_default().await.context("no cluster: set KUBECONFIG, or give --snapshot")?, impersonate: false })
        }
    };
    let budget = BudgetSpec { max_tool_calls, max_duration: Span(max_duration), max_cost_usd: Usd(max_cost_usd), ..BudgetSpec::default() };
    let caps = Caps::try_from(&budget)?;
    let question = match (&target, question.is_empty()) {
        (Some(t), true) => format!("What is wrong with {} {}?", t.kind, t.name),
        (None, true) => format!("What is wrong in namespace {namespace}?"),
        _ => question,
    };
    let case = Case { namespace: namespace.clone(), question, target, window_minutes: 60 };
    let caller = Caller { tenant: namespace.clone(), service_account: String::new(), subject: "cli".to_owned(), uid: String::new(), role: None };
    let folder = folder.as_deref().map(|f| Folder::open(f).with_context(|| format!("--runbooks {}", f.display()))).transpose()?;
    let books = runbooks::Settings { readers: Some(Arc::clone(&readers)), folder, shared: shared_namespace };
    let tools = LocalTools { registries: vec![tools(readers), runbooks::tools(books)], caller };
    let investigator = Playbooks::with_own(&[])?;
    let catalogue = tools.catalogue();
    let model = model.line()?;
    let mind = model.as_ref().map_or(Mind::Rules, |(_, _, fallback)| Mind::Model { fallback: *fallback });
    let control = Control { caps, suspend: false, cancel: false, mind };
    let store = MemoryStore::default();
    let run = RunId { namespace, name: "local".to_owned(), uid: "local".to_owned() };
    let mut open = store.open(&run).await?;
    let schemas = if model.is_some() { tools.schemas() } else { vec![] };
    let decider = model.as_ref().map(|(chat, line, _)| runner::Model { chat, caller: line });
    let parts = Parts { case: &case, control, investigator: &investigator, model: decider, tools: &tools, catalogue: &catalogue, schemas: &schemas };
    loop {
        let left = caps.duration.saturating_sub(open.journal().active(Timestamp::now()));
        let stepped = tokio::select! {
            stepped = step(open.as_mut(), &parts, &Timestamp::now) => stepped?,
            // The deadline cuts a step short; the next one sees it, and answers.
            () = tokio::time::sleep(left), if !left.is_zero() => Stepped::Again,
        };
        match stepped {
            Stepped::Again => {}
            Stepped::Later(wait) => tokio::time::sleep(wait).await,
            Stepped::Waiting | Stepped::Finished => break,
        }
    }
    let Some((stop, post)) = postmortem(&case, open.journal()) else { bail!("the run ended without a conclusion") };
    if json {
        println!("{}", serde_json::to_string_pretty(&post)?);
    } else {
        let used = usage(open.journal(), Timestamp::now());
        let by = match (&model, open.journal().fell_back()) {
            (None, _) => "playbook".to_owned(),
            (Some((chat, ..)), None) => format!("chat ({})", chat.name),
            (Some((chat, ..)), Some(_)) => format!("playbook (in place of {})", chat.name),
        };
        println!("{}", report::markdown(&case.question, &post, stop, &used, &by));
    }
    Ok(match (stop, post.outcome) {
        (StopReason::Done, Outcome::RootCauseFound | Outcome::Healthy) => ExitCode::SUCCESS,
        (StopReason::Done, Outcome::Inconclusive) => ExitCode::from(3),
        _ => ExitCode::from(4),
    })
}

/// `kind/name`.
#[derive(Clone, Debug)]
struct Target {
    kind: &'static Kind,
    name: String,
}

fn parse_target(text: &str) -> Result<Target, String> {
    let (kind, name) = text.split_once('/').ok_or("write kind/name, as in deployment/payments-api")?;
    let kind = kinds::find(kind).ok_or_else(|| format!("{kind:?} is not a kind that can be looked at"))?;
    Ok(Target { kind, name: object_name("name", name).map_err(|e| e.to_string())? })
}
