//! Pods: phase, conditions, and every container's state and last state, init and sidecar containers included.

use jiff::SignedDuration;
use serde_json::Value;

use super::{Problem, RECENT, SETTLE};
use crate::tools::kubernetes::{json, world::World};

pub fn find(world: &World, out: &mut Vec<Problem>) {
    for pod in world.all("Pod") {
        pod_level(world, pod, out);
        for field in ["/status/initContainerStatuses", "/status/containerStatuses"] {
            for status in json::list(pod, field) {
                container(world, pod, status, field.contains("init"), out);
            }
        }
    }
}

/// Whether the pod does what it is for: ready, or completed.
pub fn is_well(pod: &Value) -> bool {
    json::text(pod, "/status/phase") == "Succeeded" || json::condition(pod, "Ready").is_some_and(|c| json::text(c, "/status") == "True")
}

fn pod_level(world: &World, pod: &Value, out: &mut Vec<Problem>) {
    let (phase, reason, message) = (json::text(pod, "/status/phase"), json::text(pod, "/status/reason"), json::text(pod, "/status/message"));
    let created = json::time(pod, "/metadata/creationTimestamp");
    let age = created.map_or(SignedDuration::ZERO, |t| world.now.duration_since(t));
    if phase == "Failed" && !reason.is_empty() {
        out.push(Problem::new(world, pod, "Pod", "status", reason, message).at(None, json::time(pod, "/status/startTime")));
    }
    if let Some(deleted) = json::time(pod, "/metadata/deletionTimestamp") {
        // The timestamp already holds the grace period.
        if world.now.duration_since(deleted) > SETTLE {
            let holders: Vec<&str> = json::list(pod, "/metadata/finalizers").iter().filter_map(Value::as_str).collect();
            let why =
                if holders.is_empty() { "its containers have not ended".to_owned() } else { format!("finalizers {} are not removed", holders.join(", ")) };
            out.push(
                Problem::new(world, pod, "Pod", "status", "TerminationPending", format!("deletion was asked for and is pending: {why}"))
                    .at(Some(deleted), None),
            );
        }
        return;
    }
    if let Some(c) = json::condition(pod, "PodScheduled").filter(|c| json::text(c, "/status") == "False") {
        let since = json::time(c, "/lastTransitionTime");
        out.push(
            Problem::new(
                world,
                pod,
                "Pod",
                "condition",
                or(json::text(c, "/reason"), "Unschedulable"),
                format!("{}{}", json::text(c, "/message"), requests(pod)),
            )
            .at(since, None),
        );
    } else if phase == "Pending" && json::text(pod, "/spec/nodeName").is_empty() && json::condition(pod, "PodScheduled").is_none() && age > SETTLE {
        let scheduler = or(json::text(pod, "/spec/schedulerName"), "default-scheduler");
        out.push(
            Problem::new(world, pod, "Pod", "status", "NotScheduled", format!("no scheduler has looked at it: schedulerName is {scheduler}")).at(created, None),
        );
    }
    let ready = json::condition(pod, "Ready");
    if let Some(c) = ready.filter(|c| json::text(c, "/status") != "True" && phase == "Running") {
        let since = json::time(c, "/lastTransitionTime");
        if since.is_none_or(|t| world.now.duration_since(t) > SETTLE) {
            out.push(Problem::new(world, pod, "Pod", "condition", or(json::text(c, "/reason"), "NotReady"), json::text(c, "/message")).at(since, None));
        }
    }
}

fn container(world: &World, pod: &Value, status: &Value, init: bool, out: &mut Vec<Problem>) {
    let name = json::text(status, "/name");
    let restarts = json::int(status, "/restartCount");
    let problem = |reason: &str, message: String| Problem::new(world, pod, "Pod", "status", reason, message).container(name).times(restarts);
    let deleted = json::time(pod, "/metadata/deletionTimestamp").is_some();

    let waiting = json::text(status, "/state/waiting/reason");
    if !["", "ContainerCreating", "PodInitializing"].contains(&waiting) {
        out.push(problem(waiting, json::text(status, "/state/waiting/message").to_owned()));
    }
    if let Some(ended) = status.pointer("/state/terminated") {
        if json::int(ended, "/exitCode") == Some(0) && !init && !deleted && ["", "Always"].contains(&json::text(pod, "/spec/restartPolicy")) {
            out.push(terminated(problem, ended, "").at(None, json::time(ended, "/finishedAt")));
        }
        let completed_init = init && json::int(ended, "/exitCode") == Some(0);
        if json::int(ended, "/exitCode") != Some(0) && !completed_init && !deleted {
            out.push(terminated(problem, ended, limit(pod, name)).at(None, json::time(ended, "/finishedAt")));
        } else if json::text(pod, "/spec/restartPolicy") == "Never" && json::text(pod, "/status/phase") == "Running" && !init {
            // Work that is done while a sidecar keeps the pod alive.
            let others: Vec<&str> =
                json::list(pod, "/status/containerStatuses").iter().filter(|s| s.pointer("/state/running").is_some()).map(|s| json::text(s, "/name")).collect();
            out.push(problem("CompletedBesideRunning", format!("the container has completed, and {} still runs, so the pod does not end", others.join(", "))));
        }
    }
    if let Some(last) = status.pointer("/lastState/terminated") {
        let finished = json::time(last, "/finishedAt");
        let over = status.pointer("/state/running").is_some() && json::flag(status, "/ready") && !may_end_again(world, status);
        // Its own end explains a crash loop better than the back-off does.
        out.push(terminated(problem, last, limit(pod, name)).at(json::time(last, "/startedAt"), finished).over(over));
    }
    if init && !deleted && status.pointer("/state/running").is_some() && !json::flag(status, "/started") {
        let since = json::time(status, "/state/running/startedAt");
        if since.is_some_and(|t| world.now.duration_since(t) > SETTLE) {
            out.push(problem("InitNotFinished", format!("init container {name} still runs, so the containers after it have not started")).at(since, None));
        }
    }
}

fn terminated(problem: impl Fn(&str, String) -> Problem, ended: &Value, limit: &str) -> Problem {
    let (reason, said) = (or(json::text(ended, "/reason"), "Error"), json::text(ended, "/message").trim());
    let code = json::int(ended, "/exitCode").unwrap_or_default();
    let mut message = format!("exit code {code}");
    if let Some(meaning) = exit_code(code) {
        message.push_str(&format!(" ({meaning})"));
    }
    if !said.is_empty() {
        message.push_str(&format!(": {said}"));
    }
    if reason == "OOMKilled" && !limit.is_empty() {
        message.push_str(&format!(", memory limit {limit}"));
    }
    if let (Some(from), Some(to)) = (json::time(ended, "/startedAt"), json::time(ended, "/finishedAt")) {
        let ran = to.duration_since(from).as_secs();
        if (0..=86_400).contains(&ran) {
            message.push_str(&format!(", after {ran} s"));
        }
    }
    problem(if code == 0 && reason == "Completed" { "ExitedZero" } else { reason }, message)
}

/// Whether a container that runs at this moment is likely to end as it did before: it ended lately, and this time it has not yet run
/// clearly longer than the last time, or it has done so again and again.
fn may_end_again(world: &World, status: &Value) -> bool {
    let last = |p: &str| json::time(status, &format!("/lastState/terminated/{p}"));
    let (Some(finished), Some(running)) = (last("finishedAt"), json::time(status, "/state/running/startedAt")) else { return false };
    if world.now.duration_since(finished) > RECENT {
        return false;
    }
    let before = last("startedAt").map_or(SignedDuration::ZERO, |from| finished.duration_since(from));
    let now = world.now.duration_since(running);
    json::int(status, "/restartCount").unwrap_or(0) >= 3 || now < before * 2
}

/// Whether one of its containers may.
pub fn is_unsettled(world: &World, pod: &Value) -> bool {
    json::list(pod, "/status/containerStatuses").iter().any(|s| may_end_again(world, s))
}

/// The memory limit of a container.
fn limit<'a>(pod: &'a Value, container: &str) -> &'a str {
    ["/spec/containers", "/spec/initContainers"]
        .iter()
        .flat_map(|p| json::list(pod, p))
        .find(|c| json::text(c, "/name") == container)
        .map_or("", |c| json::text(c, "/resources/limits/memory"))
}

/// ` (requests cpu=64)`: what the scheduler could not place.
fn requests(pod: &Value) -> String {
    let all: Vec<String> = json::list(pod, "/spec/containers").iter().map(|c| json::labels(c, "/resources/requests")).filter(|r| !r.is_empty()).collect();
    if all.is_empty() { String::new() } else { format!(" (requests {})", all.join("; ")) }
}

/// What a shell or the kernel means by an exit code.
fn exit_code(code: i64) -> Option<&'static str> {
    Some(match code {
        126 => "the command is not executable",
        127 => "the command was not found",
        134 => "SIGABRT",
        135 => "SIGBUS",
        137 => "SIGKILL",
        139 => "SIGSEGV",
        143 => "SIGTERM",
        _ => return None,
    })
}

fn or<'a>(text: &'a str, fallback: &'a str) -> &'a str {
    if text.is_empty() { fallback } else { text }
}
