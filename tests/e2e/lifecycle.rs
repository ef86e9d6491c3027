//! Bounds, crashes, suspension, deletion: what holds whatever happens in between.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use inquest::{
    agent::{CallOutcome, Journal, Plan},
    store::{JournalStore, KubernetesStore, RunId},
};
use serde_json::Value;

use crate::{
    kubectl::{condition, ended, investigate, investigation, json, kubectl, phase, run, until},
    scenarios::scenario,
};

/// A chain of three hops, made by the scenarios.
const NAMESPACE: &str = "sc-dependency-down";
const SPEC: &str = "target: {kind: Deployment, name: checkout}";

/// The journal of a run, read from the cluster as the operator reads it.
pub fn journal(object: &Value) -> Journal {
    let text = |p: &str| object["metadata"][p].as_str().unwrap().to_owned();
    let id = RunId { namespace: text("namespace"), name: text("name"), uid: text("uid") };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        inquest::identity::install_crypto();
        let store = KubernetesStore::new(kube::Client::try_default().await.unwrap());
        store.open(&id).await.unwrap().journal().clone()
    })
}

/// Calls that the tool servers say they executed for a run.
fn executed(name: &str) -> usize {
    let logs = kubectl(&["-n", "inquest-system", "logs", "-l", "app.kubernetes.io/component in (kubernetes-tools,runbooks-tools)", "--tail=-1"]);
    let subject = format!("agent:{NAMESPACE}/{name}\"");
    logs.lines().filter(|l| l.contains("\"latency_ms\"") && l.contains(&subject)).count()
}

/// Sends a signal to the processes of a container, from outside. Only on the local node: there its processes are this machine's.
fn signal(signal: &str, pattern: &str) -> bool {
    Command::new("pkill").args([signal, "-f", pattern]).status().is_ok_and(|s| s.success())
}

#[test]
fn s1_11_at_the_step_cap_it_answers_with_what_is_proved() {
    scenario("dependency-down");
    investigate(NAMESPACE, "two-calls", &format!("{{{SPEC}, budget: {{maxToolCalls: 2}}}}"));
    let object = ended(NAMESPACE, "two-calls");
    let status = &object["status"];
    assert_eq!((status["stopReason"].as_str(), status["usage"]["toolCalls"].as_i64()), (Some("StepCap"), Some(2)), "{status}");
    assert!(status["usage"]["skippedCalls"].as_i64() >= Some(1), "{status}");
    let journal = journal(&object);
    assert!(journal.results().any(|r| matches!(&r.outcome, CallOutcome::Skipped { .. })));
    assert!(
        !status["postmortem"]["chain"].as_array().unwrap().is_empty() && status["postmortem"]["refusal"].as_str().unwrap().contains("sessions"),
        "{status}"
    );
    println!("{}", kubectl(&["-n", NAMESPACE, "get", "investigation", "two-calls"]));
    println!("{}", status["postmortem"]["markdown"].as_str().unwrap());
}

/// S1.15 in its Kubernetes form: the process dies by SIGKILL, and the next one finishes the run.
#[test]
fn a_killed_operator_is_no_reason_to_begin_again() {
    scenario("dependency-down");
    let mut interrupted = 0;
    for attempt in 0..8 {
        let name = format!("killed-{attempt}");
        investigate(NAMESPACE, &name, &format!("{{{SPEC}}}"));
        // As soon as something is settled.
        let before = until("a first call is settled", 20, || {
            let object = investigation(NAMESPACE, &name);
            (object["status"]["usage"]["toolCalls"].as_i64() >= Some(1)).then_some(object)
        });
        let killed = signal("-KILL", "^/inquest operator");
        if !killed {
            kubectl(&["-n", "inquest-system", "delete", "pod", "-l", "app.kubernetes.io/component=operator", "--grace-period=0", "--force"]);
        }
        let at_kill = journal(&before);
        let object = ended(NAMESPACE, &name);
        let after = journal(&object);
        if at_kill.conclusion().is_none() {
            interrupted += 1;
        }
        // What was settled stands as it was: the journal was gone on with, not begun again.
        assert_eq!(&after.records()[..at_kill.records().len()], at_kill.records());
        let planned = after.planned().filter(|p| matches!(p.plan, Plan::Execute { .. })).count();
        let usage = usize::try_from(object["status"]["usage"]["toolCalls"].as_i64().unwrap()).unwrap();
        assert_eq!((usage, after.evidence().count()), (planned, planned), "one charge and one result for each call");
        // A call that was in flight may have been executed twice, one that was settled never.
        let open = usize::from(at_kill.conclusion().is_none()) * 3;
        let times = executed(&name);
        assert!((planned..=planned + open).contains(&times), "{times} executions of {planned} calls");
        println!(
            "killed after {} of {} records: {} calls charged, {times} executed, {}",
            at_kill.records().len(),
            after.records().len(),
            usage,
            phase(&object)
        );
        assert_eq!(object["status"]["postmortem"]["rootCause"]["object"]["name"], "sessions");
        until("the operator is back", 60, || {
            let pods = json(&["-n", "inquest-system", "get", "pods", "-l", "app.kubernetes.io/component=operator"]);
            pods["items"].as_array().unwrap().iter().all(|p| p["status"]["containerStatuses"][0]["ready"] == true).then_some(())
        });
        if interrupted >= 2 {
            return;
        }
    }
    panic!("no run was caught in the middle in eight tries");
}

/// The kubernetes store does what every store must, against the real API server.
#[test]
fn the_kubernetes_store_conforms() {
    // It waits for a person, so the operator does not touch its journal; it is real, so that the journal is not collected.
    investigate("sc-healthy", "conformance", "{question: q, approval: {policy: BeforeStart}}");
    let object = investigation("sc-healthy", "conformance");
    let id = RunId { namespace: "sc-healthy".into(), name: "conformance".into(), uid: object["metadata"]["uid"].as_str().unwrap().into() };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        inquest::identity::install_crypto();
        let store = KubernetesStore::new(kube::Client::try_default().await.unwrap());
        inquest::store::conformance::suite(&store, &id).await;
    });
    kubectl(&["-n", "sc-healthy", "delete", "investigation", "conformance"]);
}

/// Suspension and deletion take effect within a second, in the middle of a step too: the tools are stopped, so that a call hangs.
#[test]
fn a_step_in_flight_is_dropped_within_a_second() {
    scenario("dependency-down");
    if !signal("-STOP", "^/inquest tools kubernetes") {
        println!("not checked: the tools' processes are not this machine's, so no call can be made to hang");
        return;
    }
    let hanging = |name: &str| {
        investigate(NAMESPACE, name, &format!("{{{SPEC}}}"));
        until("a call is in flight", 20, || {
            let object = investigation(NAMESPACE, name);
            let journal = journal(&object);
            journal.open_step().is_some().then_some(object)
        })
    };
    let result = std::panic::catch_unwind(|| {
        hanging("suspended");
        let asked = Instant::now();
        kubectl(&["-n", NAMESPACE, "patch", "investigation", "suspended", "--type=merge", "-p", "{\"spec\":{\"suspend\":true}}"]);
        let object = until("it is suspended", 5, || {
            let object = investigation(NAMESPACE, "suspended");
            (phase(&object) == "Suspended").then_some(object)
        });
        let took = asked.elapsed();
        println!("suspended {} ms after the request, in the middle of a call", took.as_millis());
        assert!(took < Duration::from_millis(1500), "{took:?} with two kubectl calls in it");
        assert!(condition(&object, "Progressing").contains("spec.suspend"), "{object}");

        hanging("deleted");
        let asked = Instant::now();
        kubectl(&["-n", NAMESPACE, "delete", "investigation", "deleted", "--wait=true"]);
        println!("deleted {} ms after the request", asked.elapsed().as_millis());
        assert!(asked.elapsed() < Duration::from_millis(1500));
        // Its journal goes with it.
        until("the journal is collected", 30, || {
            let left = json(&["-n", NAMESPACE, "get", "investigationjournals"]);
            (!left["items"].as_array().unwrap().iter().any(|j| j["spec"]["investigation"] == "deleted")).then_some(())
        });
    });
    signal("-CONT", "^/inquest tools kubernetes");
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
    kubectl(&["-n", NAMESPACE, "patch", "investigation", "suspended", "--type=merge", "-p", "{\"spec\":{\"suspend\":false}}"]);
    let object = ended(NAMESPACE, "suspended");
    assert_eq!(phase(&object), "Concluded", "it goes on where it was: {object}");
}

/// The token is nowhere that a person or a log could read it (S1.8).
#[test]
fn s1_8_no_token_is_left_anywhere() {
    scenario("dependency-down");
    investigate(NAMESPACE, "token", &format!("{{{SPEC}}}"));
    let object = ended(NAMESPACE, "token");
    let mut all = object.to_string();
    all.push_str(&serde_json::to_string(&journal(&object).records()).unwrap());
    all.push_str(&kubectl(&["-n", NAMESPACE, "get", "events", "-o", "json"]));
    all.push_str(&kubectl(&["-n", "inquest-system", "logs", "-l", "app.kubernetes.io/part-of!=x", "--all-containers", "--tail=-1"]));
    assert!(!all.contains("eyJ"), "something that looks like a token is in the journal, the status, an event or a log");
}

/// A budget grows while the run lives, and a person's decision is awaited (S1.16).
#[test]
fn s1_16_a_person_decides_before_the_start_and_before_the_answer_is_shown() {
    scenario("dependency-down");
    for (policy, shown) in [("BeforeStart", false), ("BeforePublish", true)] {
        let name = policy.to_lowercase();
        investigate(NAMESPACE, &name, &format!("{{{SPEC}, approval: {{policy: {policy}}}}}"));
        let object = until("it waits", 30, || {
            let object = investigation(NAMESPACE, &name);
            (phase(&object) == "AwaitingApproval").then_some(object)
        });
        assert_eq!(object["status"]["usage"]["toolCalls"].is_number(), shown, "{object}");
        assert!(object["status"]["postmortem"].is_null(), "nothing is shown before: {object}");
        assert!(condition(&object, "Progressing").contains("spec.approval.decision"));
        kubectl(&["-n", NAMESPACE, "patch", "investigation", &name, "--type=merge", "-p", "{\"spec\":{\"approval\":{\"decision\":\"Approved\"}}}"]);
        assert_eq!(phase(&ended(NAMESPACE, &name)), "Concluded");
    }
    investigate(NAMESPACE, "turned-down", &format!("{{{SPEC}, approval: {{policy: BeforePublish, decision: Rejected, message: not now}}}}"));
    let object = ended(NAMESPACE, "turned-down");
    assert_eq!(phase(&object), "Rejected");
    assert!(object["status"]["postmortem"].is_null());
    let lowered = run(&["-n", NAMESPACE, "patch", "investigation", "turned-down", "--type=merge", "-p", "{\"spec\":{\"budget\":{\"maxToolCalls\":1}}}"], "");
    assert!(!lowered.ok && lowered.err.contains("maxToolCalls can only grow"), "{}", lowered.err);
}
