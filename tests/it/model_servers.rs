//! S3.8: model servers that nobody here wrote, from a package registry: the LiteLLM proxy with completions and tool calls that it mocks, and
//! llama.cpp's server with a real model of 135 million parameters.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, LazyLock},
    time::Duration,
};

use inquest::{
    agent::Entry,
    api::{Fallback, Outcome, Protocol, Provider, StopReason},
    models::{Gate, Key, Line, Settings, StaticKey},
};

use crate::models::{client, request, settings, whole, whole_with};

static INSTALLED: LazyLock<PathBuf> = LazyLock::new(|| {
    let home = std::env::var_os("XDG_CACHE_HOME").map_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"), PathBuf::from);
    let folder = home.join("inquest/interop/models");
    assert!(folder.join("bin/python").exists(), "{}: run tests/services.sh", folder.display());
    folder
});

fn here(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(file)
}

struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Server {
    async fn start(what: &str, health: &str, command: impl FnOnce(u16) -> Command) -> Self {
        inquest::identity::install_crypto();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = command(port).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Self { child, port };
        let http = inquest::http_client::builder().unwrap().build().unwrap();
        for _ in 0..600 {
            if http.get(format!("http://127.0.0.1:{port}{health}")).send().await.is_ok_and(|r| r.status().is_success()) {
                return server;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{what} is not ready within a minute");
    }

    fn settings(&self, model: &str, stream: bool) -> Settings {
        Settings { model: model.into(), stream, timeout: Duration::from_secs(120), ..settings(([127, 0, 0, 1], self.port).into(), Provider::OpenAI) }
    }
}

const MASTER: &str = "sk-5d0c6fd7a3e94bd1a2f1c0e7";

async fn litellm() -> Server {
    Server::start("LiteLLM", "/health/liveliness", |port| {
        let mut command = Command::new(INSTALLED.join("bin/litellm"));
        command.args(["--config", here("litellm.yaml").to_str().unwrap(), "--host", "127.0.0.1", "--port", &port.to_string(), "--telemetry", "False"]);
        command.env("LITELLM_MASTER_KEY", MASTER).env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("DO_NOT_TRACK", "1");
        command
    })
    .await
}

fn keyed(settings: Settings) -> Line {
    Line { client: client(settings), keys: Arc::new(StaticKey(Some(Key::new(MASTER)))), gate: Arc::new(Gate::new(8, 0)), observer: None }
}

#[tokio::test]
async fn s3_8_the_litellm_proxy_whole_and_streamed() {
    let server = litellm().await;
    let key = Key::new(MASTER);
    for stream in [false, true] {
        let says = client(server.settings("says", stream)).ask(Some(&key), &request()).await.unwrap();
        assert_eq!(says.text, "It is DNS.", "stream {stream}: {says:?}");
        let calls = client(server.settings("calls", stream)).ask(Some(&key), &request()).await.unwrap();
        // Mocked calls vanish when LiteLLM streams: what is left is an empty answer, which is a reply that can't be used, and no error.
        assert_eq!(calls.calls.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), if stream { vec![] } else { vec!["find_problems"] }, "{calls:?}");
    }
    // Each failure of the proxy by its name.
    for (model, key, reason) in [("nope", MASTER, "BadRequest"), ("limited", MASTER, "RateLimited"), ("down", MASTER, "Unavailable")] {
        let failure = client(server.settings(model, false)).ask(Some(&Key::new(key)), &request()).await.unwrap_err();
        println!("{model:8} {}: {}", failure.reason, failure.message);
        assert_eq!(failure.reason, reason, "{failure:?}");
    }
    // Without a database it says 400 to a key that it does not know.
    let failure = client(server.settings("says", false)).ask(Some(&Key::new("sk-wrong")), &request()).await.unwrap_err();
    println!("a wrong key: {}: {}", failure.reason, failure.message);
    // Whole runs. One whose mocked call never changes looks once, is told so, and is asked for its answer at the cap.
    let run = whole_with(keyed(server.settings("calls", false)), Protocol::Tools, Fallback::Playbook).await;
    assert_eq!((run.stop, run.fell_back(), run.journal.committed().tool_calls), (StopReason::StepCap, "StepCap", 1), "{:?}", run.post);
    let run = whole_with(keyed(server.settings("concludes", false)), Protocol::Tools, Fallback::None).await;
    assert_eq!((run.stop, run.post.outcome), (StopReason::Done, Outcome::Inconclusive), "{:?}", run.post);
    for stream in [false, true] {
        let run = whole_with(keyed(server.settings("finishes", stream)), Protocol::JSON, Fallback::None).await;
        assert_eq!((run.stop, run.post.outcome), (StopReason::Done, Outcome::Inconclusive), "{:?}", run.post);
        let run = whole_with(keyed(server.settings("says", stream)), Protocol::Tools, Fallback::Playbook).await;
        assert_eq!(run.fell_back(), "MalformedReply", "{:?}", run.post);
        assert!(run.journal.committed().cost.0 > 0, "it is charged: {:?}", run.journal.committed());
    }
}

#[tokio::test]
async fn s3_8_llama_cpp_with_a_real_model() {
    let found = walk(&INSTALLED.join("lib"));
    let server = Server::start("llama.cpp", "/health", |port| {
        let mut command = Command::new(INSTALLED.join("bin/python"));
        command.args([here("llama.py").to_str().unwrap(), found.to_str().unwrap(), &port.to_string()]);
        command
    })
    .await;
    for stream in [false, true] {
        let small = inquest::investigators::chat::ChatRequest { max_output: 40, ..request() };
        let reply = client(server.settings("smollm2", stream)).ask(None, &small).await.unwrap();
        println!("stream {stream}: {reply:?}");
        assert!(reply.usage.input.unwrap() > 0 && reply.usage.output.unwrap() > 0 && reply.usage.output.unwrap() <= 40, "{reply:?}");
        assert!(!reply.text.is_empty() || !reply.calls.is_empty());
    }
    // More than its 4096 tokens.
    let long = inquest::investigators::chat::ChatRequest { system: "word ".repeat(9000), ..request() };
    let failure = client(server.settings("smollm2", false)).ask(None, &long).await.unwrap_err();
    assert_eq!(failure.reason, "ContextOverflow", "{failure:?}");
    // A model this small calls no tool: the run ends with the playbooks' answer, within its budget, and says why.
    for protocol in [Protocol::Tools, Protocol::JSON] {
        let run = whole(server.settings("smollm2", false), protocol, Fallback::Playbook).await;
        let decided = run.journal.records().iter().filter(|r| matches!(r.entry, Entry::Decided { .. })).count();
        println!("{protocol:?}: {decided} decisions, {:?}, {} tokens, fell back: {}", run.stop, run.journal.committed().tokens(), run.fell_back());
        assert!(run.post.root_cause.is_none() || run.fell_back().is_empty());
    }
}

/// The model that the package ships.
fn walk(folder: &Path) -> PathBuf {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "gguf") {
                return path;
            }
        }
    }
    panic!("the model is not installed: run tests/services.sh");
}
