//! Events about objects: warnings, and the normal ones that announce trouble.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Problem, RECENT, pods};
use crate::tools::kubernetes::{events, json, world::World};

/// Normal events that an expert reads as trouble; a filter on Warning loses them.
const TELLING: &[&str] =
    &["BackOff", "FailedBinding", "Killing", "Preempted", "Preempting", "NodeNotReady", "TaintManagerEviction", "ExternalProvisioning", "WaitForFirstConsumer"];
/// A liveness probe that fails speaks up each period; the longest usual one is shorter than this.
const SILENT: SignedDuration = SignedDuration::from_secs(60);
/// What can hold up the start of a pod.
const STARTING: &[&str] = &["FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "NetworkNotReady"];
/// Warnings that repeat what status says better, or that healthy starts print too.
const EMPTY: &[&str] = &["FailedToRetrieveImagePullSecret"];

pub fn find(world: &World, window: SignedDuration, out: &mut Vec<Problem>) {
    for event in world.all("Event") {
        let reason = json::text(event, "/reason");
        let telling = json::text(event, "/type") != "Normal" || TELLING.contains(&reason);
        let last = events::last_seen(event);
        if !telling || EMPTY.contains(&reason) || last.is_some_and(|t| world.now.duration_since(t) > window) {
            continue;
        }
        let (kind, name) = (json::text(event, "/involvedObject/kind"), json::text(event, "/involvedObject/name"));
        let involved = world.find(kind, name);
        let mut problem = match involved {
            Some(object) => Problem::new(world, object, kind, "event", reason, json::text(event, "/message")),
            None => Problem {
                kind: kind.to_owned(),
                name: name.to_owned(),
                namespace: json::text(event, "/involvedObject/namespace").to_owned(),
                reason: reason.to_owned(),
                message: super::clip(json::text(event, "/message")),
                from: "event".to_owned(),
                ..Problem::default()
            },
        };
        if let Some(container) = container_of(json::text(event, "/involvedObject/fieldPath")) {
            problem = problem.container(container);
        }
        out.push(problem.at(events::first_seen(event), last).times(events::count(event)).over(is_over(world, event, involved, last)));
    }
}

/// An event is history when its object is well now, or gone.
fn is_over(world: &World, event: &Value, involved: Option<&Value>, last: Option<Timestamp>) -> bool {
    let (kind, reason) = (json::text(event, "/involvedObject/kind"), json::text(event, "/reason"));
    let Some(object) = involved else { return world.saw_all(kind) };
    if kind == "Pod" && (STARTING.contains(&reason) && has_started(object) || reason == "FailedScheduling" && !json::text(object, "/spec/nodeName").is_empty())
    {
        return true;
    }
    // Between a kill and the restart the pod may look ready: a failing liveness probe is over when it has been silent for a while.
    let message = json::text(event, "/message").to_ascii_lowercase();
    let silent = last.is_none_or(|t| world.now.duration_since(t) > SILENT);
    if (message.contains("liveness probe") || message.contains("startup probe")) && !silent {
        return false;
    }
    let old = last.is_some_and(|t| world.now.duration_since(t) > RECENT);
    match kind {
        "Pod" => pods::is_well(object) && (old || !pods::is_unsettled(world, object)),
        "Deployment" | "StatefulSet" => json::int(object, "/status/readyReplicas").unwrap_or(0) >= json::int(object, "/spec/replicas").unwrap_or(1),
        "ReplicaSet" => {
            let wanted = json::int(object, "/spec/replicas").unwrap_or(1);
            json::int(object, "/status/replicas").unwrap_or(0) >= wanted
        }
        "PersistentVolumeClaim" => json::text(object, "/status/phase") == "Bound",
        "Job" => json::condition(object, "Complete").is_some_and(|c| json::text(c, "/status") == "True"),
        _ => old,
    }
}

/// Some container of it has run: what held up the start is over.
fn has_started(pod: &Value) -> bool {
    json::list(pod, "/status/containerStatuses")
        .iter()
        .any(|s| s.pointer("/state/running").is_some() || s.pointer("/state/terminated").is_some() || json::int(s, "/restartCount").unwrap_or(0) > 0)
}

/// `spec.containers{app}` → `app`.
fn container_of(path: &str) -> Option<&str> {
    path.split_once('{').and_then(|(_, rest)| rest.strip_suffix('}'))
}
