//! Models on a cluster: recorded conversations against real broken workloads, and a provider that fails, as a user sees it.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, extract::State, http::HeaderMap, response::Response, routing::post};
use serde_json::{Value, json};

use crate::{
    kubectl::{apply, condition, ended, investigate, json as get, kubectl, phase, until},
    scenarios::scenario,
};

const SYSTEM: &str = "inquest-system";

/// Adds recorded conversations to the one ConfigMap that the operator may read.
pub fn scripts(scripts: &[(&str, &str)]) {
    let mut data = serde_json::Map::new();
    for (key, text) in scripts {
        data.insert((*key).to_owned(), json!(text));
    }
    apply(SYSTEM, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: inquest-scripts}\n");
    kubectl(&["-n", SYSTEM, "patch", "configmap", "inquest-scripts", "--type=merge", "-p", &json!({"data": data}).to_string()]);
}

/// A Model of the operator's namespace, for all.
pub fn model(name: &str, spec: &str) {
    apply(SYSTEM, &format!("apiVersion: inquest.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec: {spec}\n"));
}

fn scripted(name: &str, key: &str) {
    model(
        name,
        &format!(
            "{{provider: Script, model: recorded, fallback: None, scriptRef: {{name: inquest-scripts, key: {key}}}, price: {{inputPerMillionUSD: '1', outputPerMillionUSD: '4'}}, allowedNamespaces: {{from: All}}}}"
        ),
    );
}

fn folders() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut with: Vec<PathBuf> = fs::read_dir(all).unwrap().map(|e| e.unwrap().path()).filter(|p| p.join("model.yaml").exists()).collect();
    with.sort();
    with
}

const GHOST: &str = "ghost-6d4cf56db6-x2x4v";
const INVENTED: &str = "FATAL: the flux capacitor is not charged";

/// The same conversation with wrong claims among the right ones: a wrong pod, a wrong number, an invented log line.
fn mixed(script: &mut Value) {
    let arguments = conclusion(script);
    let cited = arguments["citations"].clone();
    arguments["chain"] = json!([
        {"statement": format!("Pod {GHOST} cannot start."), "citations": cited},
        {"statement": "It has restarted 4711 times.", "citations": cited},
        {"statement": format!("The log says \"{INVENTED}\"."), "citations": [{"evidence": "e1", "quote": INVENTED}]},
        {"statement": "Everything else is well.", "citations": cited},
    ]);
    arguments["impact"] = json!({"statement": "4711 users see errors.", "citations": cited});
    arguments["timeline"] = json!([{"time": "2026-01-01T00:00:00Z", "event": INVENTED, "evidence": "e1"}]);
    arguments["runbook"] = json!({"name": "rollback", "namespace": "demo", "title": "Roll back", "signature": "memory leak", "evidence": "e1"});
}

/// The same conversation with a cause that is wrong.
fn lie(script: &mut Value) {
    let arguments = conclusion(script);
    arguments["statement"] = json!(format!("Pod {GHOST} fills the disk of node n-7."));
    arguments["object"] = json!({"kind": "Pod", "name": GHOST});
    // It is sent back once, and says the same again.
    let last = script["replies"].as_array().unwrap().last().unwrap().clone();
    script["replies"].as_array_mut().unwrap().push(last);
}

fn conclusion(script: &mut Value) -> &mut Value {
    &mut script["replies"].as_array_mut().unwrap().last_mut().unwrap()["calls"][0]["arguments"]
}

/// S3.8, S1.12: right answers pass; none of the wrong claims that are mixed in is published, and a wrong cause is none.
#[test]
fn s3_8_what_a_recorded_model_gets_right_is_published_and_what_it_gets_wrong_is_not() {
    let folders = folders();
    assert!(folders.len() >= 10);
    let mut table = String::new();
    for folder in &folders {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let namespace = scenario(name);
        let truth: Value = serde_saphyr::from_str(&fs::read_to_string(folder.join("truth.yaml")).unwrap()).unwrap();
        let right: Value = serde_saphyr::from_str(&fs::read_to_string(folder.join("model.yaml")).unwrap()).unwrap();
        let (mut with_wrong, mut wrong) = (right.clone(), right.clone());
        mixed(&mut with_wrong);
        lie(&mut wrong);
        let (kind, target) = truth["target"].as_str().unwrap().split_once('/').unwrap();
        for (variant, script) in [("right", &right), ("mixed", &with_wrong), ("lie", &wrong)] {
            let key = format!("{name}.{variant}");
            scripts(&[(&key, &script.to_string())]);
            scripted(&key, &key);
            investigate(
                &namespace,
                &format!("model-{variant}"),
                &format!("{{target: {{kind: {kind}, name: {target}}}, modelRef: {{name: {key}, namespace: {SYSTEM}}}}}"),
            );
        }
        for variant in ["right", "mixed", "lie"] {
            let object = ended(&namespace, &format!("model-{variant}"));
            let post = &object["status"]["postmortem"];
            let usage = &object["status"]["usage"];
            writeln!(
                table,
                "{name:24} {variant:6} {:12} {} calls, ${}, dropped {}: {}",
                phase(&object),
                usage["toolCalls"],
                usage["costUSD"].as_str().unwrap(),
                post["droppedClaims"],
                post["summary"].as_str().unwrap()
            )
            .unwrap();
            assert_eq!(object["status"]["investigator"]["kind"], "chat", "{object}");
            if variant == "lie" {
                assert!(phase(&object) == "Inconclusive" && post.get("rootCause").is_none(), "{object}");
            } else {
                let root = &post["rootCause"]["object"];
                assert_eq!(
                    format!("{}/{}", root["kind"].as_str().unwrap_or_default(), root["name"].as_str().unwrap_or_default()),
                    truth["object"].as_str().unwrap(),
                    "{object}"
                );
                let said = format!("{} {}", post["summary"], post["rootCause"]).to_lowercase();
                for word in truth["words"].as_array().unwrap() {
                    assert!(said.contains(&word.as_str().unwrap().to_lowercase()), "{name} {variant}: {word}: {said}");
                }
            }
            if variant != "right" {
                let all = object["status"].to_string();
                for text in [GHOST, "4711", "flux capacitor", "n-7", "Everything else", "memory leak"] {
                    assert!(!all.contains(text), "{name} {variant}: {text} is published: {all}");
                }
                assert!(post["droppedClaims"].as_i64().unwrap() >= if variant == "mixed" { 5 } else { 1 }, "{object}");
            }
            kubectl(&["-n", SYSTEM, "delete", "model", &format!("{name}.{variant}")]);
        }
    }
    println!("{table}");
}

/// A provider on this machine, reached from pods by the node's address. The path says how it fails.
struct Provider {
    base: String,
    asked: Arc<AtomicUsize>,
    keys: Arc<Mutex<Vec<String>>>,
    _runtime: tokio::runtime::Runtime,
}

#[derive(Clone)]
struct Told {
    asked: Arc<AtomicUsize>,
    keys: Arc<Mutex<Vec<String>>>,
}

fn provider() -> Provider {
    let node = get(&["get", "nodes"]);
    let addresses = node["items"][0]["status"]["addresses"].as_array().unwrap();
    let ip = addresses.iter().find(|a| a["type"] == "InternalIP").unwrap()["address"].as_str().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let told = Told { asked: Arc::default(), keys: Arc::default() };
    let app = Router::new().route("/{mode}/v1/chat/completions", post(serve)).with_state(told.clone());
    let listener = runtime.block_on(async { tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap() });
    let port = listener.local_addr().unwrap().port();
    runtime.spawn(async move { axum::serve(listener, app).await.unwrap() });
    Provider { base: format!("http://{ip}:{port}"), asked: told.asked, keys: told.keys, _runtime: runtime }
}

async fn serve(State(told): State<Told>, axum::extract::Path(mode): axum::extract::Path<String>, headers: HeaderMap, body: String) -> Response {
    let n = told.asked.fetch_add(1, Ordering::SeqCst);
    let key = headers.get("authorization").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    told.keys.lock().unwrap().push(key);
    let request: Value = serde_json::from_str(&body).unwrap();
    let looked = request["messages"].as_array().unwrap().iter().any(|m| m["role"] == "tool");
    let response = |status: u16, body: Value| Response::builder().status(status).body(Body::from(body.to_string())).unwrap();
    let calls = |name: &str, arguments: Value| {
        let call = json!({"id": "x", "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
        response(
            200,
            json!({"choices": [{"finish_reason": "tool_calls", "message": {"content": null, "tool_calls": [call]}}], "usage": {"prompt_tokens": 900, "completion_tokens": 60, "prompt_tokens_details": {"cached_tokens": 500}}}),
        )
    };
    let well = || {
        if looked {
            calls(
                "conclude",
                json!({"outcome": "cause", "statement": "ConfigMap orders-settings does not exist.", "object": {"kind": "ConfigMap", "name": "orders-settings"},
                       "signature": "configmap \"orders-settings\" not found", "citations": [{"evidence": "e1", "quote": "configmap \"orders-settings\" not found"}]}),
            )
        } else {
            calls("find_problems", json!({"kind": "Deployment", "name": "orders"}))
        }
    };
    match mode.as_str() {
        "busy" if n == 0 => {
            let mut r = response(429, json!({"error": {"message": "slow down"}}));
            r.headers_mut().insert("retry-after", "2".parse().unwrap());
            r
        }
        "down" => response(503, json!({"error": {"message": "no capacity"}})),
        "refuses" => response(
            200,
            json!({"choices": [{"finish_reason": "content_filter", "message": {"content": ""}}], "usage": {"prompt_tokens": 900, "completion_tokens": 1}}),
        ),
        "babbles" => response(
            200,
            json!({"choices": [{"finish_reason": "stop", "message": {"content": "It is always DNS."}}], "usage": {"prompt_tokens": 900, "completion_tokens": 9}}),
        ),
        "html" => response(200, json!("<html>")),
        "slow" => {
            tokio::time::sleep(Duration::from_secs(20)).await;
            well()
        }
        "lies" => {
            let mut r = well();
            let text = axum::body::to_bytes(std::mem::take(r.body_mut()), 1 << 20).await.unwrap();
            let mut value: Value = serde_json::from_slice(&text).unwrap();
            value["usage"] = json!({"prompt_tokens": 900, "completion_tokens": 5_000_000});
            response(200, value)
        }
        _ => well(),
    }
}

fn hosted(name: &str, provider: &Provider, mode: &str, more: &str) {
    model(
        name,
        &format!(
            "{{provider: OpenAI, model: some-1, baseURL: '{}/{mode}/v1', timeout: 2s, price: {{inputPerMillionUSD: '1', cachedInputPerMillionUSD: '0.1', outputPerMillionUSD: '4'}}, allowedNamespaces: {{from: All}}{more}}}",
            provider.base
        ),
    );
}

fn asks(namespace: &str, name: &str, model: &str) -> Value {
    investigate(
        namespace,
        name,
        &format!("{{target: {{kind: Deployment, name: orders}}, modelRef: {{name: {model}, namespace: {SYSTEM}}}, budget: {{maxDuration: 1m}}}}"),
    );
    ended(namespace, name)
}

/// The row of `kubectl get`, and the conditions and events of `kubectl describe`.
fn shown(namespace: &str, name: &str) -> String {
    let row = kubectl(&["-n", namespace, "get", "investigation", name, "-o", "wide"]);
    let described = kubectl(&["-n", namespace, "describe", "investigation", name]);
    let events = described.split_once("\nEvents:").map(|(_, e)| e).unwrap_or_default();
    let notable: String =
        events.lines().filter(|l| l.contains("Model") || l.contains("Usage") || l.contains("Capped")).fold(String::new(), |all, l| all + l + "\n");
    format!("{row}{notable}")
}

/// S1.13: each failure as a user sees it, with and without the playbooks to fall back on.
#[test]
fn s1_13_what_a_user_sees_when_a_model_fails() {
    let namespace = &scenario("configmap-missing");
    let provider = provider();
    for (mode, reason) in [
        ("well", ""),
        ("busy", ""),
        ("lies", ""),
        ("down", "Unavailable"),
        ("refuses", "Refused"),
        ("babbles", "MalformedReply"),
        ("html", "InvalidResponse"),
        ("slow", "Timeout"),
    ] {
        provider.asked.store(0, Ordering::SeqCst);
        hosted(mode, &provider, mode, "");
        let object = asks(namespace, &format!("model-{mode}"), mode);
        let text = shown(namespace, &format!("model-{mode}"));
        println!("--- {mode}\n{text}");
        let status = &object["status"];
        assert_eq!((phase(&object), status["postmortem"]["rootCause"]["object"]["name"].as_str()), ("Concluded", Some("orders-settings")), "{object}");
        if reason.is_empty() {
            assert_eq!(
                (status["investigator"]["kind"].as_str(), status["investigator"]["model"].as_str()),
                (Some("chat"), Some(format!("{SYSTEM}/{mode}").as_str())),
                "{object}"
            );
            assert_eq!(
                (status["usage"]["inputTokens"].as_i64(), status["usage"]["cachedTokens"].as_i64()),
                if mode == "lies" { (Some(1800), Some(0)) } else { (Some(1800), Some(1000)) },
                "{object}"
            );
        } else {
            assert_eq!(
                (status["investigator"]["kind"].as_str(), status["investigator"]["fallbackFrom"].as_str()),
                (Some("playbook"), Some(format!("Model {SYSTEM}/{mode}").as_str())),
                "{object}"
            );
            assert!(condition(&object, "Degraded").starts_with("ModelFallback") && condition(&object, "Degraded").contains(reason), "{object}");
            assert!(text.contains("ModelFallback") && text.contains(reason), "{text}");
            assert!(
                status["postmortem"]["notChecked"].to_string().contains(reason)
                    && status["postmortem"]["markdown"].as_str().unwrap().contains("in place of Model"),
                "{object}"
            );
        }
        if mode == "busy" {
            assert!(text.contains("RateLimited") && text.contains("asked again at"), "{text}");
        }
        assert_eq!(text.contains("UsageBeyondLimit"), mode == "lies", "{text}");
    }
    // Without the playbooks: Failed, with the reason.
    hosted("alone", &provider, "refuses", ", fallback: None");
    let object = asks(namespace, "model-alone", "alone");
    println!("--- refuses, fallback: None\n{}", shown(namespace, "model-alone"));
    assert_eq!((phase(&object), object["status"]["stopReason"].as_str()), ("Failed", Some("Failed")), "{object}");
    assert!(object["status"]["postmortem"]["refusal"].as_str().unwrap().contains("Refused"), "{object}");
    // One that goes on failing is let alone, and says so; others are not.
    asks(namespace, "model-down-2", "down");
    let breaker = until("the breaker opens", 20, || Some(get(&["-n", SYSTEM, "get", "model", "down"])).filter(|m| m["status"]["breaker"] == "Open"));
    assert!(condition(&breaker, "Ready").starts_with("BreakerOpen") && condition(&breaker, "Ready").contains("503"), "{breaker}");
    provider.asked.store(0, Ordering::SeqCst);
    let object = asks(namespace, "model-down-3", "down");
    assert!(condition(&object, "Degraded").contains("BreakerOpen"), "{object}");
    assert_eq!(provider.asked.load(Ordering::SeqCst), 0, "it is not asked at all");
    println!("{}", kubectl(&["-n", SYSTEM, "get", "models", "-o", "wide"]));
    assert_eq!(get(&["-n", SYSTEM, "get", "model", "well"])["status"]["breaker"], "Closed");
    let metrics = kubectl(&["get", "--raw", &format!("/api/v1/namespaces/{SYSTEM}/services/inquest-operator:8080/proxy/metrics")]);
    for line in [
        "inquest_model_requests_total{model=\"inquest-system/well\",result=\"ok\"} 2",
        "inquest_model_tokens_total{model=\"inquest-system/well\",type=\"cached\"} 1000",
        "inquest_model_fallbacks_total{model=\"inquest-system/slow\",reason=\"Timeout\"} 1",
        "inquest_model_breaker_open{model=\"inquest-system/down\"} 1",
        "inquest_model_cost_usd_total{model=\"inquest-system/well\"} 0.00138",
    ] {
        assert!(metrics.contains(line), "{line}\n{}", metrics.lines().filter(|l| l.starts_with("inquest_model")).collect::<Vec<_>>().join("\n"));
    }
    for mode in ["well", "busy", "lies", "down", "refuses", "babbles", "html", "slow", "alone"] {
        kubectl(&["-n", SYSTEM, "delete", "model", mode]);
    }
}

/// A key is read from its Secret again, without a restart; one that is missing is named.
#[test]
fn a_key_that_is_changed_is_used_within_half_a_minute() {
    let namespace = &scenario("configmap-missing");
    let provider = provider();
    kubectl(&["-n", SYSTEM, "delete", "secret", "inquest-model-key", "--ignore-not-found"]);
    hosted("keyed", &provider, "well", ", apiKeySecretRef: {name: inquest-model-key, key: token}");
    let problem = until("the Model is not ready", 20, || Some(condition(&get(&["-n", SYSTEM, "get", "model", "keyed"]), "Ready")).filter(|c| !c.is_empty()));
    assert!(problem.contains("spec.apiKeySecretRef") && problem.contains("does not exist"), "{problem}");
    let key =
        |value: &str| apply(SYSTEM, &format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: inquest-model-key}}\nstringData: {{token: \"{value}\\n\"}}\n"));
    key("first-key-of-two");
    until("the Model is ready", 30, || condition(&get(&["-n", SYSTEM, "get", "model", "keyed"]), "Ready").starts_with("Valid").then_some(()));
    let one = asks(namespace, "keyed-1", "keyed");
    assert_eq!(one["status"]["investigator"]["kind"], "chat", "{one}");
    key("second-key-of-two");
    std::thread::sleep(Duration::from_secs(31));
    asks(namespace, "keyed-2", "keyed");
    let keys = provider.keys.lock().unwrap().clone();
    assert!(keys[0] == "Bearer first-key-of-two" && keys.last().unwrap() == "Bearer second-key-of-two", "{keys:?}");
    let everywhere = format!(
        "{}{}{}",
        kubectl(&["get", "investigations,models,events", "-A", "-o", "json"]),
        kubectl(&["get", "investigationjournals", "-A", "-o", "json"]),
        kubectl(&["-n", SYSTEM, "logs", "deploy/inquest-operator"])
    );
    assert!(!everywhere.contains("key-of-two"), "the key is nowhere but in its Secret");
    // A Secret that the chart does not name may not be read, and that is said.
    hosted("forbidden", &provider, "well", ", apiKeySecretRef: {name: inquest-signing-keys-of-others, key: token}");
    let problem =
        until("the Model is not ready", 20, || Some(condition(&get(&["-n", SYSTEM, "get", "model", "forbidden"]), "Ready")).filter(|c| !c.is_empty()));
    assert!(problem.contains("may not be read by the operator"), "{problem}");
    for name in ["keyed", "forbidden"] {
        kubectl(&["-n", SYSTEM, "delete", "model", name]);
    }
}
