//! How objects hang together: owns, selects, mounts, env from, runs on, routes to, scales.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{json, problems::Key, world::World};

/// `from` stands in this relation to `to`; both as `Kind/name`.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    pub from: String,
    pub relation: String,
    pub to: String,
    /// Whether `to` is there: `false` only where the list that would hold it was read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
}

/// Relations that lead from a thing to what is part of it or what it serves through.
const DOWN: &[&str] = &["owns", "selects", "routesTo", "mounts", "claims"];
/// Relations whose source is part of the picture of its target.
const UP: &[&str] = &["owns", "scales", "protects"];

/// Every edge of the world.
pub fn all(world: &World) -> Vec<Edge> {
    let mut edges = BTreeSet::new();
    let mut add = |from: (&str, &str), relation: &str, to: (&str, &str)| {
        let exists = world.saw_all(to.0).then(|| world.find(to.0, to.1).is_some());
        edges.insert(Edge { from: format!("{}/{}", from.0, from.1), relation: relation.to_owned(), to: format!("{}/{}", to.0, to.1), exists });
    };
    for kind in ["Pod", "ReplicaSet", "Job", "PersistentVolumeClaim"] {
        for object in world.all(kind) {
            for owner in json::list(object, "/metadata/ownerReferences") {
                add((json::text(owner, "/kind"), json::text(owner, "/name")), "owns", (kind, json::name(object)));
            }
        }
    }
    for pod in world.all("Pod") {
        let from = ("Pod", json::name(pod));
        let node = json::text(pod, "/spec/nodeName");
        if !node.is_empty() {
            add(from, "runsOn", ("Node", node));
        }
        add(from, "runsAs", ("ServiceAccount", Some(json::text(pod, "/spec/serviceAccountName")).filter(|s| !s.is_empty()).unwrap_or("default")));
        references(pod.pointer("/spec").unwrap_or(&Value::Null), |relation, kind, name| add(from, relation, (kind, name)));
    }
    // A workload whose pods could not be made still says what they would use.
    for kind in ["Deployment", "StatefulSet", "DaemonSet", "Job"] {
        for object in world.all(kind) {
            references(object.pointer("/spec/template/spec").unwrap_or(&Value::Null), |relation, to, name| {
                add((kind, json::name(object)), relation, (to, name));
            });
        }
    }
    for service in world.all("Service") {
        for pod in world.all("Pod").iter().filter(|p| json::selects(service, "/spec/selector", p)) {
            add(("Service", json::name(service)), "selects", ("Pod", json::name(pod)));
        }
        for kind in ["Deployment", "StatefulSet", "DaemonSet"] {
            for object in world.all(kind) {
                let labels = serde_json::json!({"metadata": {"labels": object.pointer("/spec/template/metadata/labels")}});
                if json::selects(service, "/spec/selector", &labels) {
                    add(("Service", json::name(service)), "selects", (kind, json::name(object)));
                }
            }
        }
    }
    for ingress in world.all("Ingress") {
        let paths = json::list(ingress, "/spec/rules").iter().flat_map(|r| json::list(r, "/http/paths")).filter_map(|p| p.pointer("/backend/service/name"));
        for name in paths.chain(ingress.pointer("/spec/defaultBackend/service/name")).filter_map(Value::as_str) {
            add(("Ingress", json::name(ingress)), "routesTo", ("Service", name));
        }
    }
    for hpa in world.all("HorizontalPodAutoscaler") {
        add(
            ("HorizontalPodAutoscaler", json::name(hpa)),
            "scales",
            (json::text(hpa, "/spec/scaleTargetRef/kind"), json::text(hpa, "/spec/scaleTargetRef/name")),
        );
    }
    for (kind, relation, selector) in [("PodDisruptionBudget", "protects", "/spec/selector"), ("NetworkPolicy", "restricts", "/spec/podSelector")] {
        for object in world.all(kind) {
            let Some(selector) = object.pointer(selector) else { continue };
            for pod in world.all("Pod").iter().filter(|p| json::selects_by(selector, p)) {
                add((kind, json::name(object)), relation, ("Pod", json::name(pod)));
            }
        }
    }
    for claim in world.all("PersistentVolumeClaim") {
        let from = ("PersistentVolumeClaim", json::name(claim));
        let (volume, class) = (json::text(claim, "/spec/volumeName"), json::text(claim, "/spec/storageClassName"));
        if !volume.is_empty() {
            add(from, "claims", ("PersistentVolume", volume));
        }
        if !class.is_empty() {
            add(from, "provisionedBy", ("StorageClass", class));
        }
    }
    edges.into_iter().collect()
}

/// ConfigMaps, Secrets and claims that a pod template refers to.
fn references(spec: &Value, mut add: impl FnMut(&str, &str, &str)) {
    for volume in json::list(spec, "/volumes") {
        for (pointer, kind) in
            [("/configMap/name", "ConfigMap"), ("/secret/secretName", "Secret"), ("/persistentVolumeClaim/claimName", "PersistentVolumeClaim")]
        {
            let name = json::text(volume, pointer);
            if !name.is_empty() {
                add("mounts", kind, name);
            }
        }
    }
    for field in ["/initContainers", "/containers"] {
        for container in json::list(spec, field) {
            for from in json::list(container, "/envFrom") {
                for (pointer, kind) in [("/configMapRef/name", "ConfigMap"), ("/secretRef/name", "Secret")] {
                    if !json::text(from, pointer).is_empty() {
                        add("envFrom", kind, json::text(from, pointer));
                    }
                }
            }
            for variable in json::list(container, "/env") {
                for (pointer, kind) in [("/valueFrom/configMapKeyRef/name", "ConfigMap"), ("/valueFrom/secretKeyRef/name", "Secret")] {
                    if !json::text(variable, pointer).is_empty() {
                        add("envFrom", kind, json::text(variable, pointer));
                    }
                }
            }
        }
    }
}

/// The objects that belong to the picture of one: its controllers and what they own, its pods, its claims, what scales it.
/// Shared things (a node, a ConfigMap, a quota) lead to no one else's objects.
pub fn scope(world: &World, target: &Key) -> BTreeSet<Key> {
    let edges = all(world);
    let mut scope = BTreeSet::from([target.clone()]);
    let mut open = vec![format!("{}/{}", target.0, target.1)];
    let mut seen = BTreeSet::from([open[0].clone()]);
    while let Some(here) = open.pop() {
        for edge in &edges {
            let down = edge.from == here && DOWN.contains(&edge.relation.as_str());
            let up = edge.to == here && UP.contains(&edge.relation.as_str());
            let next = if down {
                &edge.to
            } else if up {
                &edge.from
            } else {
                continue;
            };
            let Some((kind, name)) = next.split_once('/') else { continue };
            scope.insert((kind.to_owned(), name.to_owned()));
            let shared = ["ConfigMap", "Secret", "Node", "PersistentVolume", "PodDisruptionBudget"].contains(&kind);
            if !shared && seen.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    // Events are told of pods that are gone, too; their names begin with their owner's.
    for event in world.all("Event") {
        let (kind, name) = (json::text(event, "/involvedObject/kind"), json::text(event, "/involvedObject/name"));
        let of_ours = scope
            .iter()
            .any(|(k, n)| ["ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Deployment"].contains(&k.as_str()) && name.starts_with(&format!("{n}-")));
        if of_ours && kind == "Pod" && world.find("Pod", name).is_none() {
            scope.insert((kind.to_owned(), name.to_owned()));
        }
    }
    scope
}

/// The edges that touch one of these objects.
pub fn touching(world: &World, scope: &BTreeSet<Key>) -> Vec<Edge> {
    let names: BTreeSet<String> = scope.iter().map(|(k, n)| format!("{k}/{n}")).collect();
    all(world).into_iter().filter(|e| names.contains(&e.from) || names.contains(&e.to)).collect()
}
