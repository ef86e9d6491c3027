//! The seven tools: from arguments to one JSON object each.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    args::{self, Get, Logs, Scope},
    describe, edges, events, json,
    kinds::{self, Kind},
    logs, problems, rollout,
    source::{Readers, Source},
    world::World,
};
use crate::tools::server::{Caller, Refusal, Registry, ToolSpec, label_name};

/// One call. Under the 10 s that a ToolServer allows by default, so that the caller gets the reason and not a timeout.
const DEADLINE: Duration = Duration::from_secs(8);
/// One result. Under the 32 KiB that a ToolServer allows by default.
const MAX_BYTES: usize = 30_000;
/// Names of objects that were looked at.
const NAMES: usize = 100;
/// The kinds that people ask about.
const NAMED: &[&str] =
    &["Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "Service", "Ingress", "HorizontalPodAutoscaler", "PersistentVolumeClaim", "Pod"];
/// Rows of a list.
const ROWS: usize = 100;

/// The tools, reading through `readers`.
pub fn tools(readers: Arc<dyn Readers>) -> Registry {
    let specs = vec![
        ToolSpec::over(
            &readers,
            "find_problems",
            "Every unhealthy object of a namespace, or of one object and what belongs to it, with the exact reason, message, count and time. Call it first.",
            |r, c, a: Scope| find_problems(r.reader(&c), c, a),
        ),
        ToolSpec::over(
            &readers,
            "related_objects",
            "What an object owns, selects, mounts, takes its environment from, runs on, routes to or is scaled by.",
            |r, c, a: Scope| related_objects(r.reader(&c), c, a),
        ),
        ToolSpec::over(&readers, "kubectl_events", "Events of a namespace or of one object, newest first.", |r, c, a: Scope| {
            kubectl_events(r.reader(&c), c, a)
        }),
        ToolSpec::over(&readers, "kubectl_get", "A row for each object of a kind, or one object. Secrets are never read.", |r, c, a: Get| {
            kubectl_get(r.reader(&c), c, a)
        }),
        ToolSpec::over(&readers, "kubectl_describe", "One object with its events.", |r, c, a: Get| kubectl_describe(r.reader(&c), c, a)),
        ToolSpec::over(
            &readers,
            "kubectl_logs",
            "The last lines of a container's log; with previous, of the container before the last restart.",
            |r, c, a: Logs| kubectl_logs(r.reader(&c), c, a),
        ),
        ToolSpec::over(
            &readers,
            "rollout_history",
            "The revisions of a Deployment, StatefulSet or DaemonSet, and what the last one changed.",
            |r, c, a: Get| rollout_history(r.reader(&c), c, a),
        ),
    ];
    Registry::new("kubernetes", specs, DEADLINE, MAX_BYTES)
}

async fn find_problems(source: Arc<dyn Source>, caller: Caller, scope: Scope) -> Result<Value, Refusal> {
    let namespace = args::namespace(&scope.namespace, &caller)?;
    let target = scope.target()?;
    let world = World::load(source.as_ref(), &namespace).await?;
    let found = problems::find(&world, target.as_ref(), scope.window());
    let open = found.problems.iter().filter(|p| !p.over && !p.notice).count();
    let place = target.as_ref().map_or_else(|| format!("namespace {namespace}"), |(k, n)| format!("{k} {namespace}/{n}"));
    let denied = world.denied_json();
    // Healthy only where the lists that would show a fault were read to their end.
    // Which lists: every one of the namespace that a fault could stand in, and the target's own.
    let complete = kinds::KINDS.iter().filter(|k| k.namespaced && World::reads(k)).all(|k| world.saw_all(k.kind) || !world.serves(k.kind))
        && target.as_ref().is_none_or(|(kind, _)| world.saw_all(kind));
    let seen = if complete { "all of them listed completely" } else { "not all of them could be listed" };
    let mut result = json!({
        "summary": format!("{place}: {open} problems in {} objects, {seen}", found.objects),
        "namespace": namespace, "complete": complete, "problems": found.problems,
    });
    if let Some((kind, name)) = &target {
        result["target"] = json!({"kind": kind, "name": name, "namespace": namespace});
    }
    // What was looked at: the frame of the target, or what a question about the namespace may name.
    let names: Vec<String> = match &found.scope {
        Some(scope) => scope.iter().filter(|(k, _)| !["Event", "ReplicaSet"].contains(&k.as_str())).map(|(k, n)| format!("{k}/{n}")).take(NAMES).collect(),
        None => NAMED.iter().flat_map(|k| world.all(k).iter().map(move |o| format!("{k}/{}", json::name(o)))).take(NAMES).collect(),
    };
    result["objects"] = json!(names);
    if !denied.is_empty() {
        result["denied"] = json!(denied);
    }
    if !world.cut.is_empty() {
        result["cut"] = json!(format!("only the first objects were read of: {}", world.cut.join(", ")));
    }
    Ok(result)
}

async fn related_objects(source: Arc<dyn Source>, caller: Caller, scope: Scope) -> Result<Value, Refusal> {
    let namespace = args::namespace(&scope.namespace, &caller)?;
    let target = scope.target()?;
    let world = World::load(source.as_ref(), &namespace).await?;
    let found = match &target {
        Some(target) => edges::touching(&world, &edges::scope(&world, target)),
        None => edges::all(&world),
    };
    let place = target.as_ref().map_or_else(|| format!("namespace {namespace}"), |(k, n)| format!("{k} {namespace}/{n}"));
    let mut result = json!({"summary": format!("{place}: {} relations", found.len()), "namespace": namespace, "complete": world.denied.is_empty() && world.cut.is_empty(), "edges": found});
    let denied = world.denied_json();
    if !denied.is_empty() {
        result["denied"] = json!(denied);
    }
    Ok(result)
}

async fn kubectl_events(source: Arc<dyn Source>, caller: Caller, scope: Scope) -> Result<Value, Refusal> {
    let namespace = args::namespace(&scope.namespace, &caller)?;
    let target = scope.target()?;
    let world = World::load(source.as_ref(), &namespace).await?;
    if let Some((_, refusal)) = world.denied.iter().find(|(k, _)| k.kind == "Event") {
        return Err(refusal.clone());
    }
    let about = target.as_ref().map(|(k, n)| (k.as_str(), n.as_str()));
    let rows = events::list(&world, about, scope.window());
    Ok(json!({"summary": format!("{} events", rows.len()), "namespace": namespace, "complete": world.saw_all("Event"), "events": rows}))
}

async fn read(source: &dyn Source, kind: &'static Kind, namespace: &str, name: &str) -> Result<Value, Refusal> {
    let mut object = source.get(kind, kind.namespaced.then_some(namespace), name).await?;
    object["kind"] = json!(kind.kind);
    Ok(object)
}

async fn kubectl_get(source: Arc<dyn Source>, caller: Caller, get: Get) -> Result<Value, Refusal> {
    let namespace = args::namespace(&get.namespace, &caller)?;
    let kind = args::kind(&get.kind)?;
    if !get.name.is_empty() {
        let object = read(source.as_ref(), kind, &namespace, &args::name(&get.name)?).await?;
        return Ok(json!({"summary": format!("{} {}", kind.kind, get.name), "object": describe::projection(object)}));
    }
    let mut list = source.list(kind, kind.namespaced.then_some(&namespace)).await?;
    let total = list.items.len();
    let complete = list.complete && total <= ROWS;
    list.items.truncate(ROWS);
    let rows: Vec<Value> = list
        .items
        .iter_mut()
        .map(|o| {
            o["kind"] = json!(kind.kind);
            describe::row(source.now(), o)
        })
        .collect();
    let more = if list.complete { String::new() } else { " or more".to_owned() };
    Ok(json!({"summary": format!("{total}{more} {}", kind.plural), "kind": kind.kind, "namespace": namespace, "complete": complete, "items": rows}))
}

async fn kubectl_describe(source: Arc<dyn Source>, caller: Caller, get: Get) -> Result<Value, Refusal> {
    let namespace = args::namespace(&get.namespace, &caller)?;
    let kind = args::kind(&get.kind)?;
    let name = args::name(&get.name)?;
    let world = World::load(source.as_ref(), &namespace).await?;
    let object = match read(source.as_ref(), kind, &namespace, &name).await {
        Ok(object) => object,
        Err(Refusal::NotFound { what }) => {
            let else_where = describe::where_else(&world, &name);
            let hint = if else_where.is_empty() { String::new() } else { format!("; there is {}", else_where.join(", ")) };
            return Err(Refusal::NotFound { what: format!("{what}{hint}") });
        }
        Err(refusal) => return Err(refusal),
    };
    let rows = events::list(&world, Some((kind.kind, &name)), Scope::default().window());
    Ok(json!({"summary": format!("{} {namespace}/{name} with {} events", kind.kind, rows.len()), "object": describe::projection(object), "events": rows}))
}

async fn kubectl_logs(source: Arc<dyn Source>, caller: Caller, wanted: Logs) -> Result<Value, Refusal> {
    let namespace = args::namespace(&wanted.namespace, &caller)?;
    let name = args::name(&wanted.pod)?;
    let Some(kind) = kinds::find("Pod") else { return Err(Refusal::Internal("no pods".to_owned())) };
    let pod = read(source.as_ref(), kind, &namespace, &name).await?;
    let names: Vec<&str> = ["/spec/initContainers", "/spec/containers"].iter().flat_map(|p| json::list(&pod, p)).map(|c| json::text(c, "/name")).collect();
    let container = if wanted.container.is_empty() {
        failing(&pod).or_else(|| json::list(&pod, "/spec/containers").first().map(|c| json::text(c, "/name"))).unwrap_or_default().to_owned()
    } else {
        label_name("container", &wanted.container)?
    };
    if !names.contains(&container.as_str()) {
        return Err(Refusal::InvalidArgument {
            field: "container",
            problem: format!("{container:?} is not a container of {name}; it has {}", names.join(", ")),
        });
    }
    let tail = if wanted.tail == 0 { 60 } else { wanted.tail.min(500) };
    logs::read(source.as_ref(), &pod, &container, wanted.previous, tail).await
}

/// The first container that is not well.
fn failing(pod: &Value) -> Option<&str> {
    ["/status/initContainerStatuses", "/status/containerStatuses"]
        .iter()
        .flat_map(|p| json::list(pod, p))
        .find(|s| !json::flag(s, "/ready") && json::int(s, "/state/terminated/exitCode") != Some(0))
        .map(|s| json::text(s, "/name"))
}

async fn rollout_history(source: Arc<dyn Source>, caller: Caller, get: Get) -> Result<Value, Refusal> {
    let namespace = args::namespace(&get.namespace, &caller)?;
    let kind = args::kind(&get.kind)?;
    if !["Deployment", "StatefulSet", "DaemonSet"].contains(&kind.kind) {
        return Err(Refusal::InvalidArgument { field: "kind", problem: format!("{} has no rollouts: use Deployment, StatefulSet or DaemonSet", kind.kind) });
    }
    let object = read(source.as_ref(), kind, &namespace, &args::name(&get.name)?).await?;
    let (mut sets, mut revisions) = (vec![], vec![]);
    let wanted = if kind.kind == "Deployment" { "ReplicaSet" } else { "ControllerRevision" };
    if let Some(history) = kinds::find(wanted) {
        let items = source.list(history, Some(&namespace)).await?.items;
        if wanted == "ReplicaSet" { sets = items } else { revisions = items }
    }
    let found = rollout::revisions(json::text(&object, "/metadata/uid"), kind.kind, &sets, &revisions);
    let rows: Vec<Value> = found
        .iter()
        .take(10)
        .map(|(number, r)| {
            let images: Vec<&str> = json::list(r, "/template/spec/containers").iter().map(|c| json::text(c, "/image")).collect();
            json!({
                "revision": number, "name": json::text(r, "/object/metadata/name"), "created": json::text(r, "/object/metadata/creationTimestamp"),
                "ready": r.pointer("/object/status/readyReplicas"), "wanted": r.pointer("/object/spec/replicas"), "images": images,
                "changeCause": json::text(r, "/object/metadata/annotations/kubernetes.io~1change-cause"),
            })
        })
        .collect();
    let changed = match found.as_slice() {
        [(_, new), (_, old), ..] => rollout::diff(&old["template"], &new["template"]),
        _ => vec![],
    };
    Ok(json!({
        "summary": format!("{} {namespace}/{}: {} revisions, {} changes in the last", kind.kind, get.name, found.len(), changed.len()),
        "namespace": namespace, "kind": kind.kind, "name": get.name, "complete": true, "revisions": rows, "changes": changed,
    }))
}
