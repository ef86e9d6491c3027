//! C.2: who may do what, tried against the real API server.

use crate::{
    kubectl::{apply, condition, ended, investigate, kubectl, run, said},
    scenarios::scenario,
};

const SYSTEM: &str = "system:serviceaccount:inquest-system";

fn can(who: &str, verb: &str, resource: &str, namespace: &str) -> bool {
    // `a/b` would be the object b; a subresource has a flag of its own. Impersonation is of objects.
    let (resource, subresource) = if verb == "impersonate" { (resource, "") } else { resource.split_once('/').unwrap_or((resource, "")) };
    run(&["auth", "can-i", verb, resource, &format!("--subresource={subresource}"), "-n", namespace, &format!("--as={who}")], "").out.trim() == "yes"
}

#[test]
fn c_2_no_identity_of_the_chart_can_write_but_the_operators_own() {
    let demo = "sc-healthy";
    let reader = format!("system:serviceaccount:{demo}:inquest-reader");
    let identities = [format!("{SYSTEM}:inquest-operator"), format!("{SYSTEM}:inquest-tools-kubernetes"), reader.clone()];
    let resources = [
        "pods",
        "pods/exec",
        "deployments.apps",
        "configmaps",
        "secrets",
        "services",
        "nodes",
        "namespaces",
        "serviceaccounts/token",
        "roles.rbac.authorization.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
        "jobs.batch",
        "persistentvolumeclaims",
        "events",
        "leases.coordination.k8s.io",
    ];
    let mut tried = 0;
    for who in &identities {
        for resource in resources {
            for verb in ["create", "update", "patch", "delete", "deletecollection"] {
                tried += 1;
                assert!(!can(who, verb, resource, demo), "{who} can {verb} {resource}");
            }
        }
        assert!(!can(who, "get", "secrets", demo), "{who} can read Secrets");
        assert!(!can(who, "impersonate", "users", demo) && !can(who, "escalate", "roles.rbac.authorization.k8s.io", demo), "{who}");
    }
    println!("{tried} writes tried: all refused");
    // The tools' own account reads nothing at all; it can only act as a reader, of a tenant's namespace.
    let tools = &identities[1];
    assert!(!can(tools, "get", "pods", demo) && !can(tools, "list", "nodes", demo));
    assert!(can(tools, "impersonate", "serviceaccounts/inquest-reader", demo) && !can(tools, "impersonate", "serviceaccounts/default", demo));
    assert!(!can(tools, "impersonate", "serviceaccounts/inquest-reader", "kube-system"));
    // A reader sees its own namespace and nobody else's.
    assert!(can(&reader, "get", "pods/log", demo) && !can(&reader, "list", "pods", "sc-silent-crash") && !can(&reader, "list", "pods", "inquest-system"));
    // The operator writes what is its own.
    let operator = &identities[0];
    assert!(
        can(operator, "patch", "investigations.inquest.dev/status", demo)
            && !can(operator, "patch", "investigations.inquest.dev", demo)
            && !can(operator, "create", "investigations.inquest.dev", demo)
    );
    for who in &identities {
        println!("{who}\n{}", kubectl(&["auth", "can-i", "--list", "-n", demo, &format!("--as={who}")]));
    }
}

#[test]
fn an_account_without_rights_ends_inconclusive_and_says_what_was_denied() {
    let namespace = &scenario("configmap-missing");
    // `blind` is among the chart's readers and has no right of its own; `ghost` is not among them, and does not exist.
    apply(namespace, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: blind}\n");
    for (account, wanted) in [("blind", "does not let system:serviceaccount:sc-configmap-missing:blind"), ("ghost", "be impersonated")] {
        investigate(namespace, account, &format!("{{serviceAccountName: {account}, target: {{kind: Deployment, name: orders}}}}"));
        let object = ended(namespace, account);
        let post = &object["status"]["postmortem"];
        assert_eq!((object["status"]["phase"].as_str(), post["outcome"].as_str()), (Some("Inconclusive"), Some("Inconclusive")), "{object}");
        let not_checked = post["notChecked"].to_string();
        assert!(not_checked.contains(wanted), "{account}: {not_checked}");
        assert!(!said(&object).contains("orders-settings"), "what it may not see is not in the answer");
        println!("{account}: {}\n  {not_checked}", post["refusal"]);
    }
}

#[test]
fn another_namespaces_objects_are_denied_by_the_api_server() {
    let namespace = "sc-cross";
    apply(
        namespace,
        r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: edge}
spec:
  selector: {matchLabels: {app: edge}}
  template:
    metadata: {labels: {app: edge}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: edge
          image: busybox:1.36
          command: [sh, -c, 'echo "FATAL dial tcp sessions.sc-dependency-down.svc:6379: connect: connection refused"; exit 1']
"#,
    );
    crate::kubectl::until("edge crashes", 60, || kubectl(&["-n", namespace, "get", "pods", "-o", "json"]).contains("\"exitCode\": 1").then_some(()));
    investigate(namespace, "why", "{target: {kind: Deployment, name: edge}}");
    let object = ended(namespace, "why");
    let text = said(&object);
    assert_eq!(object["status"]["phase"], "Inconclusive", "{object}");
    assert!(object["status"]["postmortem"]["refusal"].as_str().unwrap().contains("sc-dependency-down/sessions"), "{text}");
    assert!(!text.contains("sessions.conf"), "the other tenant's log is not in the answer: {text}");
    println!("{} / {}", object["status"]["postmortem"]["refusal"], condition(&object, "Complete"));
}
