//! What was rolled out, when, and what it changed: from a workload, its ReplicaSets or its ControllerRevisions.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::tools::kubernetes::{json, rollout};

/// Changes that one rollout shows.
const CHANGES: usize = 20;

/// Rollouts of a workload that began at `since` or later, newest first. Each with what it changed against the one before.
pub fn of_workload(kind: &str, workload: &Value, sets: &[Value], controller_revisions: &[Value], since: Timestamp) -> Vec<(Timestamp, Value)> {
    let found = rollout::revisions(json::text(workload, "/metadata/uid"), kind, sets, controller_revisions);
    let mut out = vec![];
    for (at, (number, revision)) in found.iter().enumerate() {
        let is_current = at == 0;
        let Some((begun, rolled_back)) = begin_of(kind, workload, &revision["object"], is_current) else { continue };
        if begun < since {
            continue;
        }
        let mut changes = found.get(at + 1).map_or_else(Vec::new, |(_, before)| rollout::diff(&before["template"], &revision["template"]));
        let total = changes.len();
        changes.truncate(CHANGES);
        let images: Vec<&str> = json::list(revision, "/template/spec/containers").iter().map(|c| json::text(c, "/image")).collect();
        let name = json::name(workload);
        let first = at + 1 == found.len();
        let what = match changes.first() {
            Some(change) if total == 1 => json::text(change, "/text").to_owned(),
            Some(change) => format!("{} and {} more", json::text(change, "/text"), total - 1),
            None if first => "the first that is kept".to_owned(),
            None => "nothing in the template".to_owned(),
        };
        let mut row = json!({
            "workload": format!("{kind}/{name}"), "revision": number, "begun": begun.to_string(), "images": images, "changes": changes,
            "text": format!("{kind} {name} revision {number}: {what}"),
        });
        for (key, pointer) in [("ready", "/object/status/readyReplicas"), ("wanted", "/object/spec/replicas")] {
            if let Some(count) = json::int(revision, pointer) {
                row[key] = json!(count);
            }
        }
        let cause = json::text(revision, "/object/metadata/annotations/kubernetes.io~1change-cause");
        if !cause.is_empty() {
            row["change_cause"] = json!(cause);
        }
        if rolled_back {
            row["rolled_back_to"] = json!(true);
        }
        if total > CHANGES {
            row["cut"] = json!(format!("{} more changes", total - CHANGES));
        }
        out.push((begun, row));
    }
    out
}

/// A rollback takes an old ReplicaSet again, whose own age says nothing: the Deployment's condition says when it was taken.
fn begin_of(kind: &str, workload: &Value, object: &Value, is_current: bool) -> Option<(Timestamp, bool)> {
    let made = json::time(object, "/metadata/creationTimestamp")?;
    let used_before = !json::text(object, "/metadata/annotations/deployment.kubernetes.io~1revision-history").is_empty();
    if kind == "Deployment" && is_current && used_before {
        let taken = json::condition(workload, "Progressing").and_then(|c| json::time(c, "/lastUpdateTime"));
        return Some((taken.unwrap_or(made), true));
    }
    Some((made, false))
}
