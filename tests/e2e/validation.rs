//! Bad input of each kind: what the API server, the status and the log say, each with the next thing to do.

use crate::kubectl::{apply, condition, ended, investigate, investigation, json, kubectl, phase, run, until};

const NAMESPACE: &str = "sc-healthy";

#[test]
fn the_api_servers_message_names_the_field() {
    for (kind, spec, wanted) in [
        ("Investigation", "{}", "one of spec.question, spec.target, spec.alert is required"),
        ("Investigation", "{question: ''}", "spec.question"),
        ("Investigation", "{question: q, budget: {maxToolCalls: -1}}", "spec.budget.maxToolCalls"),
        ("Investigation", "{question: q, budget: {maxCostUSD: lots}}", "spec.budget.maxCostUSD"),
        ("Investigation", "{question: q, budget: {maxDuration: soon}}", "spec.budget.maxDuration"),
        ("Investigation", "{question: q, window: yesterday}", "spec.window"),
        ("Investigation", "{target: {kind: deployment, name: web}}", "spec.target.kind"),
        ("Investigation", "{target: {kind: Deployment}}", "spec.target.name"),
        ("Investigation", "{question: q, approval: {policy: Sometimes}}", "spec.approval.policy"),
        ("Investigation", "{question: q, serviceAccountName: '../x'}", "spec.serviceAccountName"),
        ("Investigation", "{question: q, qestion: typo}", "unknown field \"spec.qestion\""),
        ("ToolServer", "{}", "exactly one of spec.url and spec.service is required"),
        ("ToolServer", "{url: 'ftp://x'}", "spec.url"),
        ("ToolServer", "{url: 'http://x', service: {name: a, port: 1}}", "exactly one of spec.url and spec.service"),
        ("ToolServer", "{service: {name: a, port: 99999}}", "spec.service.port"),
        ("ToolServer", "{url: 'http://x', allowedNamespaces: {from: Some}}", "spec.allowedNamespaces.from"),
        ("Model", "{model: gpt}", "spec.provider"),
        ("Model", "{provider: Oracle, model: x}", "spec.provider"),
        ("Model", "{provider: OpenAI, model: x, price: {inputPerMillionUSD: free, outputPerMillionUSD: '1'}}", "spec.price.inputPerMillionUSD"),
        ("Runbook", "{title: t, body: b}", "spec.signatures"),
        ("Runbook", "{title: t, body: b, signatures: []}", "spec.signatures"),
    ] {
        let yaml = format!("apiVersion: inquest.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: bad}}\nspec: {spec}\n");
        let output = run(&["-n", NAMESPACE, "create", "--validate=strict", "-f", "-"], &yaml);
        assert!(!output.ok, "{kind} {spec} was taken");
        assert!(output.err.contains(wanted), "{kind} {spec}: {}", output.err);
        println!("{kind} {spec}\n    {}", output.err.trim());
    }
}

#[test]
fn the_spec_is_immutable_but_for_what_a_person_steers() {
    crate::scenarios::scenario("healthy");
    investigate(NAMESPACE, "fixed", "{target: {kind: Deployment, name: web}}");
    let patch = |body: &str| run(&["-n", NAMESPACE, "patch", "investigation", "fixed", "--type=merge", "-p", body], "");
    for (body, field) in [
        (r#"{"spec":{"target":{"kind":"Deployment","name":"other"}}}"#, "spec.target is immutable"),
        (r#"{"spec":{"question":"another"}}"#, "spec.question is immutable"),
        (r#"{"spec":{"serviceAccountName":"admin"}}"#, "spec.serviceAccountName is immutable"),
        (r#"{"spec":{"window":"2h"}}"#, "spec.window is immutable"),
        (r#"{"spec":{"budget":{"maxToolCalls":7}}}"#, "maxToolCalls can only grow"),
        (r#"{"spec":{"budget":{"maxCostUSD":"0.49"}}}"#, "maxCostUSD can only grow"),
        (r#"{"spec":{"budget":{"maxDuration":"9m"}}}"#, "maxDuration can only grow"),
    ] {
        let output = patch(body);
        assert!(!output.ok && output.err.contains(field), "{body}: {}", output.err);
    }
    for body in [r#"{"spec":{"budget":{"maxToolCalls":9,"maxCostUSD":"1.00","maxDuration":"1h"}}}"#, r#"{"spec":{"ttlAfterFinished":"24h"}}"#] {
        assert!(patch(body).ok, "{body}: {}", patch(body).err);
    }
}

#[test]
fn what_is_missing_is_said_with_the_next_thing_to_do() {
    crate::scenarios::scenario("healthy");
    for (name, spec, reason, hint) in [
        ("no-model", "{question: q, modelRef: {name: nowhere}}", "ModelNotFound", "create it, or leave modelRef out"),
        ("no-server", "{question: q, tools: {servers: [{name: nowhere}]}}", "ToolServerNotFound", "kubectl get toolservers -A"),
        ("no-tool", "{question: q, tools: {allow: ['nothing_*']}}", "NoTool", "spec.tools.allow"),
    ] {
        investigate(NAMESPACE, name, spec);
        let object = until("it says why", 20, || {
            let object = investigation(NAMESPACE, name);
            condition(&object, "Accepted").contains(reason).then_some(object)
        });
        assert_eq!(phase(&object), "Pending");
        assert!(condition(&object, "Accepted").contains(hint), "{}", condition(&object, "Accepted"));
        until("describe shows it", 10, || kubectl(&["-n", NAMESPACE, "describe", "investigation", name]).contains(reason).then_some(()));
        println!("{name}: {}", condition(&object, "Accepted"));
        kubectl(&["-n", NAMESPACE, "delete", "investigation", name]);
    }
    // Once the model is there, the run begins. Nothing listens where it is said to be: the playbooks finish, and that is said.
    investigate(NAMESPACE, "model-later", "{target: {kind: Deployment, name: web}, modelRef: {name: later}}");
    until("it waits", 20, || condition(&investigation(NAMESPACE, "model-later"), "Accepted").contains("ModelNotFound").then_some(()));
    apply(
        NAMESPACE,
        "apiVersion: inquest.dev/v1alpha1\nkind: Model\nmetadata: {name: later}\nspec: {provider: OpenAI, model: some, baseURL: 'http://127.0.0.1:1/v1', price: {inputPerMillionUSD: '1', outputPerMillionUSD: '1'}}\n",
    );
    let object = ended(NAMESPACE, "model-later");
    assert_eq!(object["status"]["investigator"]["fallbackFrom"], format!("Model {NAMESPACE}/later"));
    assert!(condition(&object, "Degraded").starts_with("ModelFallback"), "{object}");
    assert!(object["status"]["postmortem"]["markdown"].as_str().unwrap().contains("in place of Model"), "{object}");
    kubectl(&["-n", NAMESPACE, "delete", "model", "later"]);
    // A cost cap at a price that nobody knows is no cap: refused at once, and the field is named.
    apply(NAMESPACE, "apiVersion: inquest.dev/v1alpha1\nkind: Model\nmetadata: {name: dear}\nspec: {provider: OpenAI, model: some}\n");
    until("the Model says so, too", 20, || {
        condition(&json(&["-n", NAMESPACE, "get", "model", "dear"]), "Ready").contains("spec.price is absent").then_some(())
    });
    investigate(NAMESPACE, "model-dear", "{target: {kind: Deployment, name: web}, modelRef: {name: dear}}");
    let object = ended(NAMESPACE, "model-dear");
    assert_eq!(phase(&object), "Failed", "{object}");
    assert!(condition(&object, "Accepted").starts_with("PriceUnknown") && condition(&object, "Accepted").contains("spec.price is absent"), "{object}");
    kubectl(&["-n", NAMESPACE, "delete", "model", "dear"]);
}

#[test]
fn a_tool_server_that_is_down_slow_or_not_mcp_says_so() {
    crate::scenarios::scenario("healthy");
    // `web` speaks HTTP, and no MCP; nothing listens on port 9; 10.255.255.1 is refused or swallowed.
    for (name, url, reasons) in [
        ("down", "http://web.sc-healthy.svc:9/mcp", vec!["Unreachable", "Timeout"]),
        ("nowhere", "http://no-such-service.sc-healthy.svc:80/mcp", vec!["Unreachable", "Timeout"]),
        ("not-mcp", "http://web.sc-healthy.svc:80/mcp", vec!["NotMCP"]),
        ("slow", "http://tarpit.sc-healthy.svc:8081/mcp", vec!["Timeout"]),
    ] {
        if name == "slow" {
            apply(
                NAMESPACE,
                "apiVersion: v1\nkind: Pod\nmetadata: {name: tarpit, labels: {app: tarpit}}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers:\n    - {name: tarpit, image: 'busybox:1.36', command: [sh, -c, 'while :; do sleep 30 | nc -l -p 8081 >/dev/null; done']}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: tarpit}\nspec: {selector: {app: tarpit}, ports: [{port: 8081}]}\n",
            );
            kubectl(&["-n", NAMESPACE, "wait", "pod/tarpit", "--for=condition=Ready", "--timeout=30s"]);
        }
        apply(NAMESPACE, &format!("apiVersion: inquest.dev/v1alpha1\nkind: ToolServer\nmetadata: {{name: {name}}}\nspec: {{url: '{url}', timeout: 2s}}\n"));
        let object = until(&format!("{name} says why"), 40, || {
            let object = json(&["-n", NAMESPACE, "get", "toolserver", name]);
            let said = condition(&object, "Ready");
            reasons.iter().any(|r| said.starts_with(r)).then_some(object)
        });
        println!("{name}: {}", condition(&object, "Ready"));
        // A run that wants it alone waits, and says for what.
        investigate(NAMESPACE, "needs-it", &format!("{{question: q, tools: {{servers: [{{name: {name}}}]}}}}"));
        let waiting = until("the run says so", 20, || {
            let object = investigation(NAMESPACE, "needs-it");
            condition(&object, "Accepted").contains("ToolServersNotReady").then_some(object)
        });
        assert!(condition(&waiting, "Accepted").contains(url), "{}", condition(&waiting, "Accepted"));
        kubectl(&["-n", NAMESPACE, "delete", "toolserver", name]);
        kubectl(&["-n", NAMESPACE, "delete", "investigation", "needs-it"]);
    }
    println!("{}", kubectl(&["get", "toolservers", "-A", "-o", "wide"]));
}
