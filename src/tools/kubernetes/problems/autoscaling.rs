//! HorizontalPodAutoscalers and PodDisruptionBudgets.

use super::Problem;
use crate::tools::kubernetes::{json, world::World};

pub fn find(world: &World, out: &mut Vec<Problem>) {
    for hpa in world.all("HorizontalPodAutoscaler") {
        for (kind, bad) in [("AbleToScale", "False"), ("ScalingActive", "False"), ("ScalingLimited", "True")] {
            let Some(c) = json::condition(hpa, kind).filter(|c| json::text(c, "/status") == bad) else { continue };
            // At the minimum because there is no load is how it should be.
            if json::text(c, "/reason") == "TooFewReplicas" || json::text(c, "/reason") == "ScalingDisabled" {
                continue;
            }
            out.push(
                Problem::new(world, hpa, "HorizontalPodAutoscaler", "condition", json::text(c, "/reason"), json::text(c, "/message"))
                    .at(json::time(c, "/lastTransitionTime"), None),
            );
        }
    }
    for pdb in world.all("PodDisruptionBudget") {
        let pods = json::int(pdb, "/status/expectedPods").unwrap_or(0);
        if let Some(c) = json::condition(pdb, "DisruptionAllowed").filter(|c| json::text(c, "/status") == "False" && pods > 0) {
            let healthy = json::int(pdb, "/status/currentHealthy").unwrap_or(0);
            let desired = json::int(pdb, "/status/desiredHealthy").unwrap_or(0);
            let message = format!("no pod may be evicted: {healthy} of {pods} pods are healthy and {desired} must be");
            out.push(
                Problem::new(world, pdb, "PodDisruptionBudget", "condition", json::text(c, "/reason"), message)
                    .at(json::time(c, "/lastTransitionTime"), None)
                    .notice(),
            );
        }
    }
}
