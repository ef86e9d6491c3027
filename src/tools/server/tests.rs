use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Audit, AuditTarget, Caller, Refusal, Registry, ToolSpec, redact_text, redact_value};

#[test]
fn secrets_become_typed_placeholders() {
    for (text, wanted) in [
        ("key AKIAIOSFODNN7EXAMPLE used", "key [redacted:aws-access-key] used"),
        ("connecting to postgres://app:hunter22@db:5432/x", "connecting to postgres://app:[redacted:url-password]@db:5432/x"),
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer [redacted:bearer]"),
        ("DB_PASSWORD=hunter22 set", "DB_PASSWORD=[redacted:secret] set"),
        ("{\"password\": \"hunter22\"}", "{\"password\": \"[redacted:secret]\"}"),
        ("{\"level\":\"error\",\"password\":\"hunter2hunter2\"}", "{\"level\":\"error\",\"password\":\"[redacted:secret]\"}"),
        ("api_key:hunter2abc", "api_key:[redacted:secret]"),
        ("run --password hunter2abc --port 1", "run --password [redacted:secret] --port 1"),
        ("jwt eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln", "jwt [redacted:jwt]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "[redacted:pem]"),
    ] {
        assert_eq!(redact_text(text).0, wanted);
        assert_eq!(redact_text(text).1, 1, "{text}");
    }
}

#[test]
fn what_only_looks_near_a_secret_is_kept() {
    for text in [
        "FATAL: password authentication failed for user \"app\"",
        "secret \"signer-keys\" not found",
        "couldn't find key password in Secret demo/db",
        "token file /var/run/tok not found",
        "dial tcp redis:6379: connect: connection refused",
        "listening on http://0.0.0.0:8080",
        "image ghcr.io/acme/web@sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9",
    ] {
        assert_eq!(redact_text(text), (text.to_owned(), 0));
    }
}

#[test]
fn the_value_of_a_variable_with_a_secret_name_is_hidden() {
    let mut value = json!({"env": [{"name": "API_TOKEN", "value": "abc"}, {"name": "PORT", "value": "8080"}], "password": "x"});
    assert_eq!(redact_value(&mut value), 2);
    assert_eq!(
        value,
        json!({"env": [{"name": "API_TOKEN", "value": "[redacted:secret]"}, {"name": "PORT", "value": "8080"}], "password": "[redacted:secret]"})
    );
}

/// Lines of an audit log, kept in memory.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn lines(&self) -> Vec<Value> {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(|l| serde_json::from_str(l).expect("a whole line")).collect()
    }
}

impl Write for Kept {
    // Takes a few bytes at a time: two lines that are written at once would mix.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let some = bytes.len().min(7);
        self.0.lock().unwrap().extend_from_slice(&bytes[..some]);
        Ok(some)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("no space left on device"))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Ask {
    what: String,
}

fn asked() -> Registry {
    let tool = ToolSpec::new("ask", "A tool of a test.", |_caller, ask: Ask| async move {
        match ask.what.as_str() {
            "rows" => Ok(json!({"items": [1, 2, 3]})),
            "secret" => Err(Refusal::SecretDenied("Secrets are never read".into())),
            "late" => std::future::pending().await,
            _ => Err(Refusal::ClusterUnavailable("connection refused, password=hunter22".into())),
        }
    });
    Registry::new("test", vec![tool], Duration::from_secs(5), 10_000)
}

fn caller(tenant: &str) -> Caller {
    Caller { tenant: tenant.into(), service_account: "inquest-reader".into(), subject: format!("agent:{tenant}/run"), uid: "u".into(), role: None }
}

#[tokio::test]
async fn s4_5_each_call_leaves_one_line_that_says_who_what_and_how_it_ended() {
    let kept = Kept::default();
    let registry = asked().audited(Audit::to(kept.clone()));
    let go = CancellationToken::new();
    for what in ["rows", "secret", "down"] {
        drop(registry.call(caller("demo"), "ask", json!({"what": what, "password": "hunter22"}), &go).await);
    }
    drop(registry.call(caller("demo"), "ask", json!({"wat": "é".repeat(5000)}), &go).await);
    drop(registry.call(caller("demo"), "drop_table", json!({}), &go).await);
    let gone = CancellationToken::new();
    gone.cancel();
    drop(registry.call(caller("demo"), "ask", json!({"what": "late"}), &gone).await);
    let lines = kept.lines();
    let ends: Vec<_> = lines.iter().map(|l| (l["status"].as_str().unwrap(), l["guardrail_code"].as_str(), l["row_count"].as_u64())).collect();
    assert_eq!(
        ends,
        [
            ("success", None, Some(3)),
            ("rejected", Some("secret_denied"), None),
            ("error", Some("cluster_unavailable"), None),
            ("rejected", Some("invalid_argument"), None),
            ("rejected", Some("unknown_tool"), None),
            ("error", Some("internal"), None),
        ]
    );
    for line in &lines {
        assert_eq!([&line["server"], &line["user"], &line["tenant_id"], &line["role"]], ["test", "agent:demo/run", "demo", "inquest-reader"]);
        assert!(line["latency_ms"].is_number() && line["timestamp"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{line}");
        assert!(!line.to_string().contains("hunter22") && line.to_string().len() < 6000, "{line}");
    }
    assert_eq!(lines[0]["params"], json!({"what": "rows", "password": "[redacted:secret]"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s4_5_concurrent_writers_never_interleave() {
    let kept = Kept::default();
    let registry = asked().audited(Audit::to(kept.clone()));
    let calls = (0..64).map(|n| {
        let registry = registry.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                registry.call(caller(&format!("t{n}")), "ask", json!({"what": "rows"}), &CancellationToken::new()).await.unwrap();
            }
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    let lines = kept.lines();
    assert_eq!(lines.len(), 64 * 20);
    for n in 0..64 {
        assert_eq!(lines.iter().filter(|l| l["tenant_id"] == format!("t{n}")).count(), 20);
    }
}

#[tokio::test]
async fn s4_5_a_line_that_cannot_be_written_fails_no_call() {
    let audit = Arc::new(Audit::to(Full));
    let registry = asked().audited(Arc::clone(&audit));
    registry.call(caller("demo"), "ask", json!({"what": "rows"}), &CancellationToken::new()).await.unwrap();
    registry.call(caller("demo"), "ask", json!({"what": "rows"}), &CancellationToken::new()).await.unwrap();
    assert_eq!(audit.failed(), 2);
}

#[tokio::test]
async fn s4_5_a_folder_gets_a_file_of_the_day() {
    let folder = std::env::temp_dir().join(format!("inquest-audit-{}", std::process::id()));
    let target: AuditTarget = folder.to_str().unwrap().parse().unwrap();
    let registry = asked().audited(Audit::open(&target, 2).unwrap());
    registry.call(caller("demo"), "ask", json!({"what": "rows"}), &CancellationToken::new()).await.unwrap();
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    assert!(files[0].file_name().unwrap().to_str().unwrap().starts_with("audit."), "{files:?}");
    assert_eq!(std::fs::read_to_string(&files[0]).unwrap().lines().count(), 1);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!("stdot".parse::<AuditTarget>().unwrap_err().contains("stdout"));
}
