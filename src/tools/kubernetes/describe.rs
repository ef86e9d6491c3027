//! One object, without what nobody reads; many objects, a row each.

use serde_json::{Value, json};

use super::{json, world::World};

/// Fields that say nothing to an investigator.
const NOISE: &[&str] = &["managedFields", "resourceVersion", "uid", "selfLink", "generateName"];

/// The object without server bookkeeping; ConfigMap values shown by size unless short.
pub fn projection(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in NOISE {
            metadata.shift_remove(*field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.shift_remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    if let Some(map) = object.as_object_mut() {
        map.shift_remove("binaryData");
    }
    if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) {
        for value in data.values_mut() {
            if let Some(long) = value.as_str().filter(|s| s.len() > 2000) {
                *value = json!(format!("{}… ({} bytes in all)", long.chars().take(1000).collect::<String>(), long.len()));
            }
        }
    }
    object
}

/// What `kubectl get` would print of an object, as a JSON object.
pub fn row(world_now: jiff::Timestamp, object: &Value) -> Value {
    let age = json::time(object, "/metadata/creationTimestamp").map(|t| format!("{} s", world_now.duration_since(t).as_secs()));
    let mut row = json!({"name": json::name(object), "age": age});
    let kind = json::text(object, "/kind");
    let mut put = |key: &str, value: Value| row[key] = value;
    let status = |p: &str| object.pointer(p).cloned().unwrap_or(Value::Null);
    match kind {
        "Pod" => {
            let statuses = json::list(object, "/status/containerStatuses");
            let ready = statuses.iter().filter(|s| json::flag(s, "/ready")).count();
            put("ready", json!(format!("{ready}/{}", json::list(object, "/spec/containers").len())));
            put("status", json!(pod_status(object)));
            put("restarts", json!(statuses.iter().filter_map(|s| json::int(s, "/restartCount")).sum::<i64>()));
            put("node", status("/spec/nodeName"));
            put("ip", status("/status/podIP"));
            put("labels", json!(json::labels(object, "/metadata/labels")));
        }
        "Deployment" | "StatefulSet" | "ReplicaSet" => {
            put("ready", json!(format!("{}/{}", json::int(object, "/status/readyReplicas").unwrap_or(0), json::int(object, "/spec/replicas").unwrap_or(1))));
            let images: Vec<&str> = json::list(object, "/spec/template/spec/containers").iter().map(|c| json::text(c, "/image")).collect();
            put("images", json!(images));
        }
        "Service" => {
            put("type", status("/spec/type"));
            put("clusterIP", status("/spec/clusterIP"));
            put("selector", json!(json::labels(object, "/spec/selector")));
            put("ports", status("/spec/ports"));
        }
        "PersistentVolumeClaim" | "PersistentVolume" | "Namespace" => put("status", status("/status/phase")),
        "Job" => {
            put("succeeded", status("/status/succeeded"));
            put("failed", status("/status/failed"));
        }
        "CronJob" => {
            put("schedule", status("/spec/schedule"));
            put("suspend", status("/spec/suspend"));
            put("lastSchedule", status("/status/lastScheduleTime"));
        }
        "Node" => put("ready", json!(json::condition(object, "Ready").map(|c| json::text(c, "/status")))),
        "EndpointSlice" => put("endpoints", json!(json::list(object, "/endpoints").len())),
        "HorizontalPodAutoscaler" => {
            put("replicas", status("/status/currentReplicas"));
            put("max", status("/spec/maxReplicas"));
        }
        "ResourceQuota" => {
            put("hard", status("/status/hard"));
            put("used", status("/status/used"));
        }
        _ => {}
    }
    row
}

fn pod_status(pod: &Value) -> String {
    let waiting = json::list(pod, "/status/initContainerStatuses")
        .iter()
        .chain(json::list(pod, "/status/containerStatuses"))
        .find_map(|s| Some(json::text(s, "/state/waiting/reason")).filter(|r| !r.is_empty()));
    let reason = Some(json::text(pod, "/status/reason")).filter(|r| !r.is_empty());
    waiting.or(reason).unwrap_or(json::text(pod, "/status/phase")).to_owned()
}

/// The kinds of the world that hold an object of this name, for "not found".
pub fn where_else(world: &World, name: &str) -> Vec<String> {
    ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Service", "Pod", "Ingress"]
        .iter()
        .filter(|k| world.find(k, name).is_some())
        .map(|k| format!("{k}/{name}"))
        .collect()
}
