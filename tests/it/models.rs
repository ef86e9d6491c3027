//! Models over real HTTP: both wire forms, whole and streamed, and a provider that fails in each way that providers fail.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use inquest::{
    agent::{Again, Caps, Control, Entry, Journal, Mind, PlannedCall, Prices, Received, ToolRef},
    api::{BudgetSpec, Fallback, MicroUsd, Outcome, Phase, Postmortem, Protocol, Provider, StopReason},
    grounding::Draft,
    http_client,
    investigators::{
        Case, Script,
        chat::{Chat, ChatReply, ChatRequest, Failure, Finish, Message, ModelCall, plain},
    },
    models::{Client, Gate, Key, Line, Settings, StaticKey},
    runner::{self, ModelCaller, Parts, Stepped, ToolCaller, postmortem, step},
    store::{JournalStore, MemoryStore, RunId},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;

type Answer = Arc<dyn Fn(usize, &Value, &HeaderMap) -> Response + Send + Sync>;

/// A provider that answers the n-th request as it is told.
pub struct Fake {
    pub address: SocketAddr,
    pub asked: Arc<AtomicUsize>,
    pub bodies: Arc<Mutex<Vec<Value>>>,
}

#[derive(Clone)]
struct Told {
    answer: Answer,
    asked: Arc<AtomicUsize>,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Fake {
    pub async fn start(answer: impl Fn(usize, &Value, &HeaderMap) -> Response + Send + Sync + 'static) -> Self {
        let told = Told { answer: Arc::new(answer), asked: Arc::default(), bodies: Arc::default() };
        let (asked, bodies) = (Arc::clone(&told.asked), Arc::clone(&told.bodies));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().route("/v1/chat/completions", post(serve)).route("/v1/messages", post(serve)).with_state(told);
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, asked, bodies }
    }
}

async fn serve(State(told): State<Told>, headers: HeaderMap, body: String) -> Response {
    let n = told.asked.fetch_add(1, Ordering::SeqCst);
    let body: Value = serde_json::from_str(&body).unwrap();
    told.bodies.lock().unwrap().push(body.clone());
    (told.answer)(n, &body, &headers)
}

pub fn settings(address: SocketAddr, provider: Provider) -> Settings {
    Settings {
        provider,
        base_url: format!("http://{address}/v1"),
        model: "m-1".into(),
        temperature: 0.0,
        seed: 1,
        stream: false,
        timeout: Duration::from_millis(800),
        key_header: String::new(),
        headers: BTreeMap::from([("x-team".to_owned(), "sre".to_owned())]),
        script: None,
    }
}

pub fn client(settings: Settings) -> Client {
    inquest::identity::install_crypto();
    Client::new(settings, http_client::for_endpoint(None, "").unwrap()).unwrap()
}

pub fn request() -> ChatRequest {
    let call = |id: &str| ModelCall { id: id.into(), name: "find".into(), arguments: "{\"n\":1}".into() };
    let tool = |id: &str| Message::Tool { call: id.into(), name: "find".into(), text: "<evidence/>".into() };
    ChatRequest {
        system: "rules".into(),
        messages: vec![
            Message::User { text: "why".into() },
            Message::Assistant { text: String::new(), calls: vec![call("c1"), call("c2")] },
            tool("c1"),
            tool("c2"),
        ],
        tools: vec![plain("find", "Finds.", &json!({"type": "object"})), plain("conclude", "Ends.", &json!({"type": "object"}))],
        force: None,
        json: false,
        max_output: 77,
        step: 2,
    }
}

fn ok(value: Value) -> Response {
    axum::Json(value).into_response()
}

fn events(events: &[Value], done: bool) -> Response {
    let mut text: String = events.iter().map(|e| format!("event: x\ndata: {e}\n\n")).collect();
    if done {
        text.push_str("data: [DONE]\n\n");
    }
    ([("content-type", "text/event-stream")], text).into_response()
}

#[tokio::test]
async fn s3_8_chat_completions_are_spoken_whole_and_streamed() {
    let fake = Fake::start(|n, _, headers| {
        assert_eq!((&headers["authorization"], &headers["x-team"]), (&"Bearer k-1".parse().unwrap(), &"sre".parse().unwrap()));
        if n == 0 {
            // As LiteLLM does: "stop" with tool calls. As vLLM does: no index, no type.
            return ok(json!({"choices": [{"finish_reason": "stop", "message": {"content": null, "tool_calls": [{"id": "a", "function": {"name": "find", "arguments": "{\"n\":2}"}}]}}],
                             "usage": {"prompt_tokens": 90, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 64}}}));
        }
        events(
            &[
                json!({"choices": [{"delta": {"role": "assistant", "content": "Let "}}]}),
                json!({"choices": [{"delta": {"content": "me.", "tool_calls": [{"index": 0, "id": "a", "function": {"name": "find", "arguments": "{\"n\""}}]}}]}),
                json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ":2}"}}, {"index": 1, "function": {"name": "find", "arguments": "{}"}}]}}]}),
                json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
                json!({"choices": [], "usage": {"prompt_tokens": 90, "completion_tokens": 12}}),
            ],
            true,
        )
    })
    .await;
    let key = Key::new("k-1\n");
    let whole = client(settings(fake.address, Provider::OpenAI)).ask(Some(&key), &request()).await.unwrap();
    assert_eq!((whole.calls[0].name.as_str(), whole.calls[0].arguments.as_str(), whole.usage.cached), ("find", "{\"n\":2}", Some(64)));
    let streamed = client(Settings { stream: true, ..settings(fake.address, Provider::OpenAI) }).ask(Some(&key), &request()).await.unwrap();
    assert_eq!((streamed.text.as_str(), streamed.calls.len(), streamed.calls[0].arguments.as_str()), ("Let me.", 2, "{\"n\":2}"));
    assert_eq!((streamed.usage.input, streamed.usage.output), (Some(90), Some(12)));
    let sent = fake.bodies.lock().unwrap();
    assert_eq!(
        (&sent[0]["model"], &sent[0]["max_tokens"], &sent[0]["temperature"], &sent[0]["seed"], &sent[0]["stream"]),
        (&json!("m-1"), &json!(77), &json!(0.0), &json!(1), &Value::Null)
    );
    assert_eq!((&sent[1]["stream"], &sent[1]["stream_options"]), (&json!(true), &json!({"include_usage": true})));
    assert_eq!(sent[0]["messages"][2]["tool_calls"][1]["id"], "c2");
    assert_eq!(sent[0]["messages"][4], json!({"role": "tool", "tool_call_id": "c2", "content": "<evidence/>"}));
    assert_eq!(sent[0]["tools"][0]["function"]["name"], "find");
}

#[tokio::test]
async fn messages_are_spoken_whole_and_streamed_with_the_cache_marked() {
    let fake = Fake::start(|n, _, headers| {
        assert_eq!((&headers["x-api-key"], &headers["anthropic-version"]), (&"k-1".parse().unwrap(), &"2023-06-01".parse().unwrap()));
        if n == 0 {
            return ok(json!({"content": [{"type": "text", "text": "Hm."}, {"type": "tool_use", "id": "t", "name": "find", "input": {"n": 2}}], "stop_reason": "tool_use",
                             "usage": {"input_tokens": 10, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 50, "output_tokens": 9}}));
        }
        events(
            &[
                json!({"type": "message_start", "message": {"usage": {"input_tokens": 10, "cache_read_input_tokens": 80, "output_tokens": 1}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hm."}}),
                json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "find", "input": {}}}),
                json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"n\":"}}),
                json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "2}"}}),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 12}}),
                json!({"type": "message_stop"}),
            ],
            false,
        )
    })
    .await;
    let key = Key::new("k-1");
    let whole = client(settings(fake.address, Provider::Anthropic)).ask(Some(&key), &request()).await.unwrap();
    assert_eq!((whole.text.as_str(), whole.calls[0].arguments.as_str()), ("Hm.", "{\"n\":2}"));
    assert_eq!((whole.usage.input, whole.usage.cached, whole.usage.cache_write, whole.usage.output), (Some(90), Some(50), Some(30), Some(9)));
    let streamed = client(Settings { stream: true, ..settings(fake.address, Provider::Anthropic) }).ask(Some(&key), &request()).await.unwrap();
    assert_eq!((streamed.text.as_str(), streamed.calls[0].arguments.as_str()), ("Hm.", "{\"n\":2}"));
    assert_eq!((streamed.usage.input, streamed.usage.cached, streamed.usage.output), (Some(90), Some(80), Some(12)));
    let sent = fake.bodies.lock().unwrap();
    assert_eq!(sent[0]["system"][0]["cache_control"]["type"], "ephemeral");
    let messages = sent[0]["messages"].as_array().unwrap();
    assert_eq!(messages.iter().map(|m| m["role"].as_str().unwrap()).collect::<Vec<_>>(), ["user", "assistant", "user"], "sides alternate");
    assert_eq!((messages[2]["content"].as_array().unwrap().len(), &messages[2]["content"][1]["cache_control"]["type"]), (2, &json!("ephemeral")));
    assert_eq!(messages[1]["content"][0]["input"], json!({"n": 1}));
}

fn status(code: u16, headers: &[(&str, &str)], body: &Value) -> Response {
    let mut builder = Response::builder().status(StatusCode::from_u16(code).unwrap());
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Body::from(body.to_string())).unwrap()
}

/// Its name, whether it is tried again, whether it may be billed, a word of its message, and the provider's answer.
type Failing = (&'static str, Again, bool, &'static str, Box<dyn Fn() -> Response + Send + Sync>);

/// What each failure is called, whether it may be tried again, and whether it may have been billed.
#[tokio::test]
async fn s1_13_each_failure_has_its_name_and_says_what_to_do() {
    let cut = || {
        Response::builder().header("content-type", "text/event-stream").body(Body::from("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")).unwrap()
    };
    let error = |code: u16, message: &'static str| move || status(code, &[], &json!({"error": {"message": message, "code": "some_code"}}));
    let cases: Vec<Failing> = vec![
        (
            "RateLimited",
            Again::After(Duration::from_secs(7)),
            false,
            "asked too often",
            Box::new(|| status(429, &[("retry-after", "7")], &json!({"error": {"message": "slow down"}}))),
        ),
        ("RateLimited", Again::After(Duration::from_millis(250)), false, "asked too often", Box::new(|| status(429, &[("retry-after-ms", "250")], &json!({})))),
        ("RateLimited", Again::Soon, false, "asked too often", Box::new(error(429, "slow down"))),
        ("QuotaExhausted", Again::Never, false, "quota", Box::new(error(429, "You exceeded your current quota"))),
        ("Unavailable", Again::Soon, false, "500", Box::new(error(500, "oops"))),
        ("Unavailable", Again::After(Duration::from_secs(3)), false, "503", Box::new(|| status(503, &[("retry-after", "3")], &json!("busy")))),
        (
            "Unauthorized",
            Again::Never,
            false,
            "spec.apiKeySecretRef",
            Box::new(error(401, "Incorrect API key provided: sk-proj-abcdefghijklmnopqrstuvwxyz0123456789")),
        ),
        ("ModelNotFound", Again::Never, false, "spec.model", Box::new(error(404, "no such model"))),
        ("BadRequest", Again::Never, false, "strange", Box::new(error(400, "a strange field"))),
        ("ContextOverflow", Again::Smaller, false, "longer than the model takes", Box::new(error(400, "This model's maximum context length is 8192 tokens"))),
        ("ContextOverflow", Again::Smaller, false, "longer", Box::new(error(400, "the request exceeds the available context size"))),
        ("Redirected", Again::Never, false, "spec.baseURL", Box::new(|| status(302, &[("location", "http://evil.example/")], &json!({})))),
        ("InvalidResponse", Again::Soon, true, "no JSON", Box::new(|| "<html>".into_response())),
        ("InvalidResponse", Again::Soon, true, "without an answer", Box::new(|| ok(json!({"choices": []})))),
        ("Unavailable", Again::Soon, true, "502", Box::new(|| ok(json!({"error": {"message": "upstream", "code": 502}})))),
        ("Cut", Again::Soon, true, "ended before", Box::new(cut)),
        (
            "Timeout",
            Again::Soon,
            true,
            "spec.timeout",
            Box::new(|| Response::new(Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>()))),
        ),
    ];
    for (reason, again, billed, word, answer) in cases {
        let fake = Fake::start(move |_, _, _| answer()).await;
        let failure = client(settings(fake.address, Provider::OpenAI)).ask(None, &request()).await.unwrap_err();
        assert_eq!((failure.reason, failure.again, failure.billed), (reason, again, billed), "{failure:?}");
        assert!(failure.message.contains(word) && !failure.message.contains("sk-proj-abcdef"), "{failure:?}");
        println!("{reason:16} {}", failure.message.replace(&fake.address.to_string(), "model:80"));
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let failure = client(settings(nobody, Provider::OpenAI)).ask(None, &request()).await.unwrap_err();
    assert_eq!((failure.reason, failure.billed), ("Unreachable", false), "{failure:?}");
}

/// The catalogue of one tool, which finds a problem.
struct Tools;

const PROBLEM: &str = r#"{"summary":"1 problem","problems":[{"kind":"Pod","name":"api-7d9f4-x2x4v","workload":"Deployment/api","reason":"OOMKilled","message":"container api was OOMKilled with limit 64Mi"}]}"#;

impl ToolCaller for Tools {
    fn call<'a>(&'a self, _call: &'a PlannedCall, _server: &'a str) -> futures::future::BoxFuture<'a, Received> {
        Box::pin(async { Received { at: Timestamp::UNIX_EPOCH, text: PROBLEM.to_owned(), truncated: false, code: None } })
    }
}

fn call(name: &str, arguments: &Value) -> Value {
    json!({"id": "x", "type": "function", "function": {"name": name, "arguments": arguments.to_string()}})
}

fn calls(calls: &[Value]) -> Response {
    ok(json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null, "tool_calls": calls}}],
              "usage": {"prompt_tokens": 1200, "completion_tokens": 40}}))
}

fn says(text: &str, finish: &str) -> Response {
    ok(
        json!({"choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}], "usage": {"prompt_tokens": 1200, "completion_tokens": 40}}),
    )
}

fn right() -> Value {
    json!({"outcome": "cause", "statement": "Deployment api runs out of its memory limit of 64Mi: OOMKilled.", "object": {"kind": "Deployment", "name": "api"}, "signature": "OOMKilled",
           "citations": [{"evidence": "e1", "quote": "container api was OOMKilled with limit 64Mi"}, {"evidence": "e1", "quote": "Deployment/api"}]})
}

pub struct Run {
    pub journal: Journal,
    pub stop: StopReason,
    pub post: Postmortem,
}

impl Run {
    pub fn failures(&self) -> Vec<&str> {
        self.journal.records().iter().filter_map(|r| if let Entry::DecisionFailed { reason, .. } = &r.entry { Some(reason.as_str()) } else { None }).collect()
    }
    pub fn fell_back(&self) -> &str {
        self.journal.fell_back().map_or("", |(reason, _)| reason)
    }
    fn phase(&self) -> Phase {
        match (self.stop, self.post.outcome) {
            (_, Outcome::RootCauseFound | Outcome::Healthy) => Phase::Concluded,
            (StopReason::Failed, _) => Phase::Failed,
            _ => Phase::Inconclusive,
        }
    }
}

pub fn line(settings: Settings) -> Line {
    Line { client: client(settings), keys: Arc::new(StaticKey(None)), gate: Arc::new(Gate::new(8, 0)), observer: None }
}

/// A whole run against this provider. Waits are not waited for: the clock is moved.
pub async fn whole(settings: Settings, protocol: Protocol, fallback: Fallback) -> Run {
    whole_with(line(settings), protocol, fallback).await
}

pub async fn whole_with(line: Line, protocol: Protocol, fallback: Fallback) -> Run {
    let prices = Prices { input: MicroUsd(150_000), cached_input: MicroUsd(75_000), cache_write: MicroUsd(150_000), output: MicroUsd(600_000) };
    let chat = Chat { name: "demo/m".into(), protocol, max_output: 300, context: 16_000, prices };
    // What playbooks would say, so that it can be told apart.
    let rules = Script { moves: vec![], last: Draft::unknown("the playbooks were asked") };
    let caps = Caps::try_from(&BudgetSpec::default()).unwrap();
    let case = Case { namespace: "demo".into(), question: "Why is Deployment api down?".into(), ..Case::default() };
    let catalogue = [ToolRef { server: "s/k".into(), tool: "find_problems".into() }];
    let schemas = [plain("find_problems", "Lists problems.", &json!({"type": "object"}))];
    let ahead = std::sync::atomic::AtomicU64::new(0);
    let clock = || Timestamp::now() + Duration::from_millis(ahead.load(Ordering::SeqCst));
    let mut open = MemoryStore::default().open(&RunId::default()).await.unwrap();
    let control = Control { caps, suspend: false, cancel: false, mind: Mind::Model { fallback } };
    let model = Some(runner::Model { chat: &chat, caller: &line as &dyn ModelCaller });
    let parts = Parts { case: &case, control, investigator: &rules, model, tools: &Tools, catalogue: &catalogue, schemas: &schemas };
    for _ in 0..200 {
        match step(open.as_mut(), &parts, &clock).await.unwrap() {
            Stepped::Finished => {
                let (stop, post) = postmortem(&case, open.journal()).unwrap();
                return Run { journal: open.journal().clone(), stop, post };
            }
            Stepped::Later(wait) => {
                ahead.fetch_add(u64::try_from(wait.as_millis()).unwrap() + 1, Ordering::SeqCst);
                // The gate's clock is the real one.
                tokio::time::sleep(wait.min(Duration::from_millis(60))).await;
            }
            _ => {}
        }
    }
    panic!("the run does not end");
}

async fn against(fallback: Fallback, answer: impl Fn(usize, &Value) -> Response + Send + Sync + 'static) -> (Run, usize) {
    let fake = Fake::start(move |n, body, _| answer(n, body)).await;
    let run = whole(settings(fake.address, Provider::OpenAI), Protocol::Tools, fallback).await;
    (run, fake.asked.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_model_looks_concludes_and_pays() {
    let (run, asked) =
        against(Fallback::None, |n, _| if n == 0 { calls(&[call("find_problems", &json!({}))]) } else { calls(&[call("conclude", &right())]) }).await;
    assert_eq!((run.stop, run.post.outcome, asked), (StopReason::Done, Outcome::RootCauseFound, 2), "{:?}", run.post);
    let spent = run.journal.committed();
    assert_eq!((spent.input_tokens, spent.output_tokens, spent.cost), (2400, 80, MicroUsd(2 * (180 + 24))));
}

/// S3.7: the strict-JSON protocol, one repair, then an error.
#[tokio::test]
async fn s3_7_a_model_without_tool_calling_speaks_json() {
    let fake = Fake::start(|n, body, _| {
        assert!(body.get("tools").is_none() && body["response_format"]["type"] == "json_object", "{body}");
        match n {
            0 => says(r#"{"thought": "look", "action": {"tool": "find_problems", "arguments": {}}}"#, "stop"),
            1 => says("I am sure that it is memory.", "stop"),
            _ => says(&json!({"thought": "so", "finish": right()}).to_string(), "stop"),
        }
    })
    .await;
    let run = whole(settings(fake.address, Provider::OpenAI), Protocol::JSON, Fallback::None).await;
    assert_eq!((run.stop, run.post.outcome), (StopReason::Done, Outcome::RootCauseFound), "{:?}", run.post);
    let last = fake.bodies.lock().unwrap()[2]["messages"].as_array().unwrap().last().unwrap().clone();
    assert!(last["content"].as_str().unwrap().contains("could not be used"), "{last}");

    let fake = Fake::start(|_, _, _| says("It is DNS.", "stop")).await;
    let run = whole(settings(fake.address, Provider::OpenAI), Protocol::JSON, Fallback::None).await;
    assert_eq!((run.stop, run.phase(), fake.asked.load(Ordering::SeqCst)), (StopReason::Failed, Phase::Failed, 2), "{:?}", run.post);
    assert!(run.post.refusal.contains("could not be used") && !run.post.refusal.contains("DNS"), "{}", run.post.refusal);
}

type Says = fn(usize, &Value) -> Response;

/// S1.13, and the list of failures: what becomes of the run, with each fallback.
#[tokio::test]
async fn s1_13_no_failure_of_a_model_crashes_an_investigation() {
    let look: Says = |n, _| if n == 0 { calls(&[call("find_problems", &json!({}))]) } else { calls(&[call("conclude", &right())]) };
    // Name, answer, what is recorded, why the playbooks took over (empty: they did not).
    let cases: Vec<(&str, Says, &[&str], &str)> = vec![
        (
            "429 and then well",
            |n, _| {
                if n == 0 {
                    status(429, &[("retry-after-ms", "40")], &json!({}))
                } else if n == 1 {
                    calls(&[call("find_problems", &json!({}))])
                } else {
                    calls(&[call("conclude", &right())])
                }
            },
            &["RateLimited"],
            "",
        ),
        ("500 for ever", |_, _| status(500, &[], &json!({})), &["Unavailable"; 4], "Unavailable"),
        (
            "cut in the middle",
            |n, _| {
                if n == 1 {
                    Response::builder().header("content-type", "text/event-stream").body(Body::from("data: {}\n\n")).unwrap()
                } else if n == 0 {
                    calls(&[call("find_problems", &json!({}))])
                } else {
                    calls(&[call("conclude", &right())])
                }
            },
            &["Cut"],
            "",
        ),
        ("no JSON for ever", |_, _| "<html>".into_response(), &["InvalidResponse"; 4], "InvalidResponse"),
        ("a wrong key", |_, _| status(401, &[], &json!({})), &["Unauthorized"], "Unauthorized"),
        (
            "broken arguments once",
            |n, _| match n {
                0 => calls(&[json!({"id": "x", "function": {"name": "find_problems", "arguments": "{\"a\": "}})]),
                1 => calls(&[call("find_problems", &json!({}))]),
                _ => calls(&[call("conclude", &right())]),
            },
            &[],
            "",
        ),
        (
            "an unknown tool once",
            |n, _| match n {
                0 => calls(&[call("delete_pod", &json!({"name": "api"}))]),
                1 => calls(&[call("find_problems", &json!({}))]),
                _ => calls(&[call("conclude", &right())]),
            },
            &[],
            "",
        ),
        (
            "fifty calls in a batch",
            |n, _| {
                if n == 0 {
                    let many: Vec<Value> = (0..50).map(|i| call("find_problems", &json!({"n": i}))).collect();
                    calls(&many)
                } else {
                    calls(&[call("conclude", &right())])
                }
            },
            &[],
            "",
        ),
        ("empty answers", |_, _| says("", "stop"), &[], "MalformedReply"),
        ("words and no calls", |_, _| says("I would restart it.", "stop"), &[], "MalformedReply"),
        (
            "cut at the output limit",
            |_, _| calls(&[json!({"id": "x", "function": {"name": "conclude", "arguments": "{\"outcome\": \"ca"}})]),
            &[],
            "MalformedReply",
        ),
        (
            "a refusal",
            |_, _| {
                ok(
                    json!({"choices": [{"finish_reason": "stop", "message": {"refusal": "I can't help with that."}}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}),
                )
            },
            &["Refused"],
            "Refused",
        ),
        ("a content filter", |_, _| says("", "content_filter"), &["Refused"], "Refused"),
        ("the same call for ever", |_, _| calls(&[call("find_problems", &json!({}))]), &[], "StepCap"),
        (
            "a prompt that is too long once",
            |n, _| {
                if n == 1 {
                    status(400, &[], &json!({"error": {"message": "maximum context length"}}))
                } else if n == 0 {
                    calls(&[call("find_problems", &json!({}))])
                } else {
                    calls(&[call("conclude", &right())])
                }
            },
            &["ContextOverflow"],
            "",
        ),
        (
            "a prompt that is always too long",
            |_, _| status(400, &[], &json!({"error": {"message": "maximum context length"}})),
            &["ContextOverflow"; 3],
            "ContextOverflow",
        ),
        (
            "a claim that is not proved",
            |n, _| {
                if n == 0 {
                    calls(&[call("find_problems", &json!({}))])
                } else {
                    let mut lie = right();
                    lie["statement"] = json!("Pod ghost-1 has no memory: OOMKilled.");
                    calls(&[call("conclude", &lie)])
                }
            },
            &[],
            "Unproved",
        ),
        (
            "nothing to say",
            |n, _| if n == 0 { calls(&[call("find_problems", &json!({}))]) } else { calls(&[call("conclude", &json!({"outcome": "unknown"}))]) },
            &[],
            "Undecided",
        ),
        ("well", look, &[], ""),
    ];
    for (what, answer, failures, fell_back) in cases {
        let (run, asked) = against(Fallback::Playbook, answer).await;
        println!(
            "{what:34} asked {asked:>2}, {:12} {:?}, ${}, {}",
            format!("{:?}", run.phase()),
            run.stop,
            run.journal.committed().cost,
            run.journal.fell_back().map_or(String::new(), |(r, m)| format!("{r}: {m}"))
        );
        assert_eq!((run.failures(), run.fell_back()), (failures.to_vec(), fell_back), "{what}: {:?}", run.post);
        assert_eq!(run.post.outcome == Outcome::RootCauseFound, fell_back.is_empty(), "{what}: {:?}", run.post);
        // What the model said unproved is in no word of the postmortem.
        assert!(!serde_json::to_string(&run.post).unwrap().contains("ghost"), "{what}: {:?}", run.post);
        if !fell_back.is_empty() {
            assert!(
                run.post.refusal.contains("the playbooks were asked") && run.post.not_checked.iter().any(|l| l.contains(fell_back)),
                "{what}: {:?}",
                run.post
            );
        }
        assert!(run.journal.committed().tool_calls <= 8);
        let (alone, _) = against(Fallback::None, answer).await;
        assert_eq!(alone.fell_back(), "", "{what}");
        assert!(!alone.post.refusal.contains("the playbooks were asked"), "{what}: {:?}", alone.post);
        assert_eq!(
            alone.phase() == Phase::Failed,
            matches!(fell_back, "Unavailable" | "InvalidResponse" | "Unauthorized" | "MalformedReply" | "Refused"),
            "{what}: {:?}",
            alone.post
        );
    }
}

/// A provider whose usage cannot be: the run is charged what was reserved, and never more.
#[tokio::test]
async fn a_provider_that_lies_about_usage_costs_no_more_than_was_reserved() {
    for usage in [
        json!(null),
        json!({}),
        json!({"prompt_tokens": 0, "completion_tokens": 0}),
        json!({"prompt_tokens": -5, "completion_tokens": 1e300}),
        json!({"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX}),
    ] {
        let told = usage.clone();
        let (run, _) = against(Fallback::None, move |n, _| {
            let call = if n == 0 { call("find_problems", &json!({})) } else { call("conclude", &right()) };
            ok(json!({"choices": [{"message": {"tool_calls": [call]}}], "usage": told}))
        })
        .await;
        let reserved: u64 =
            run.journal.records().iter().filter_map(|r| if let Entry::DecisionReserved { worst, .. } = &r.entry { Some(worst.cost.0) } else { None }).sum();
        assert_eq!((run.stop, run.journal.committed().cost.0), (StopReason::Done, reserved), "{usage}");
        let beyond = run.journal.records().iter().any(|r| matches!(&r.entry, Entry::Decided { beyond, .. } if beyond.output_tokens > 0));
        assert_eq!(beyond, usage["prompt_tokens"].as_u64() == Some(u64::MAX), "{usage}");
    }
}

/// A key that was changed is read again when the old one is refused.
#[tokio::test]
async fn a_key_that_rotates_is_read_again() {
    struct Rotating(AtomicUsize);
    impl inquest::models::KeySource for Rotating {
        fn key(&self, fresh: bool) -> futures::future::BoxFuture<'_, Result<Option<Key>, Failure>> {
            if fresh {
                self.0.store(1, Ordering::SeqCst);
            }
            let key = if self.0.load(Ordering::SeqCst) == 0 { "old" } else { "new" };
            Box::pin(async move { Ok(Some(Key::new(key))) })
        }
    }
    let fake = Fake::start(|_, _, headers| if headers["authorization"] == "Bearer new" { says("hello", "stop") } else { status(401, &[], &json!({})) }).await;
    let line = Line { keys: Arc::new(Rotating(AtomicUsize::new(0))), ..line(settings(fake.address, Provider::OpenAI)) };
    let reply = line.ask(&request()).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("hello", Finish::Stop));
    let _: ChatReply = line.ask(&request()).await.unwrap();
    assert_eq!(fake.asked.load(Ordering::SeqCst), 3, "the new one is kept");
}

/// A proxy is asked for the model's address, and is the only one that is connected to.
#[tokio::test]
async fn a_model_is_reached_through_a_proxy() {
    inquest::identity::install_crypto();
    let proxy = Fake::start(|_, _, headers| {
        assert_eq!(headers["host"], "model.invalid");
        says("through the proxy", "stop")
    })
    .await;
    let settings = Settings { base_url: "http://model.invalid/v1".into(), ..settings(proxy.address, Provider::OpenAI) };
    let through = Client::new(settings.clone(), http_client::for_endpoint(None, &format!("http://{}", proxy.address)).unwrap()).unwrap();
    assert_eq!(through.ask(None, &request()).await.unwrap().text, "through the proxy");
    let failure = client(settings).ask(None, &request()).await.unwrap_err();
    assert_eq!(failure.reason, "Unreachable", "{failure:?}");
    assert!(http_client::for_endpoint(None, "::").unwrap_err().to_string().contains("spec.proxyURL"));
}

/// A server whose certificate only an authority of one's own signed: refused without it, trusted with it.
#[tokio::test]
async fn a_model_with_a_certificate_of_ones_own_is_trusted_where_it_is_named() {
    inquest::identity::install_crypto();
    let folder = std::env::temp_dir().join(format!("inquest-ca-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=model"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", &file("key.pem"), "-out", &file("ca.pem")])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = format!("{}/tests/interop/https.py", env!("CARGO_MANIFEST_DIR"));
    let mut server = std::process::Command::new("python3").args([&script, &file("ca.pem"), &file("key.pem"), &port.to_string()]).spawn().unwrap();
    for _ in 0..100 {
        if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let settings = Settings {
        base_url: format!("https://127.0.0.1:{port}/v1"),
        timeout: Duration::from_secs(5),
        ..settings(([127, 0, 0, 1], port).into(), Provider::OpenAI)
    };
    let failure = client(settings.clone()).ask(None, &request()).await.unwrap_err();
    assert!(failure.reason == "Unreachable" && failure.message.contains("certificate") && failure.message.contains("spec.tls"), "{failure:?}");
    let ca = std::fs::read_to_string(file("ca.pem")).unwrap();
    let trusting = Client::new(settings, http_client::for_endpoint(Some(&ca), "").unwrap()).unwrap();
    let reply = trusting.ask(None, &request()).await.unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(reply.text, "over TLS");
    assert!(http_client::for_endpoint(Some("no certificate"), "").unwrap_err().to_string().contains("spec.tls.caSecretRef"));
}
