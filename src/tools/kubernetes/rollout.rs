//! What was rolled out when, and what differs between the last two revisions.

use serde_json::{Value, json};

use super::json;
use crate::tools::server::is_secret_name;

/// Revisions of a Deployment from its ReplicaSets, or of a StatefulSet or DaemonSet from its ControllerRevisions, newest first.
pub fn revisions(owner_uid: &str, owner_kind: &str, sets: &[Value], controller_revisions: &[Value]) -> Vec<(i64, Value)> {
    let owned = |o: &&Value| json::list(o, "/metadata/ownerReferences").iter().any(|r| json::text(r, "/uid") == owner_uid);
    let mut found: Vec<(i64, Value)> = if owner_kind == "Deployment" {
        sets.iter()
            .filter(owned)
            .map(|s| {
                let number = json::text(s, "/metadata/annotations/deployment.kubernetes.io~1revision").parse().unwrap_or(0);
                (number, json!({"object": s, "template": s.pointer("/spec/template")}))
            })
            .collect()
    } else {
        controller_revisions
            .iter()
            .filter(owned)
            .map(|r| (json::int(r, "/revision").unwrap_or(0), json!({"object": r, "template": r.pointer("/data/spec/template")})))
            .collect()
    };
    found.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    found
}

/// The paths at which two templates differ, as `path: before → after`.
pub fn diff(before: &Value, after: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    walk("", before, after, &mut out);
    out
}

fn walk(path: &str, before: &Value, after: &Value, out: &mut Vec<Value>) {
    if before == after || out.len() >= 40 || path.ends_with("pod-template-hash") {
        return;
    }
    match (before, after) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))) {
                walk(&format!("{path}.{key}"), a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null), out);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for at in 0..a.len().max(b.len()) {
                let label =
                    b.get(at).or_else(|| a.get(at)).map(|v| json::text(v, "/name")).filter(|n| !n.is_empty()).map_or_else(|| at.to_string(), str::to_owned);
                walk(&format!("{path}[{label}]"), a.get(at).unwrap_or(&Value::Null), b.get(at).unwrap_or(&Value::Null), out);
            }
        }
        _ => {
            let path = path.trim_start_matches('.');
            // That it changed is a fact; what it was and is, is nobody's.
            let hidden = json!("[redacted:secret]");
            let (before, after) = if names_a_secret(path) { (&hidden, &hidden) } else { (before, after) };
            out.push(json!({"path": path, "before": before, "after": after, "text": format!("{path}: {} -> {}", plain(before), plain(after))}));
        }
    }
}

/// `…env[DB_PASSWORD].value`, or a key that is named like one.
fn names_a_secret(path: &str) -> bool {
    let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
    let label = parent.rsplit_once('[').map_or("", |(_, label)| label.trim_end_matches(']'));
    is_secret_name(key) || key == "value" && is_secret_name(label)
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "(absent)".to_owned(),
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}
