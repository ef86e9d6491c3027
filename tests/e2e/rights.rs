//! C.2: who may do what, tried against the real API server.

use crate::{
    kubectl::{apply, condition, ended, investigate, json, kubectl, run, said},
    scenarios::scenario,
};

const SYSTEM: &str = "system:serviceaccount:inquest-system";

fn can(who: &str, verb: &str, resource: &str, namespace: &str) -> bool {
    // `a/b` would be the object b; a subresource has a flag of its own. Impersonation is of objects.
    let (resource, subresource) = if verb == "impersonate" { (resource, "") } else { resource.split_once('/').unwrap_or((resource, "")) };
    run(&["auth", "can-i", verb, resource, &format!("--subresource={subresource}"), "-n", namespace, &format!("--as={who}")], "").out.trim() == "yes"
}

/// Every writing verb on every resource that could matter, as requests that the API server would carry out.
fn writes(namespace: &str) -> Vec<(&'static str, String, String)> {
    let core = [
        "pods",
        "services",
        "configmaps",
        "secrets",
        "serviceaccounts",
        "persistentvolumeclaims",
        "events",
        "replicationcontrollers",
        "resourcequotas",
        "limitranges",
        "endpoints",
    ];
    let groups = [
        ("apps/v1", &["deployments", "replicasets", "statefulsets", "daemonsets", "controllerrevisions"][..]),
        ("batch/v1", &["jobs", "cronjobs"]),
        ("autoscaling/v2", &["horizontalpodautoscalers"]),
        ("policy/v1", &["poddisruptionbudgets"]),
        ("networking.k8s.io/v1", &["ingresses", "networkpolicies"]),
        ("discovery.k8s.io/v1", &["endpointslices"]),
        ("rbac.authorization.k8s.io/v1", &["roles", "rolebindings"]),
        ("coordination.k8s.io/v1", &["leases"]),
        ("inquest.dev/v1alpha1", &["runbooks", "toolservers", "models"]),
    ];
    let cluster = [
        ("api/v1", &["nodes", "namespaces", "persistentvolumes"][..]),
        ("apis/rbac.authorization.k8s.io/v1", &["clusterroles", "clusterrolebindings"]),
        ("apis/storage.k8s.io/v1", &["storageclasses"]),
        ("apis/scheduling.k8s.io/v1", &["priorityclasses"]),
        ("apis/apiextensions.k8s.io/v1", &["customresourcedefinitions"]),
        ("apis/admissionregistration.k8s.io/v1", &["validatingwebhookconfigurations", "mutatingwebhookconfigurations"]),
        ("apis/certificates.k8s.io/v1", &["certificatesigningrequests"]),
    ];
    let mut collections: Vec<String> = core.iter().map(|r| format!("/api/v1/namespaces/{namespace}/{r}")).collect();
    collections.extend(groups.iter().flat_map(|(group, all)| all.iter().map(move |r| format!("/apis/{group}/namespaces/{namespace}/{r}"))));
    collections.extend(cluster.iter().flat_map(|(group, all)| all.iter().map(move |r| format!("/{group}/{r}"))));
    let object = r#"{"metadata":{"name":"inquest-wrote-this"}}"#;
    let mut all = vec![];
    for collection in collections {
        all.push(("POST", collection.clone(), object.to_owned()));
        for method in ["PUT", "PATCH", "DELETE"] {
            all.push((method, format!("{collection}/inquest-wrote-this"), if method == "DELETE" { String::new() } else { object.to_owned() }));
        }
        all.push(("DELETE", collection, String::new()));
    }
    let pods = format!("/api/v1/namespaces/{namespace}/pods/web");
    for subresource in ["exec?command=id", "attach", "portforward", "eviction", "binding"] {
        all.push(("POST", format!("{pods}/{subresource}"), object.to_owned()));
    }
    all.push(("PATCH", format!("{pods}/ephemeralcontainers"), object.to_owned()));
    all.push(("POST", format!("/api/v1/namespaces/{namespace}/serviceaccounts/default/token"), object.to_owned()));
    all.push(("PATCH", format!("/apis/apps/v1/namespaces/{namespace}/deployments/web/scale"), object.to_owned()));
    all.push(("PATCH", "/api/v1/nodes/node-1/status".to_owned(), object.to_owned()));
    all
}

fn content_type(method: &str) -> &'static str {
    if method == "PATCH" { "application/merge-patch+json" } else { "application/json" }
}

#[test]
fn c_2_no_identity_of_the_chart_can_write_but_the_operators_own() {
    let demo = "sc-healthy";
    let reader = format!("system:serviceaccount:{demo}:inquest-reader");
    let mut identities = vec![format!("{SYSTEM}:inquest-operator")];
    // Whatever accounts the chart made, and not a list of them that could grow old.
    let accounts = json(&["-n", "inquest-system", "get", "serviceaccounts", "-l", "app.kubernetes.io/instance=inquest"]);
    let names = accounts["items"].as_array().unwrap().iter().map(|a| a["metadata"]["name"].as_str().unwrap());
    identities.extend(names.filter(|n| *n != "inquest-operator").map(|n| format!("{SYSTEM}:{n}")));
    identities.push(reader.clone());
    assert_eq!(identities.len(), 7, "{identities:?}");
    let tried = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        inquest::identity::install_crypto();
        let client = kube::Client::try_default().await.unwrap();
        let mut tried = 0;
        for who in &identities {
            for (method, path, body) in writes(demo) {
                let mut request =
                    http::Request::builder().method(method).uri(&path).header("impersonate-user", who).header("content-type", content_type(method));
                if who.contains(&format!(":{demo}:")) {
                    request = request.header("impersonate-group", format!("system:serviceaccounts:{demo}"));
                }
                let answer = client.send(request.body(kube::client::Body::from(body.into_bytes())).unwrap()).await.unwrap();
                assert_eq!(answer.status(), 403, "{who}: {method} {path}");
                tried += 1;
            }
        }
        tried
    });
    for who in &identities {
        assert!(!can(who, "get", "secrets", demo), "{who} can read Secrets");
        assert!(!can(who, "impersonate", "users", demo) && !can(who, "escalate", "roles.rbac.authorization.k8s.io", demo), "{who}");
    }
    println!("{tried} writes tried by {} identities: all refused", identities.len());
    assert!(tried > 900, "{tried}");
    // The tools' own accounts read nothing at all; three of them can act as a reader, of a tenant's namespace.
    for tools in identities.iter().filter(|i| i.contains("inquest-tools")) {
        assert!(!can(tools, "get", "pods", demo) && !can(tools, "list", "nodes", demo) && !can(tools, "list", "runbooks.inquest.dev", demo), "{tools}");
        let acts = !tools.ends_with("-metrics") && !tools.ends_with("-workspace");
        assert_eq!(can(tools, "impersonate", "serviceaccounts/inquest-reader", demo), acts, "{tools}");
        assert!(
            !can(tools, "impersonate", "serviceaccounts/default", demo) && !can(tools, "impersonate", "serviceaccounts/inquest-reader", "kube-system"),
            "{tools}"
        );
    }
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
