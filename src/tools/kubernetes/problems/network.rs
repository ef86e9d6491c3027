//! Services without ready endpoints, ports that lead nowhere, Ingresses whose backend is not there.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Problem, SETTLE, pods};
use crate::tools::kubernetes::{json, world::World};

pub fn find(world: &World, out: &mut Vec<Problem>) {
    for service in world.all("Service") {
        of_service(world, service, out);
    }
    for ingress in world.all("Ingress") {
        of_ingress(world, ingress, out);
    }
}

fn of_service(world: &World, service: &Value, out: &mut Vec<Problem>) {
    let name = json::name(service);
    if json::text(service, "/spec/type") == "LoadBalancer" && json::list(service, "/status/loadBalancer/ingress").is_empty() {
        let age = json::time(service, "/metadata/creationTimestamp").map(|t| world.now.duration_since(t));
        if age.is_none_or(|a| a > SETTLE) {
            out.push(Problem::new(
                world,
                service,
                "Service",
                "status",
                "LoadBalancerPending",
                "no load balancer has given it an address: status.loadBalancer is empty",
            ));
        }
    }
    let selector = json::labels(service, "/spec/selector");
    if json::text(service, "/spec/type") == "ExternalName" || selector.is_empty() {
        return;
    }
    let selected: Vec<&Value> = world.all("Pod").iter().filter(|p| json::selects(service, "/spec/selector", p) && !done(p)).collect();
    if selected.is_empty() {
        if world.saw_all("Pod") {
            let message = match closest(world, service) {
                Some(near) => format!("the selector {selector} matches no pod; {near}"),
                None => format!("the selector {selector} matches no pod"),
            };
            out.push(Problem::new(world, service, "Service", "spec", "SelectorMatchesNoPod", message));
        }
        return;
    }
    let ready = selected.iter().filter(|p| pods::is_well(p)).count();
    if ready == 0 {
        let names: Vec<&str> = selected.iter().map(|p| json::name(p)).take(4).collect();
        let message = format!("none of the {} pods that the selector {selector} matches is ready: {}", selected.len(), names.join(", "));
        out.push(Problem::new(world, service, "Service", "status", "NoReadyEndpoints", message));
    }
    ports(world, service, &selected, out);
    let workloads: BTreeSet<_> = selected.iter().filter_map(|p| world.workload(p)).collect();
    if workloads.len() > 1 {
        let names: Vec<String> = workloads.iter().map(|(k, n)| format!("{k} {n}")).collect();
        out.push(
            Problem::new(
                world,
                service,
                "Service",
                "spec",
                "SelectsSeveralWorkloads",
                format!("the selector {selector} matches pods of {}, so {name} sends requests to all of them", names.join(" and ")),
            )
            .notice(),
        );
    }
}

/// A targetPort that the selected pods do not declare, where they declare any.
fn ports(world: &World, service: &Value, selected: &[&Value], out: &mut Vec<Problem>) {
    let declared: Vec<&Value> = selected.iter().flat_map(|p| json::list(p, "/spec/containers")).flat_map(|c| json::list(c, "/ports")).collect();
    for port in json::list(service, "/spec/ports") {
        let number = json::int(port, "/port").unwrap_or_default();
        let target = port.pointer("/targetPort");
        let listed = || {
            declared
                .iter()
                .map(|p| format!("{} {}", json::int(p, "/containerPort").unwrap_or_default(), json::text(p, "/name")).trim().to_owned())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
                .join(", ")
        };
        match target {
            Some(Value::String(named)) if !declared.iter().any(|p| json::text(p, "/name") == named) => {
                let have = if declared.is_empty() { "they declare no ports".to_owned() } else { format!("they declare {}", listed()) };
                out.push(Problem::new(
                    world,
                    service,
                    "Service",
                    "spec",
                    "TargetPortUnknown",
                    format!("port {number} leads to the container port named {named}, which no selected pod declares; {have}"),
                ));
            }
            Some(Value::Number(to)) if !declared.is_empty() && !declared.iter().any(|p| json::int(p, "/containerPort") == to.as_i64()) => {
                out.push(Problem::new(
                    world,
                    service,
                    "Service",
                    "spec",
                    "TargetPortMismatch",
                    format!("port {number} leads to targetPort {to}, and the selected pods declare {}", listed()),
                ));
            }
            _ => {}
        }
    }
}

/// The pods whose labels come nearest to a selector that matches none.
fn closest(world: &World, service: &Value) -> Option<String> {
    let wanted: Vec<(&str, &Value)> = json::map(service, "/spec/selector").collect();
    let name = json::name(service);
    let score = |pod: &Value| -> (usize, String) {
        let labels = pod.pointer("/metadata/labels");
        let same = wanted.iter().filter(|(k, v)| labels.and_then(|l| l.get(*k)) == Some(v)).count();
        let keys = wanted.iter().filter(|(k, _)| labels.and_then(|l| l.get(*k)).is_some()).count();
        let named = usize::from(world.workload(pod).is_some_and(|(_, w)| w.contains(name) || name.contains(&w)));
        // A shared key alone says nothing: every pod has an `app`.
        let near = usize::from(same + named > 0);
        (near * (same * 4 + named * 3 + keys), json::name(pod).to_owned())
    };
    let pod = world.all("Pod").iter().filter(|p| !done(p)).max_by_key(|p| score(p))?;
    if score(pod).0 == 0 {
        return None;
    }
    let owner = world.workload(pod).map_or_else(|| format!("Pod {}", json::name(pod)), |(k, n)| format!("{k} {n}"));
    let labels: Vec<String> = json::map(pod, "/metadata/labels")
        .filter(|(k, _)| !k.contains("hash") && !k.starts_with("batch.kubernetes.io"))
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
        .collect();
    Some(format!("the pods of {owner} are labelled {}", labels.join(",")))
}

fn done(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&json::text(pod, "/status/phase"))
}

fn of_ingress(world: &World, ingress: &Value, out: &mut Vec<Problem>) {
    let paths = json::list(ingress, "/spec/rules").iter().flat_map(|r| json::list(r, "/http/paths")).filter_map(|p| p.pointer("/backend/service"));
    let backends: Vec<&Value> = paths.chain(ingress.pointer("/spec/defaultBackend/service")).collect();
    let mut seen = BTreeSet::new();
    for backend in backends {
        let name = json::text(backend, "/name");
        let port = backend
            .pointer("/port/number")
            .or_else(|| backend.pointer("/port/name"))
            .map(|p| p.as_str().map_or_else(|| p.to_string(), str::to_owned))
            .unwrap_or_default();
        if !seen.insert((name, port.clone())) || !world.saw_all("Service") {
            continue;
        }
        match world.find("Service", name) {
            None => {
                let others: Vec<&str> = world.all("Service").iter().map(json::name).take(8).collect();
                out.push(Problem::new(
                    world,
                    ingress,
                    "Ingress",
                    "spec",
                    "BackendServiceMissing",
                    format!("the backend Service {name} does not exist; there are {}", others.join(", ")),
                ));
            }
            Some(service) => {
                let known = json::list(service, "/spec/ports")
                    .iter()
                    .any(|p| json::text(p, "/name") == port || json::int(p, "/port").is_some_and(|n| n.to_string() == port));
                if !known && !port.is_empty() {
                    let have: Vec<String> = json::list(service, "/spec/ports").iter().map(|p| json::int(p, "/port").unwrap_or_default().to_string()).collect();
                    out.push(Problem::new(
                        world,
                        ingress,
                        "Ingress",
                        "spec",
                        "BackendPortMissing",
                        format!("the backend Service {name} has no port {port}; it has {}", have.join(", ")),
                    ));
                }
            }
        }
    }
}
