//! Quotas, nodes, webhooks that refuse.

use serde_json::Value;

use super::Problem;
use crate::tools::kubernetes::{json, world::World};

pub fn find(world: &World, out: &mut Vec<Problem>) {
    for quota in world.all("ResourceQuota") {
        let full: Vec<String> = json::map(quota, "/status/hard")
            .filter_map(|(resource, hard)| {
                let used = json::text(quota.pointer("/status/used")?, &format!("/{}", resource.replace('~', "~0").replace('/', "~1")));
                (!used.is_empty() && Some(used) == hard.as_str() && used != "0").then(|| format!("{resource} {used} of {used}"))
            })
            .collect();
        if !full.is_empty() {
            out.push(Problem::new(world, quota, "ResourceQuota", "status", "QuotaUsedUp", format!("used up: {}", full.join(", "))).notice());
        }
    }
    for node in world.all("Node") {
        for c in json::list(node, "/status/conditions") {
            let (kind, status) = (json::text(c, "/type"), json::text(c, "/status"));
            if (kind == "Ready") != (status == "True") {
                let reason = if kind == "Ready" { json::text(c, "/reason") } else { kind };
                out.push(Problem::new(world, node, "Node", "condition", reason, json::text(c, "/message")).at(json::time(c, "/lastTransitionTime"), None));
            }
        }
        if json::flag(node, "/spec/unschedulable") {
            out.push(Problem::new(world, node, "Node", "spec", "Cordoned", "no new pods are placed here: spec.unschedulable is true"));
        }
    }
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        for configuration in world.all(kind) {
            for webhook in json::list(configuration, "/webhooks") {
                webhooks(world, configuration, kind, webhook, out);
            }
        }
    }
}

/// A webhook that must answer, and whose Service, as far as it can be seen from here, is not there.
fn webhooks(world: &World, configuration: &Value, kind: &str, webhook: &Value, out: &mut Vec<Problem>) {
    let (service, namespace) = (json::text(webhook, "/clientConfig/service/name"), json::text(webhook, "/clientConfig/service/namespace"));
    if json::text(webhook, "/failurePolicy") == "Ignore" || service.is_empty() || namespace != world.namespace {
        return;
    }
    if world.saw_all("Service") && world.find("Service", service).is_none() {
        out.push(Problem::new(
            world,
            configuration,
            kind,
            "spec",
            "WebhookServiceMissing",
            format!("webhook {} must answer (failurePolicy Fail) and its Service {namespace}/{service} does not exist", json::text(webhook, "/name")),
        ));
    }
}
