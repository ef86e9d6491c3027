//! The tools: from arguments to one JSON object each.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Prometheus, Queries, deploys,
    logs::{self, Level},
    prometheus::Range,
    series,
};
use crate::tools::{
    kubernetes::{
        LogQuery, Readers, Source, args,
        json::{self, list, name, text},
        kinds, split_time,
        world::World,
    },
    server::{Caller, Refusal, Registry, ToolSpec, object_name, redact_text},
};

const DEADLINE: Duration = Duration::from_secs(9);
const MAX_BYTES: usize = 30_000;
/// How far back rollouts are looked for, by default and at most.
const DEPLOYS: (u32, u32) = (24 * 60, 30 * 24 * 60);
const DEPLOY_ROWS: usize = 50;
/// And errors.
const ERRORS: (u32, u32) = (60, 24 * 60);
/// Logs that one call reads: pods × containers × (this and the previous one).
const PODS: usize = 10;
const LOGS: usize = 40;
const AT_ONCE: usize = 8;
/// Lines from the end of each.
const TAIL: u32 = 2000;
const GROUPS: usize = 20;
/// And figures.
const FIGURES: (u32, u32) = (60, 7 * 24 * 60);
const SERIES: usize = 20;
/// Points of a series: enough to see a shape.
const POINTS: u32 = 60;

pub struct Settings {
    pub readers: Arc<dyn Readers>,
    /// Without one there is no `query_metrics`.
    pub prometheus: Option<(Prometheus, Queries)>,
}

#[derive(Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields, default)]
struct Deploys {
    /// Empty: the namespace of the investigation.
    namespace: String,
    /// Deployment, StatefulSet or DaemonSet. Empty, with name: all of the namespace.
    kind: String,
    name: String,
    /// How far back, in minutes (1440).
    window_minutes: u32,
}

#[derive(Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields, default)]
struct Errors {
    /// Empty: the namespace of the investigation.
    namespace: String,
    /// Deployment, StatefulSet, DaemonSet, Job, CronJob or Pod.
    kind: String,
    name: String,
    /// How far back, in minutes (60).
    window_minutes: u32,
    /// error (and worse), or warning.
    level: String,
}

#[derive(Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields, default)]
struct Figures {
    /// The name of a query. Empty: which there are.
    query: String,
    /// A workload or a pod. Empty: the whole namespace.
    workload: String,
    /// Empty: the namespace of the investigation.
    namespace: String,
    /// How far back, in minutes (60).
    range_minutes: u32,
}

/// The tools over a cluster, and perhaps a Prometheus.
pub fn tools(settings: Settings) -> Registry {
    let Settings { readers, prometheus } = settings;
    let mut specs = vec![
        ToolSpec::over(
            &readers,
            "recent_deploys",
            "What was rolled out in a namespace or for one workload, newest first: revision, time, images, change cause, and what the template changed.",
            |readers, caller, args: Deploys| async move { recent_deploys(readers.reader(&caller).as_ref(), &caller, args).await },
        ),
        ToolSpec::over(
            &readers,
            "error_logs",
            "Errors in the logs of a workload's pods, current and previous containers, grouped by what they say: count, first and last time, one verbatim sample each.",
            |readers, caller, args: Errors| async move { error_logs(readers.reader(&caller).as_ref(), &caller, args).await },
        ),
    ];
    if let Some((prometheus, queries)) = prometheus {
        let backend = Arc::new((prometheus, queries));
        specs.push(ToolSpec::over(
            &backend,
            "query_metrics",
            "A named query over time for a workload or the namespace: per series min, max, mean, last, where its level changed, and the points.",
            |backend, caller, args: Figures| async move { query_metrics(&backend.0, &backend.1, &caller, args).await },
        ));
    }
    Registry::new("observability", specs, DEADLINE, MAX_BYTES)
}

/// Minutes that were asked for, within what is allowed; 0 is the default.
fn minutes(field: &'static str, given: u32, (default, most): (u32, u32)) -> Result<SignedDuration, Refusal> {
    if given > most {
        return Err(Refusal::InvalidArgument { field, problem: format!("{given} is more than {most} minutes") });
    }
    Ok(SignedDuration::from_mins(i64::from(if given == 0 { default } else { given })))
}

/// Both or neither, and a kind that can be asked for.
fn target(kind: &str, given: &str, allowed: &[&str]) -> Result<Option<(&'static str, String)>, Refusal> {
    match (kind.is_empty(), given.is_empty()) {
        (true, true) => Ok(None),
        (true, false) => Err(Refusal::InvalidArgument { field: "kind", problem: "is missing: a name needs its kind".to_owned() }),
        (false, true) => Err(Refusal::InvalidArgument { field: "name", problem: "is missing: a kind needs a name".to_owned() }),
        (false, false) => {
            let kind = args::kind(kind)?.kind;
            if !allowed.contains(&kind) {
                return Err(Refusal::InvalidArgument { field: "kind", problem: format!("{kind} is none of {}", allowed.join(", ")) });
            }
            Ok(Some((kind, args::name(given)?)))
        }
    }
}

async fn recent_deploys(source: &dyn Source, caller: &Caller, args: Deploys) -> Result<Value, Refusal> {
    const KINDS: [&str; 3] = ["Deployment", "StatefulSet", "DaemonSet"];
    let namespace = args::namespace(&args.namespace, caller)?;
    let since = source.now() - minutes("window_minutes", args.window_minutes, DEPLOYS)?;
    let target = target(&args.kind, &args.name, &KINDS)?;
    let (mut rows, mut complete) = (vec![], true);
    let (sets, revisions) = (all(source, "ReplicaSet", &namespace).await?, all(source, "ControllerRevision", &namespace).await?);
    complete &= sets.1 && revisions.1;
    let mut found = target.is_none();
    for kind in KINDS.into_iter().filter(|k| target.as_ref().is_none_or(|(wanted, _)| wanted == k)) {
        let (workloads, whole) = all(source, kind, &namespace).await?;
        complete &= whole;
        for workload in workloads.iter().filter(|w| target.as_ref().is_none_or(|(_, wanted)| name(w) == wanted)) {
            found = true;
            rows.extend(deploys::of_workload(kind, workload, &sets.0, &revisions.0, since));
        }
    }
    if let (false, Some((kind, name))) = (found, &target) {
        return Err(Refusal::NotFound { what: format!("{kind} {namespace}/{name}") });
    }
    rows.sort_by_key(|(begun, _)| std::cmp::Reverse(*begun));
    let total = rows.len();
    rows.truncate(DEPLOY_ROWS);
    let deploys: Vec<Value> = rows.into_iter().map(|(_, row)| row).collect();
    Ok(json!({
        "summary": format!("{total} rollouts in namespace {namespace} since {since}"), "namespace": namespace, "since": since.to_string(),
        "complete": complete && total <= DEPLOY_ROWS, "deploys": deploys,
    }))
}

async fn all(source: &dyn Source, kind: &str, namespace: &str) -> Result<(Vec<Value>, bool), Refusal> {
    let kind = kinds::find(kind).ok_or_else(|| Refusal::Internal(format!("{kind} is not known")))?;
    let listing = source.list(kind, Some(namespace)).await?;
    Ok((listing.items, listing.complete))
}

/// A log that may be read.
struct Wanted {
    pod: String,
    container: String,
    previous: bool,
}

impl Wanted {
    fn query(&self, namespace: &str) -> LogQuery {
        LogQuery { namespace: namespace.to_owned(), pod: self.pod.clone(), container: self.container.clone(), previous: self.previous, tail: TAIL }
    }
}

async fn error_logs(source: &dyn Source, caller: &Caller, args: Errors) -> Result<Value, Refusal> {
    let namespace = args::namespace(&args.namespace, caller)?;
    let allowed = ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicaSet", "Pod"];
    let target = target(&args.kind, &args.name, &allowed)?;
    let since = source.now() - minutes("window_minutes", args.window_minutes, ERRORS)?;
    let least = match args.level.as_str() {
        "" | "error" => Level::Error,
        "warning" => Level::Warning,
        other => return Err(Refusal::InvalidArgument { field: "level", problem: format!("{other:?} is neither error nor warning") }),
    };
    let world = World::load(source, &namespace).await?;
    if let Some((_, refusal)) = world.denied.iter().find(|(k, _)| k.kind == "Pod") {
        return Err(refusal.clone());
    }
    let belongs = |pod: &Value| match &target {
        None => true,
        Some((kind, wanted)) => {
            *kind == "Pod" && name(pod) == wanted
                || world.workload(pod).is_some_and(|(k, n)| k == *kind && n == *wanted)
                || list(pod, "/metadata/ownerReferences").iter().any(|o| text(o, "/kind") == *kind && text(o, "/name") == wanted)
        }
    };
    let mut pods: Vec<&Value> = world.all("Pod").iter().filter(|p| belongs(p)).collect();
    if let (true, Some((kind, name))) = (pods.is_empty(), &target)
        && world.saw_all("Pod")
        && (*kind == "Pod" || world.find(kind, name).is_none())
    {
        return Err(Refusal::NotFound { what: format!("{kind} {namespace}/{name}") });
    }
    // Those that are not well first, then the newest.
    pods.sort_by_key(|p| (std::cmp::Reverse(restarts(p)), std::cmp::Reverse(text(p, "/metadata/creationTimestamp").to_owned())));
    let all_pods = pods.len();
    pods.truncate(PODS);
    let mut wanted: Vec<Wanted> = pods.iter().flat_map(|p| of_pod(p)).collect();
    let cut = all_pods > PODS || wanted.len() > LOGS;
    wanted.truncate(LOGS);
    let queries: Vec<LogQuery> = wanted.iter().map(|w| w.query(&namespace)).collect();
    // A key over several lines is one secret: it is hidden before the text becomes lines.
    let reads: Vec<_> = queries.iter().map(|q| source.logs(q)).collect();
    let read: Vec<_> = stream::iter(reads).buffered(AT_ONCE).map(|log| log.map(|text| redact_text(&text).0)).collect().await;
    let (mut entries, mut lines, mut unread) = (vec![], 0_usize, vec![]);
    for (wanted, log) in wanted.iter().zip(read) {
        let which = format!("{}/{}{}", wanted.pod, wanted.container, if wanted.previous { " (previous)" } else { "" });
        match log {
            Ok(log) => {
                let of: Vec<_> = log.lines().map(split_time).filter(|(at, _)| at.is_none_or(|at| at >= since)).collect();
                lines += of.len();
                entries.extend(logs::entries(of).into_iter().map(|e| (which.clone(), e)));
            }
            // The container has not started, or its log is gone: a fact.
            Err(Refusal::InvalidArgument { .. } | Refusal::NotFound { .. }) => {}
            Err(refusal) => unread.push(json!({"what": which, "why": refusal.to_string()})),
        }
    }
    let mut groups = logs::grouped(entries.iter().map(|(which, e)| (which.as_str(), e)), least);
    let total = groups.len();
    groups.truncate(GROUPS);
    let place = target.as_ref().map_or_else(|| format!("namespace {namespace}"), |(k, n)| format!("{k} {namespace}/{n}"));
    let mut result = json!({
        "summary": format!("{place}: {total} kinds of errors in {lines} lines of {} containers", wanted.len()),
        "namespace": namespace, "since": since.to_string(), "complete": !cut && total <= GROUPS && unread.is_empty() && world.saw_all("Pod"), "groups": groups,
    });
    if !unread.is_empty() {
        result["denied"] = json!(unread);
    }
    if cut {
        result["cut"] = json!(format!("the logs of {} of {all_pods} pods were read", pods.len()));
    }
    Ok(result)
}

fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    ["/status/initContainerStatuses", "/status/containerStatuses"].into_iter().flat_map(|p| list(pod, p))
}

fn restarts(pod: &Value) -> i64 {
    statuses(pod).filter_map(|s| json::int(s, "/restartCount")).sum()
}

fn of_pod(pod: &Value) -> Vec<Wanted> {
    let wanted = |s: &Value, previous| Wanted { pod: name(pod).to_owned(), container: text(s, "/name").to_owned(), previous };
    statuses(pod)
        .flat_map(|s| {
            let mut both = vec![wanted(s, false)];
            if json::int(s, "/restartCount").unwrap_or(0) > 0 {
                both.push(wanted(s, true));
            }
            both
        })
        .collect()
}

async fn query_metrics(prometheus: &Prometheus, queries: &Queries, caller: &Caller, args: Figures) -> Result<Value, Refusal> {
    let namespace = args::namespace(&args.namespace, caller)?;
    if namespace != caller.tenant {
        return Err(Refusal::denied("cross_tenant_denied", "namespace: only the caller's own can be asked for; leave it out"));
    }
    let known = || -> Vec<Value> {
        queries.queries.iter().map(|q| json!({"query": q.name, "description": q.description, "unit": q.unit, "per_workload": q.needs_workload()})).collect()
    };
    if args.query.is_empty() {
        return Ok(json!({"summary": format!("{} queries", queries.queries.len()), "complete": true, "queries": known()}));
    }
    let Some(query) = queries.find(&args.query) else {
        let names: Vec<&str> = queries.queries.iter().map(|q| q.name.as_str()).collect();
        let problem = format!("query: there is none named {:?}; there are: {}", crate::text::head(&args.query, 60), names.join(", "));
        return Err(Refusal::denied("unknown_query", problem));
    };
    let workload = if args.workload.is_empty() { String::new() } else { object_name("workload", &args.workload)? };
    let span = minutes("range_minutes", args.range_minutes, FIGURES)?;
    let step = u32::try_from(span.as_secs()).unwrap_or(u32::MAX).div_ceil(POINTS).max(15);
    let to = Timestamp::now();
    let promql = query.fill(&namespace, &workload);
    let (series, total) = prometheus.range(&promql, Range { from: to - span, to, step }, SERIES).await?;
    let rows: Vec<Value> = series
        .iter()
        .filter_map(|s| {
            let summary = series::summary(&s.points)?;
            let points: Vec<Value> = s.points.iter().map(|(at, v)| json!([at, if v.is_finite() { json!(series::round(*v)) } else { Value::Null }])).collect();
            Some(json!({"labels": s.labels, "summary": summary, "points": points}))
        })
        .collect();
    let mut result = json!({
        "summary": format!("{}: {total} series over {} minutes, in {}", query.name, span.as_mins(), query.unit),
        "query": query.name, "unit": query.unit, "promql": promql, "namespace": namespace, "from": (to - span).to_string(), "to": to.to_string(), "step_seconds": step,
        "complete": total <= SERIES, "series": rows,
    });
    if total > SERIES {
        result["cut"] = json!(format!("{} of {total} series are shown", SERIES));
    }
    Ok(result)
}
