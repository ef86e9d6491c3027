//! InvestigationQuota on a cluster: what is over it waits and says for what, and begins when it may; deleting a run frees no money.

use std::time::Duration;

use crate::{
    kubectl::{apply, condition, ended, investigate, investigation, json, kubectl, phase, until},
    models::{model, scripts},
    scenarios::scenario,
};

fn quota(namespace: &str, spec: &str) {
    kubectl(&["-n", namespace, "delete", "investigationquota", "team", "--ignore-not-found"]);
    apply(namespace, &format!("apiVersion: inquest.dev/v1alpha1\nkind: InvestigationQuota\nmetadata: {{name: team}}\nspec: {spec}\n"));
}

#[test]
fn a_run_over_the_quota_waits_and_says_for_what() {
    let namespace = &scenario("healthy");
    let spec = "{target: {kind: Deployment, name: web}}";
    scripts(&[("quota", "replies: [{calls: [{name: conclude, arguments: {outcome: unknown}}]}]")]);
    let priced = "{provider: Script, model: recorded, fallback: None, scriptRef: {name: inquest-scripts, key: quota}, price: {inputPerMillionUSD: '10', outputPerMillionUSD: '10'}, allowedNamespaces: {from: All}}";
    model("quota-priced", priced);

    // Runs an hour: the third waits until the first is an hour old.
    quota(namespace, "{maxPerHour: 2}");
    for name in ["quota-a", "quota-b"] {
        investigate(namespace, name, spec);
        ended(namespace, name);
    }
    investigate(namespace, "quota-c", spec);
    let waiting = until("the third waits", 20, || Some(investigation(namespace, "quota-c")).filter(|o| condition(o, "Accepted").starts_with("QuotaExceeded")));
    assert_eq!(phase(&waiting), "Pending", "{waiting}");
    let said = condition(&waiting, "Accepted");
    assert!(said.contains("InvestigationQuota team") && said.contains("2 runs an hour") && said.contains("it begins at 20"), "{said}");
    println!("{said}\n{}", kubectl(&["-n", namespace, "get", "investigationquotas"]));
    // Deleting one that ran frees nothing; a raised quota does.
    kubectl(&["-n", namespace, "delete", "investigation", "quota-a"]);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(phase(&investigation(namespace, "quota-c")), "Pending");
    kubectl(&["-n", namespace, "patch", "investigationquota", "team", "--type=merge", "-p", "{\"spec\":{\"maxPerHour\":3}}"]);
    ended(namespace, "quota-c");

    // Dollars a day: what a run may cost is set aside, and what it did cost is what counts after.
    quota(namespace, "{maxCostPerDayUSD: '0.51'}");
    let costs = |name: &str, most: &str| {
        investigate(
            namespace,
            name,
            &format!("{{question: 'Is web well?', modelRef: {{name: quota-priced, namespace: inquest-system}}, budget: {{maxCostUSD: '{most}'}}}}"),
        );
    };
    costs("quota-d", "0.50");
    let object = ended(namespace, "quota-d");
    // 1000 tokens in and 100 out, as the conversation says, at 10 dollars for a million.
    assert_eq!(object["status"]["usage"]["costUSD"], "0.011000", "{object}");
    until("what it did cost is counted", 10, || {
        (json(&["-n", namespace, "get", "investigationquota", "team"])["status"]["costLastDayUSD"] == "0.011000").then_some(())
    });
    costs("quota-e", "0.50");
    let waiting =
        until("the next may cost too much", 20, || Some(investigation(namespace, "quota-e")).filter(|o| condition(o, "Accepted").starts_with("QuotaExceeded")));
    let said = condition(&waiting, "Accepted");
    assert!(said.contains("$0.51 a day") && said.contains("$0.011000 are spent or set aside") && said.contains("may cost $0.500000"), "{said}");
    println!("{said}");
    // The playbooks cost nothing, and one that asks for less has its place.
    investigate(namespace, "quota-f", spec);
    ended(namespace, "quota-f");
    costs("quota-g", "0.40");
    ended(namespace, "quota-g");
    println!("{}", kubectl(&["-n", namespace, "get", "investigationquotas"]));
    println!("{}", kubectl(&["-n", namespace, "get", "investigations"]));
    kubectl(&["-n", namespace, "delete", "investigationquota", "team"]);
    kubectl(&["-n", namespace, "delete", "investigation", "quota-e"]);
    kubectl(&["-n", "inquest-system", "delete", "model", "quota-priced"]);
}

/// Many at once for few places: never more than the quota are running.
#[test]
fn no_two_runs_take_one_place() {
    let namespace = &scenario("healthy");
    quota(namespace, "{maxPerHour: 4}");
    for n in 0..10 {
        investigate(namespace, &format!("rush-{n}"), "{target: {kind: Deployment, name: web}}");
    }
    let states = || (0..10).map(|n| phase(&investigation(namespace, &format!("rush-{n}"))).to_owned()).collect::<Vec<_>>();
    until("four have ended and six wait", 60, || {
        let all = states();
        (all.iter().filter(|p| *p == "Concluded").count() == 4 && all.iter().filter(|p| *p == "Pending").count() == 6).then_some(())
    });
    std::thread::sleep(Duration::from_secs(5));
    let all = states();
    assert_eq!(all.iter().filter(|p| *p == "Concluded").count(), 4, "{all:?}");
    assert_eq!(json(&["-n", namespace, "get", "investigationquota", "team"])["status"]["startedLastHour"], 4);
    kubectl(&["-n", namespace, "delete", "investigationquota", "team"]);
    for n in 0..10 {
        ended(namespace, &format!("rush-{n}"));
        kubectl(&["-n", namespace, "delete", "investigation", &format!("rush-{n}")]);
    }
}
