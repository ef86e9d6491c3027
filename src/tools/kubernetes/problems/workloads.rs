//! Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs.

use serde_json::Value;

use super::{Problem, SETTLE};
use crate::tools::kubernetes::{json, world::World};

pub fn find(world: &World, out: &mut Vec<Problem>) {
    for deployment in world.all("Deployment") {
        replicas(world, deployment, "Deployment", "/status/readyReplicas", out);
        for kind in ["Available", "Progressing", "ReplicaFailure"] {
            let bad = if kind == "ReplicaFailure" { "True" } else { "False" };
            condition(world, deployment, "Deployment", kind, bad, out);
        }
        if json::flag(deployment, "/spec/paused") {
            out.push(Problem::new(world, deployment, "Deployment", "spec", "Paused", "the rollout is paused: spec.paused is true").notice());
        }
    }
    for set in world.all("ReplicaSet") {
        // An old revision with no replicas left says nothing of today.
        if json::int(set, "/spec/replicas").unwrap_or(1) > 0 {
            condition(world, set, "ReplicaSet", "ReplicaFailure", "True", out);
            if json::list(set, "/metadata/ownerReferences").is_empty() {
                replicas(world, set, "ReplicaSet", "/status/readyReplicas", out);
            }
        }
    }
    for set in world.all("StatefulSet") {
        replicas(world, set, "StatefulSet", "/status/readyReplicas", out);
    }
    for set in world.all("DaemonSet") {
        let wanted = json::int(set, "/status/desiredNumberScheduled").unwrap_or(0);
        let ready = json::int(set, "/status/numberReady").unwrap_or(0);
        if ready < wanted {
            out.push(Problem::new(world, set, "DaemonSet", "status", "NotReady", format!("{ready} of {wanted} pods are ready")));
        }
    }
    for job in world.all("Job") {
        condition(world, job, "Job", "Failed", "True", out);
        condition(world, job, "Job", "FailureTarget", "True", out);
        if json::flag(job, "/spec/suspend") {
            out.push(Problem::new(world, job, "Job", "spec", "Suspended", "the job does not run: spec.suspend is true").notice());
        }
    }
    for cron in world.all("CronJob") {
        if json::flag(cron, "/spec/suspend") {
            let last = json::text(cron, "/status/lastScheduleTime");
            let since = if last.is_empty() { "it has never run".to_owned() } else { format!("it last ran at {last}") };
            out.push(Problem::new(world, cron, "CronJob", "spec", "Suspended", format!("no runs are started: spec.suspend is true; {since}")).notice());
        }
    }
}

fn replicas(world: &World, object: &Value, kind: &str, ready: &str, out: &mut Vec<Problem>) {
    let wanted = json::int(object, "/spec/replicas").unwrap_or(1);
    let ready = json::int(object, ready).unwrap_or(0);
    if wanted == 0 {
        out.push(Problem::new(world, object, kind, "spec", "ScaledToZero", "spec.replicas is 0, so no pod runs").notice());
    } else if ready < wanted {
        let age = json::time(object, "/metadata/creationTimestamp").map(|t| world.now.duration_since(t));
        if age.is_none_or(|a| a > SETTLE) {
            out.push(Problem::new(world, object, kind, "status", "ReplicasNotReady", format!("{ready} of {wanted} replicas are ready")));
        }
    }
}

fn condition(world: &World, object: &Value, kind: &str, condition: &str, bad: &str, out: &mut Vec<Problem>) {
    if let Some(c) = json::condition(object, condition).filter(|c| json::text(c, "/status") == bad) {
        let reason = Some(json::text(c, "/reason")).filter(|r| !r.is_empty()).unwrap_or(condition);
        out.push(Problem::new(world, object, kind, "condition", reason, json::text(c, "/message")).at(json::time(c, "/lastTransitionTime"), None));
    }
}
