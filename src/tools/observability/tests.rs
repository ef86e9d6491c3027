use jiff::Timestamp;
use serde_json::json;

use super::{
    deploys,
    logs::{Level, entries, grouped},
    queries::Queries,
    series,
};
use crate::{
    fuzz::{hostile, run},
    tools::{kubernetes::split_time, server::object_name},
};

fn groups(log: &str) -> Vec<(Level, String, u64, usize)> {
    let entries = entries(log.lines().map(split_time));
    grouped(entries.iter().map(|e| ("pod/app", e)), Level::Warning).into_iter().map(|g| (g.level, g.template, g.count, g.sample.lines().count())).collect()
}

#[test]
fn levels_are_recognized_in_the_formats_that_programs_write() {
    for (line, level, template) in [
        // JSON: zap, pino, python-json-logger, Serilog, logstash, Google Cloud.
        (
            r#"{"level":"error","ts":1.7e9,"msg":"dial failed","error":"dial tcp 10.0.0.7:5432: connect: connection refused"}"#,
            Level::Error,
            "dial failed: dial tcp <ip>: connect: connection refused",
        ),
        (r#"{"level":50,"time":1700000000000,"pid":1,"msg":"query took 5012 ms"}"#, Level::Error, "query took <n> ms"),
        (r#"{"severity":"CRITICAL","message":"no shards left"}"#, Level::Fatal, "no shards left"),
        (
            r#"{"@t":"2026-12-01T00:00:00Z","@mt":"Order {Id} failed","@l":"Error","@x":"System.InvalidOperationException: empty"}"#,
            Level::Error,
            "Order {Id} failed: System.InvalidOperationException: empty",
        ),
        (r#"{"log.level":"warn","message":"disk is filling"}"#, Level::Warning, "disk is filling"),
        (
            r#"{"level":"error","err":{"type":"Error","message":"boom","stack":"Error: boom\n at x"},"msg":"request failed"}"#,
            Level::Error,
            "request failed: boom",
        ),
        // logfmt: logrus, go-kit, Prometheus.
        (r#"time="2026-12-01T00:00:00Z" level=error msg="cannot reach \"db\"" err="timeout after 5s""#, Level::Error, "cannot reach \"db\": timeout after <n>"),
        (r#"ts=2026-12-01T00:00:00.000Z caller=main.go:12 level=warn component=tsdb msg="compaction slow""#, Level::Warning, "compaction slow"),
        // klog.
        (r"E1201 12:00:00.000000       1 reflector.go:147] failed to list *v1.Pod: Unauthorized", Level::Error, "failed to list *v1.Pod: Unauthorized"),
        (r"F1201 12:00:00.000000       1 main.go:3] no config", Level::Fatal, "no config"),
        // Plain, as log4j, python logging, nginx, postgres, redis, rails, tracing, npm, sh print it.
        ("2026-12-01 12:00:00,123 ERROR [main] com.acme.Pay - charge failed", Level::Error, "[main] com.acme.Pay - charge failed"),
        ("2026-12-01 12:00:00,123 [main] ERROR com.acme.Pay - charge failed", Level::Error, "com.acme.Pay - charge failed"),
        ("ERROR:root:cannot open /etc/app.conf", Level::Error, "root:cannot open /etc/app.conf"),
        (
            "2026/12/01 12:00:00 [error] 7#7: *1 connect() failed (111: Connection refused)",
            Level::Error,
            "<n>#<n>: *<n> connect() failed (<n>: Connection refused)",
        ),
        (
            "2026-12-01 12:00:00.123 UTC [42] FATAL:  password authentication failed for user \"app\"",
            Level::Fatal,
            "password authentication failed for user \"app\"",
        ),
        ("2026-12-01T12:00:00.000Z  WARN acme::pool: pool is full", Level::Warning, "acme::pool: pool is full"),
        ("npm ERR! missing script: start", Level::Error, "npm ERR! missing script: start"),
        ("/bin/sh: run.sh: not found", Level::Error, "/bin/sh: run.sh: not found"),
        ("[ERROR] worker 17 died", Level::Error, "worker <n> died"),
        ("Error: listen EADDRINUSE: address already in use :::8080", Level::Error, "listen EADDRINUSE: address already in use :::<n>"),
        ("dial tcp: lookup redis on 10.0.0.10:53: no such host", Level::Error, "dial tcp: lookup redis on <ip>: no such host"),
        ("panic: runtime error: index out of range [5] with length 3", Level::Fatal, "panic: runtime error: index out of range [<n>] with length <n>"),
    ] {
        assert_eq!(groups(line), [(level, template.to_owned(), 1, 1)], "{line}");
    }
}

#[test]
fn what_only_mentions_an_error_is_none() {
    for line in [
        r#"{"level":"info","msg":"error budget: 99.9 % left"}"#,
        r#"level=info msg="retrying after error""#,
        "I1201 12:00:00.000000       1 main.go:3] 0 errors so far",
        "INFO error handling is on",
        "2026-12-01 12:00:00 INFO  no errors",
        "errors: 0",
        "listening on :8080",
        "GET /errors 200",
    ] {
        assert_eq!(groups(line), [], "{line}");
    }
}

#[test]
fn a_stack_trace_is_one_entry_in_each_language() {
    for (what, log, level, template, lines) in [
        (
            "java",
            "Exception in thread \"main\" java.lang.IllegalStateException: no datasource\n\tat com.acme.Main.run(Main.java:12)\n\tat com.acme.Main.main(Main.java:5)\nCaused by: java.net.ConnectException: refused\n\t... 2 more",
            Level::Fatal,
            "Exception in thread \"main\" java.lang.IllegalStateException: no datasource",
            5,
        ),
        (
            "python",
            "Traceback (most recent call last):\n  File \"/app/main.py\", line 7, in <module>\n    run()\nKeyError: 'DATABASE_URL'",
            Level::Fatal,
            "KeyError: 'DATABASE_URL'",
            4,
        ),
        (
            "python, chained",
            "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"a.py\", line 3\nValueError: bad",
            Level::Fatal,
            "ValueError: bad",
            9,
        ),
        (
            "go",
            "panic: open /etc/app.yaml: no such file or directory\n\ngoroutine 1 [running]:\nmain.main()\n\t/app/main.go:12 +0x1d\nexit status 2",
            Level::Fatal,
            "panic: open /etc/app.yaml: no such file or directory",
            6,
        ),
        (
            "node",
            "TypeError: Cannot read properties of undefined (reading 'url')\n    at Object.<anonymous> (/app/index.js:3:20)\n    at Module._compile (node:internal/modules/cjs/loader:1105:14)",
            Level::Error,
            "TypeError: Cannot read properties of undefined (reading 'url')",
            3,
        ),
        (
            "rust",
            "thread 'main' panicked at src/main.rs:5:10:\ncalled `Option::unwrap()` on a `None` value\nnote: run with `RUST_BACKTRACE=1`",
            Level::Fatal,
            "called `Option::unwrap()` on a `None` value",
            3,
        ),
        (
            "dotnet",
            "Unhandled exception. System.IO.FileNotFoundException: Could not find file '/app/x'.\n   at Acme.Program.Main(String[] args) in /src/Program.cs:line 9\n--- End of inner exception stack trace ---",
            Level::Fatal,
            "Unhandled exception. System.IO.FileNotFoundException: Could not find file '/app/x'.",
            3,
        ),
        (
            "ruby",
            "/app/x.rb:3:in `fetch': key not found: \"PORT\" (KeyError)\n\tfrom /app/x.rb:7:in `<main>'",
            Level::Error,
            "/app/x.rb:<n>:in `fetch': key not found: \"PORT\" (KeyError)",
            2,
        ),
        (
            "php",
            "PHP Fatal error:  Uncaught Error: Call to undefined function x() in /app/index.php:3\nStack trace:\n#0 {main}\n  thrown in /app/index.php on line 3",
            Level::Fatal,
            "PHP Fatal error:  Uncaught Error: Call to undefined function x() in /app/index.php:<n>",
            4,
        ),
    ] {
        // A line of another kind ends it.
        let log = format!("starting\n{log}\nlistening on :8080");
        assert_eq!(groups(&log), [(level, template.to_owned(), 1, lines)], "{what}");
    }
}

#[test]
fn entries_that_say_the_same_are_one_group_with_its_count_and_times() {
    let log = (0..30).map(|n| format!("2026-12-01T12:00:{n:02}Z ERROR order {n} of 10.0.0.{n} timed out after {n}ms\n")).collect::<String>();
    let entries = entries(log.lines().map(split_time));
    let found = grouped(entries.iter().map(|e| ("web-1/app", e)), Level::Error);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].count, found[0].template.as_str()), (30, "order <n> of <ip> timed out after <n>"));
    assert_eq!(found[0].first.unwrap().to_string(), "2026-12-01T12:00:00Z");
    assert_eq!(found[0].last.unwrap().to_string(), "2026-12-01T12:00:29Z");
    assert_eq!(found[0].sample, "ERROR order 29 of 10.0.0.29 timed out after 29ms");
}

#[test]
fn a_change_of_level_is_found_and_noise_is_none() {
    let step: Vec<(f64, f64)> = (0..40).map(|n| (f64::from(n), if n < 25 { 10.0 + f64::from(n % 3) } else { 90.0 + f64::from(n % 3) })).collect();
    let found = series::summary(&step).unwrap();
    assert_eq!((found.change.as_ref().map(|c| c.at), found.min, found.max, found.last), (Some(25.0), 10.0, 92.0, 90.0));
    let noise: Vec<(f64, f64)> = (0..40).map(|n| (f64::from(n), 50.0 + f64::from((n * 7) % 5))).collect();
    assert_eq!(series::summary(&noise).unwrap().change, None);
    let flat: Vec<(f64, f64)> = (0..40).map(|n| (f64::from(n), 0.0)).collect();
    assert_eq!(series::summary(&flat).unwrap().change, None);
    assert_eq!(series::summary(&[(0.0, f64::NAN)]), None);
    assert_eq!(series::summary(&[(0.0, 1.0)]).unwrap().points, 1);
}

#[test]
fn a_rollout_says_what_it_changed_and_hides_what_is_secret() {
    let at = |s: &str| s.parse::<Timestamp>().unwrap();
    let set = |name: &str, revision: &str, made: &str, image: &str, token: &str, history: &str| {
        json!({"metadata": {"name": name, "creationTimestamp": made, "ownerReferences": [{"uid": "d"}],
               "annotations": {"deployment.kubernetes.io/revision": revision, "deployment.kubernetes.io/revision-history": history}},
               "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "web", "image": image, "env": [{"name": "API_TOKEN", "value": token}]}]}}}})
    };
    let deployment =
        json!({"metadata": {"name": "web", "uid": "d"}, "status": {"conditions": [{"type": "Progressing", "lastUpdateTime": "2026-12-01T11:00:00Z"}]}});
    let sets = [set("web-a", "1", "2026-11-01T00:00:00Z", "web:1", "one", ""), set("web-b", "2", "2026-12-01T10:00:00Z", "web:2", "two", "")];
    let rows = deploys::of_workload("Deployment", &deployment, &sets, &[], at("2026-12-01T00:00:00Z"));
    assert_eq!(rows.len(), 1);
    let row = &rows[0].1;
    assert_eq!((row["revision"].as_i64(), row["begun"].as_str(), row["changes"].as_array().unwrap().len()), (Some(2), Some("2026-12-01T10:00:00Z"), 2));
    let text = row.to_string();
    assert!(text.contains("spec.containers[web].image: web:1 -> web:2") && !text.contains("\"two\"") && !text.contains("one"), "{text}");
    // Rolled back: the old set is the newest revision, and its own age says nothing.
    let back = [set("web-a", "3", "2026-11-01T00:00:00Z", "web:1", "one", "1"), set("web-b", "2", "2026-12-01T10:00:00Z", "web:2", "two", "")];
    let rows = deploys::of_workload("Deployment", &deployment, &back, &[], at("2026-12-01T00:00:00Z"));
    assert_eq!((rows[0].1["rolled_back_to"].as_bool(), rows[0].1["begun"].as_str()), (Some(true), Some("2026-12-01T11:00:00Z")));
}

#[test]
fn a_query_that_would_show_another_namespace_is_no_query() {
    let one = |promql: &str| Queries::parse(&format!("queries: [{{name: q, description: d, unit: u, promql: '{promql}'}}]"));
    assert!(Queries::parse(include_str!("../../../config/promql.yaml")).is_ok());
    let query = one("sum(up{namespace=\"$namespace\", pod=~\"$workload\"})").unwrap();
    assert_eq!(query.queries[0].fill("demo", "web.x"), "sum(up{namespace=\"demo\", pod=~\"web[.]x(-[a-z0-9]+)*\"})");
    assert_eq!(query.queries[0].fill("demo", ""), "sum(up{namespace=\"demo\", pod=~\".+\"})");
    for (promql, wanted) in [("up", "namespace"), ("up{namespace=\"$namespace\"} or up{}", "namespace"), ("up{namespace=\"$namespace\", pod=\"$pod\"}", "$pod")]
    {
        assert!(one(promql).unwrap_err().to_string().contains(wanted), "{promql}");
    }
}

#[test]
fn fuzz_logs() {
    const WORDS: &[&str] = &[
        "ERROR ",
        "Traceback (most recent call last):\n",
        "\n",
        "  File \"x\"\n",
        "ValueError: x\n",
        "panic: ",
        "goroutine 1\n",
        "\tat x\n",
        "{\"level\":\"error\"",
        "}",
        "level=error msg=\"",
        "\"",
        "E1201 ",
        "Caused by: ",
        "thread 'main' panicked at x:\n",
        "2026-12-01T00:00:00Z ",
        "[",
        "]",
        "é",
        "\r",
        "{{",
        "msg=",
        "note: ",
        "During handling of the above exception\n",
    ];
    run("logs", hostile(WORDS), |log| {
        let entries = entries(log.lines().map(split_time));
        let lines: usize = entries.iter().map(|e| e.lines.len()).sum();
        proptest::prop_assert!(lines <= log.lines().count());
        let _groups = grouped(entries.iter().map(|e| ("p/c", e)), Level::Info);
        Ok(())
    });
}

/// Whatever name passes the guard: it cannot end the string that it stands in, nor name another namespace.
#[test]
fn fuzz_query_slots() {
    const WORDS: &[&str] = &[
        "web",
        "\"",
        "}",
        "{",
        " or ",
        "up",
        "namespace=\"other\"",
        ",",
        "\\",
        ".*",
        "|",
        "(",
        ")",
        "$namespace",
        "$workload",
        "-",
        ".",
        "a",
        "0",
        "\n",
        "é",
        "'",
        "`",
        "%22",
    ];
    let queries = Queries::parse(include_str!("../../../config/promql.yaml")).unwrap();
    run("query slots", (hostile(WORDS), hostile(WORDS)), |(namespace, workload)| {
        let (Ok(namespace), Ok(workload)) = (object_name("namespace", &namespace), object_name("workload", &workload)) else { return Ok(()) };
        for query in &queries.queries {
            let filled = query.fill(&namespace, &workload);
            let quotes = |text: &str| text.matches('"').count();
            proptest::prop_assert_eq!(quotes(&filled), quotes(&query.promql), "{}", filled);
            proptest::prop_assert_eq!(filled.matches(&format!("namespace=\"{namespace}\"")).count(), query.promql.matches("$namespace").count());
        }
        Ok(())
    });
}
