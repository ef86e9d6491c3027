//! S4: the metrics server over the served endpoint and over stdio, with a real PostgreSQL, an HTTP backend, and none.

use std::{
    fs,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Json, Router, routing};
use http::HeaderMap;
use inquest::{
    identity::{Claims, SCOPE_TOOLS, Token, sign},
    tools::{
        metrics::{Backend, Catalogue, DenyList, HttpBackend, Limits, MockMode, Postgres, Role, Settings, codes, tools},
        server::Registry,
    },
};
use jiff::{Timestamp, ToSpan, civil::Date};
use serde_json::{Value, json};

use crate::{
    postgres::{self, eventually},
    stdio,
    support::{LIMITS, Served, served},
};

const CATALOGUE: &str = include_str!("../../config/metrics/example.yaml");
const TIMEOUT: Duration = Duration::from_secs(10);

fn limits() -> Limits {
    let denied = ["raw*", "raw.*", "*__pii*", "*_pii", "*_pii__*", "*_internal", "*_confidential", "mart_finance_confidential"];
    Limits {
        max_dimensions: 3,
        max_filters: 5,
        max_filter_value_len: 200,
        max_date_range_days: 366,
        oldest_date: Date::constant(2000, 1, 1),
        max_future_slack_days: 1,
        max_rows: 1000,
        denied_models: DenyList::new(&denied).unwrap(),
        schema_roles: vec![Role::Owner, Role::Analyst],
    }
}

fn registry(backend: Backend, mode: MockMode, catalogue: &str, limits: Limits) -> Registry {
    let catalogue = Catalogue::parse(catalogue, &limits.denied_models).unwrap();
    tools(Settings { backend, catalogue, mode, limits })
}

/// An HTTP backend that is none: it answers as the contract says, counts, and keeps the headers that it saw.
#[derive(Clone, Default)]
struct Stub {
    queries: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<HeaderMap>>>,
    rows: usize,
    slow: bool,
}

async fn stub(stub: Stub) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/api/v1", listener.local_addr().unwrap());
    let listed = json!([{"name": "revenue", "description": "Said by the backend.", "dimensions": ["date", "tenant_id", "product_category", "channel", "region", "shop", "clerk"]}]);
    let query = move |headers: HeaderMap, Json(body): Json<Value>| async move {
        stub.queries.fetch_add(1, Ordering::Relaxed);
        stub.seen.lock().unwrap().push(headers);
        if stub.slow {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        let rows: Vec<Value> = (0..stub.rows).map(|n| json!({"date": body["date_range"]["start"], "revenue": n})).collect();
        Json(json!({"rows": rows, "metric": body["metric_name"], "generated_at": "2026-12-01T00:00:00Z"}))
    };
    let app = Router::new().route("/api/v1/metrics", routing::get(|| async { Json(listed) })).route("/api/v1/metrics/query", routing::post(query));
    tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
    url
}

async fn over_http(backend: &Stub, limits: Limits) -> Served {
    let url = stub(backend.clone()).await;
    let backend = Backend::Http(HttpBackend::new(&url, Some("the-server's-own"), Duration::from_secs(1)).unwrap());
    served(registry(backend, MockMode::Never, CATALOGUE, limits), SCOPE_TOOLS).await
}

fn today() -> Date {
    Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date()
}

fn ask(more: Value) -> Value {
    let mut arguments = json!({"metric_name": "revenue", "date_range": {"start": "2026-08-01", "end": "2026-08-31"}});
    for (key, value) in more.as_object().unwrap() {
        arguments[key] = value.clone();
    }
    arguments
}

impl Served {
    async fn call_as(&self, token: &Token, tool: &str, arguments: Value) -> (Option<String>, Value) {
        let got = self.connect().await.call(tool, &arguments, Some(token), LIMITS).await;
        (got.code, serde_json::from_str(&got.text).unwrap_or(Value::String(got.text)))
    }
}

/// Every guard, by its code: what triggers it.
fn guarded() -> Vec<(&'static str, Value, &'static str)> {
    let range = |start: &str, end: &str| ask(json!({"date_range": {"start": start, "end": end}}));
    let after = |days: i64| today().checked_add(days.days()).unwrap().to_string();
    let long = "x".repeat(201);
    let mut all = vec![];
    let mut get = |arguments: Value, code| all.push(("get_metric", arguments, code));
    for name in ["profit", "", "Revenue", "revenue ", "revenue; drop table mart_sales", "revenue\u{200b}", "../metrics", "*"] {
        get(ask(json!({"metric_name": name})), codes::UNKNOWN_METRIC);
    }
    for name in ["customer_email", "", "date; --", "product_category) from pg_user --", "1", "DATE", "*", "tenant_id\u{0}"] {
        get(ask(json!({"dimensions": [name]})), codes::UNKNOWN_DIMENSION);
    }
    get(ask(json!({"dimensions": ["date", "tenant_id", "product_category", "channel"]})), codes::TOO_MANY_DIMENSIONS);
    get(ask(json!({"dimensions": vec!["date"; 5000]})), codes::TOO_MANY_DIMENSIONS);
    for name in ["customer_email", "amount", "", "1=1 or tenant_id", "revenue"] {
        get(ask(json!({"filters": {name: "x"}})), codes::UNKNOWN_FILTER);
    }
    get(ask(json!({"filters": {"date": "x", "product_category": "x", "channel": "x", "region": "x", "shop": "x", "clerk": "x"}})), codes::TOO_MANY_FILTERS);
    get(ask(json!({"filters": {"product_category": long}})), codes::FILTER_VALUE_TOO_LONG);
    get(ask(json!({"filters": {"product_category": "é".repeat(201)}})), codes::FILTER_VALUE_TOO_LONG);
    for tenant in ["someone-elses-tenant", "", "DEMO", "demo ", " demo", "demo' or '1'='1", "*", "%", "demo\u{0}", "demo\u{200b}"] {
        get(ask(json!({"filters": {"tenant_id": tenant}})), codes::CROSS_TENANT);
    }
    get(ask(json!({"filters": {"TENANT_ID": "other"}})), codes::CROSS_TENANT);
    get(ask(json!({"filters": {" tenant_id ": "other"}})), codes::CROSS_TENANT);
    for (start, end) in [
        ("2026-08-31", "2026-08-01"),
        ("2026-02-30", "2026-03-01"),
        ("2026-13-01", "2026-13-02"),
        ("yesterday", "today"),
        ("2026-08-01T00:00:00Z", "2026-08-31"),
        ("2026-8-1", "2026-8-31"),
        ("", ""),
        ("01.08.2026", "31.08.2026"),
        ("2026-08-01'--", "2026-08-31"),
        ("-9999-01-01", "2026-08-31"),
        ("20260801", "20260831"),
        ("９999-01-01", "2026-08-31"),
    ] {
        get(range(start, end), codes::INVALID_DATE_RANGE);
    }
    get(range("1990-01-01", "2030-01-01"), codes::DATE_RANGE_TOO_LARGE);
    get(range("2025-01-01", "2026-01-02"), codes::DATE_RANGE_TOO_LARGE);
    get(range("0001-01-01", "9999-12-31"), codes::DATE_RANGE_TOO_LARGE);
    get(range("1999-12-31", "2000-01-05"), codes::DATE_RANGE_TOO_OLD);
    get(range("0001-01-01", "0001-01-02"), codes::DATE_RANGE_TOO_OLD);
    get(range(&after(0), &after(2)), codes::DATE_RANGE_IN_FUTURE);
    get(range("9999-12-30", "9999-12-31"), codes::DATE_RANGE_IN_FUTURE);
    for arguments in [
        json!({}),
        json!({"metric_name": "revenue"}),
        ask(json!({"date_range": "2026"})),
        ask(json!({"date_range": {"start": "2026-08-01"}})),
        ask(json!({"date_range": {"start": "2026-08-01", "end": "2026-08-31", "tz": "x"}})),
        ask(json!({"tenant_id": "other"})),
        ask(json!({"role": "owner"})),
        ask(json!({"sql": "select 1"})),
        ask(json!({"filters": {"product_category": 5}})),
        ask(json!({"filters": {"product_category": ["a"]}})),
        ask(json!({"filters": {"product_category": null}})),
        ask(json!({"filters": ["a"]})),
        ask(json!({"dimensions": "date"})),
        ask(json!({"dimensions": [1]})),
        ask(json!({"metric_name": {"$ne": ""}})),
        ask(json!({"filters": {"product_category": "a\u{0}b"}})),
    ] {
        get(arguments, "invalid_argument");
    }
    let mut describe = |model: &str, code| all.push(("get_schema_description", json!({"model_name": model}), code));
    for model in [
        "raw_orders",
        "raw.shopify__customers_pii",
        "RAW.orders",
        "stg__pii_users",
        "users_pii",
        "x_pii__y",
        "billing_internal",
        "hr_confidential",
        "mart_finance_confidential",
        "marts.hr_confidential",
        "public.users_pii",
        " raw_orders",
        "Mart_Finance_Confidential",
        "raw",
        "a.b.salaries_internal",
    ] {
        describe(model, codes::DENYLISTED_MODEL);
    }
    for model in ["mart_unknown", "pg_catalog.pg_user", "information_schema.tables", "MART_SALES"] {
        describe(model, codes::UNKNOWN_MODEL);
    }
    for model in ["", "mart_sales; drop table x", "mart_sales\u{200b}", "../mart_sales", "mart sales", &"x".repeat(200)] {
        describe(model, "invalid_argument");
    }
    for arguments in [json!({"model_name": ["mart_sales"]}), json!({"model_name": "mart_sales", "role": "owner"}), json!({})] {
        all.push(("get_schema_description", arguments, "invalid_argument"));
    }
    all.push(("list_available_metrics", json!({"tenant_id": "other"}), "invalid_argument"));
    all
}

#[tokio::test]
async fn s4_1_there_are_three_tools_and_none_takes_a_query() {
    let served = over_http(&Stub::default(), limits()).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let token = served.token("demo");
    let request = crate::support::http().post(&served.url).header("accept", "application/json, text/event-stream").json(&list);
    let answer: Value = request.header("authorization", format!("Bearer {}", token.reveal())).send().await.unwrap().json().await.unwrap();
    let tools = answer["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["get_metric", "get_schema_description", "list_available_metrics"]);
    let get = &tools[0]["inputSchema"];
    assert_eq!(get["required"], json!(["metric_name", "date_range"]));
    let mut properties: Vec<&String> = get["properties"].as_object().unwrap().keys().collect();
    properties.sort();
    assert_eq!(properties, ["date_range", "dimensions", "filters", "metric_name"]);
}

#[tokio::test]
async fn s4_2_every_guard_answers_with_its_code_and_the_backend_is_not_asked() {
    let backend = Stub::default();
    let served = over_http(&backend, limits()).await;
    let attacks = guarded();
    let count = served.all_refused(&attacks).await;
    println!("{count} attacks on the metrics, none passed");
    let viewer = served.token_with("demo", Some("viewer"), SCOPE_TOOLS);
    let (code, _) = served.call_as(&viewer, "get_schema_description", json!({"model_name": "mart_sales"})).await;
    assert_eq!(code.as_deref(), Some(codes::ROLE_DENIED));
    for role in [None, Some("admin"), Some(""), Some("Owner")] {
        let token = served.token_with("demo", role, SCOPE_TOOLS);
        for (tool, arguments) in
            [("list_available_metrics", json!({})), ("get_metric", ask(json!({}))), ("get_schema_description", json!({"model_name": "mart_sales"}))]
        {
            assert_eq!(served.call_as(&token, tool, arguments).await.0.as_deref(), Some(codes::ROLE_DENIED), "{role:?} {tool}");
        }
    }
    assert_eq!(backend.queries.load(Ordering::Relaxed), 0);
    // The table is whole: each code of the guards was met.
    for code in [
        codes::UNKNOWN_METRIC,
        codes::UNKNOWN_DIMENSION,
        codes::TOO_MANY_DIMENSIONS,
        codes::UNKNOWN_FILTER,
        codes::TOO_MANY_FILTERS,
        codes::FILTER_VALUE_TOO_LONG,
        codes::CROSS_TENANT,
        codes::INVALID_DATE_RANGE,
        codes::DATE_RANGE_TOO_LARGE,
        codes::DATE_RANGE_TOO_OLD,
        codes::DATE_RANGE_IN_FUTURE,
        codes::DENYLISTED_MODEL,
    ] {
        assert!(attacks.iter().any(|(_, _, c)| *c == code), "{code}");
    }
    // What is allowed passes, on the edges of each limit too.
    let (yesterday, tomorrow) = (today().yesterday().unwrap().to_string(), today().tomorrow().unwrap().to_string());
    for arguments in [
        ask(json!({})),
        ask(json!({"dimensions": ["date", "tenant_id", "product_category"], "filters": {"tenant_id": "demo", "product_category": "x".repeat(200)}})),
        ask(json!({"date_range": {"start": yesterday, "end": tomorrow}})),
        ask(json!({"date_range": {"start": "2025-01-01", "end": "2026-01-01"}})),
        ask(json!({"date_range": {"start": "2000-01-01", "end": "2000-01-01"}})),
    ] {
        let (code, said) = served.call("get_metric", arguments.clone()).await;
        assert_eq!(code, None, "{arguments}: {said}");
    }
    // The tenant goes along by this server's own word and credential; the caller's token stays here.
    let seen = backend.seen.lock().unwrap();
    assert!(seen.iter().all(|h| h["x-inquest-tenant"] == "demo" && h["x-inquest-role"] == "analyst" && h["authorization"] == "Bearer the-server's-own"));
}

#[tokio::test]
async fn s4_2_the_settings_bite() {
    let tight = Limits {
        max_dimensions: 1,
        max_filters: 1,
        max_filter_value_len: 3,
        max_date_range_days: 7,
        oldest_date: Date::constant(2026, 8, 1),
        max_future_slack_days: 0,
        max_rows: 2,
        denied_models: DenyList::new(&["mart_*"]).unwrap(),
        schema_roles: vec![Role::Owner],
    };
    let backend = Stub { rows: 5, ..Stub::default() };
    let catalogue = CATALOGUE.split("models:").next().unwrap().replace("from: mart_sales", "from: sales");
    let url = stub(backend.clone()).await;
    let http = Backend::Http(HttpBackend::new(&url, None, TIMEOUT).unwrap());
    let served = served(registry(http, MockMode::Never, &catalogue, tight), SCOPE_TOOLS).await;
    let week = |more: Value| {
        let mut arguments = ask(more);
        arguments["date_range"] = json!({"start": "2026-08-01", "end": "2026-08-07"});
        arguments
    };
    served
        .all_refused(&[
            ("get_metric", week(json!({"dimensions": ["date", "tenant_id"]})), codes::TOO_MANY_DIMENSIONS),
            ("get_metric", week(json!({"filters": {"date": "x", "channel": "x"}})), codes::TOO_MANY_FILTERS),
            ("get_metric", week(json!({"filters": {"channel": "long"}})), codes::FILTER_VALUE_TOO_LONG),
            ("get_metric", ask(json!({"date_range": {"start": "2026-08-01", "end": "2026-08-08"}})), codes::DATE_RANGE_TOO_LARGE),
            ("get_metric", ask(json!({"date_range": {"start": "2026-07-31", "end": "2026-08-01"}})), codes::DATE_RANGE_TOO_OLD),
            (
                "get_metric",
                ask(json!({"date_range": {"start": today().to_string(), "end": today().tomorrow().unwrap().to_string()}})),
                codes::DATE_RANGE_IN_FUTURE,
            ),
            ("get_schema_description", json!({"model_name": "mart_sales"}), codes::ROLE_DENIED),
        ])
        .await;
    let owner = served.token_with("demo", Some("owner"), SCOPE_TOOLS);
    assert_eq!(served.call_as(&owner, "get_schema_description", json!({"model_name": "mart_sales"})).await.0.as_deref(), Some(codes::DENYLISTED_MODEL));
    let (_, capped) = served.call("get_metric", week(json!({}))).await;
    assert_eq!(
        [&capped["truncated"], &capped["row_count"], &capped["total_row_count"], &capped["row_limit"]],
        [&json!(true), &json!(2), &json!(5), &json!(2)],
        "{capped}"
    );
}

#[tokio::test]
async fn s4_3_a_slow_backend_is_an_answer_in_time() {
    let served = over_http(&Stub { slow: true, ..Stub::default() }, limits()).await;
    let started = Instant::now();
    let (code, said) = served.call("get_metric", ask(json!({}))).await;
    assert_eq!(code.as_deref(), Some("backend_unavailable"), "{said}");
    assert!(started.elapsed() < Duration::from_secs(3) && said["error"].as_str().unwrap().contains("within 1 s"), "{said}");
}

#[tokio::test]
async fn s4_6_example_figures_answer_only_where_they_may_and_say_so() {
    // Nothing listens there.
    let dead = || Backend::Http(HttpBackend::new("http://127.0.0.1:9/api/v1", None, TIMEOUT).unwrap());
    let auto = served(registry(dead(), MockMode::Auto, CATALOGUE, limits()), SCOPE_TOOLS).await;
    let (code, said) = auto.call("get_metric", ask(json!({"dimensions": ["date"]}))).await;
    assert_eq!(code, None, "{said}");
    assert_eq!(
        (said["source"].as_str(), said["row_count"].as_u64(), said["rows"][0]["revenue"].as_f64()),
        (Some("fixture"), Some(31), Some(1908.68)),
        "{said}"
    );
    assert!(said["warning"].as_str().unwrap().contains("example figures"));
    assert_eq!(auto.call("list_available_metrics", json!({})).await.1["source"], "fixture");
    // The guards hold for examples too.
    assert_eq!(auto.call("get_metric", ask(json!({"dimensions": ["customer_email"]}))).await.0.as_deref(), Some(codes::UNKNOWN_DIMENSION));

    let never = served(registry(dead(), MockMode::Never, CATALOGUE, limits()), SCOPE_TOOLS).await;
    for (tool, arguments) in [("get_metric", ask(json!({}))), ("list_available_metrics", json!({}))] {
        let (code, said) = never.call(tool, arguments).await;
        assert_eq!(code.as_deref(), Some("backend_unavailable"), "{said}");
        assert!(!said.to_string().contains("fixture"), "{said}");
    }

    let backend = Stub { rows: 1, ..Stub::default() };
    let url = stub(backend.clone()).await;
    let live = || Backend::Http(HttpBackend::new(&url, None, TIMEOUT).unwrap());
    let always = served(registry(live(), MockMode::Always, CATALOGUE, limits()), SCOPE_TOOLS).await;
    assert_eq!(always.call("get_metric", ask(json!({}))).await.1["source"], "fixture");
    assert_eq!(backend.queries.load(Ordering::Relaxed), 0);
    // Where the backend answers, its answer counts, and not the example's.
    let auto = served(registry(live(), MockMode::Auto, CATALOGUE, limits()), SCOPE_TOOLS).await;
    let (_, said) = auto.call("get_metric", ask(json!({}))).await;
    assert_eq!((said["source"].as_str(), said["rows"][0]["revenue"].as_u64(), said.get("warning")), (Some("backend"), Some(0), None), "{said}");
    assert_eq!(auto.call("list_available_metrics", json!({})).await.1["metrics"][0]["description"], "Said by the backend.");
}

/// A month of two tenants' orders.
const SALES: &str = "create table mart_sales(order_id bigint, tenant_id text, sold_on date, product_category text, amount numeric(12,2));
    insert into mart_sales select n, case when n % 3 = 0 then 'other' else 'demo' end, date '2026-08-01' + (n % 31), case when n % 2 = 0 then 'books' else 'games' end, n % 100
    from generate_series(1, 9300) n";

fn over_postgres(server: &postgres::Postgres, catalogue: &str, limits: Limits, timeout: Duration) -> Registry {
    registry(Backend::Postgres(Postgres::new(&server.url(), Some(&server.ca()), timeout).unwrap()), MockMode::Never, catalogue, limits)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_3_s4_4_a_real_database_answers_for_the_callers_tenant_alone() {
    let server = postgres::Postgres::start();
    server.sql(SALES);
    let limits = Limits { max_rows: 40, ..limits() };
    let served = served(over_postgres(&server, CATALOGUE, limits, TIMEOUT), SCOPE_TOOLS).await;
    let (code, said) = served.call("get_metric", ask(json!({}))).await;
    assert_eq!(code, None, "{said}");
    let wanted = |tenant: &str, more: &str| {
        serde_json::from_str::<Value>(&server.sql(&format!("select sum(amount) from mart_sales where tenant_id = '{tenant}' {more}"))).unwrap()
    };
    assert_eq!(said["rows"][0]["revenue"], wanted("demo", ""), "{said}");
    assert_eq!(said["source"], "backend");
    // The other tenant gets its own, from the same server, by the same connection pool.
    let (_, other) = served.call_as(&served.token_with("other", Some("analyst"), SCOPE_TOOLS), "get_metric", ask(json!({}))).await;
    assert_eq!(other["rows"][0]["revenue"], wanted("other", ""));
    // Grouped, filtered, in order; cut to the limit with the true total.
    let (_, rows) = served.call("get_metric", ask(json!({"dimensions": ["product_category", "date"], "metric_name": "order_count"}))).await;
    assert_eq!(
        [&rows["row_count"], &rows["total_row_count"], &rows["truncated"], &rows["row_limit"]],
        [&json!(40), &json!(62), &json!(true), &json!(40)],
        "{rows}"
    );
    assert_eq!((rows["rows"][0]["date"].as_str(), rows["rows"][0]["product_category"].as_str()), (Some("2026-08-01"), Some("books")));
    let (_, games) = served.call("get_metric", ask(json!({"filters": {"product_category": "games", "tenant_id": "demo"}}))).await;
    assert_eq!(games["rows"][0]["revenue"], wanted("demo", "and product_category = 'games'"));
    let (_, tenants) = served.call("get_metric", ask(json!({"dimensions": ["tenant_id"]}))).await;
    assert_eq!((tenants["row_count"].as_u64(), tenants["rows"][0]["tenant_id"].as_str()), (Some(1), Some("demo")));
    // A value is a value, whatever it looks like.
    for value in [
        "games' or '1'='1",
        "'; drop table mart_sales; --",
        "$1",
        "games' union select usename from pg_user --",
        "\\",
        "%",
        "games\n--",
        "${jndi:x}",
        "'||(select version())||'",
    ] {
        let (code, said) = served.call("get_metric", ask(json!({"dimensions": ["product_category"], "filters": {"product_category": value}}))).await;
        assert_eq!((code, said["row_count"].as_u64()), (None, Some(0)), "{value}: {said}");
    }
    assert_eq!(server.sql("select count(*) from mart_sales"), "9300");
    // Nothing of the range: one JSON object too.
    let (_, none) = served.call("get_metric", ask(json!({"dimensions": ["date"], "date_range": {"start": "2020-01-01", "end": "2020-01-02"}}))).await;
    assert_eq!((none["rows"].clone(), none["total_row_count"].as_u64()), (json!([]), Some(0)));
    // The database goes, and comes to be missed: an outage is told, and not masked.
    server.stop();
    eventually("an outage", async || served.call("get_metric", ask(json!({}))).await.0.as_deref() == Some("backend_unavailable")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_3_the_database_itself_refuses_to_write_and_to_go_on() {
    let server = postgres::Postgres::start();
    server.sql(SALES);
    server.sql("create function burn() returns numeric language sql volatile as $$ insert into mart_sales values (0, 'demo', '2026-08-01', 'x', 1) returning amount $$");
    let catalogue = |measure: &str| CATALOGUE.replace("round(sum(amount), 2)", measure);
    let writes = served(over_postgres(&server, &catalogue("max(burn())"), limits(), TIMEOUT), SCOPE_TOOLS).await;
    let (code, said) = writes.call("get_metric", ask(json!({}))).await;
    assert_eq!(code.as_deref(), Some("backend_unavailable"), "{said}");
    assert!(said["error"].as_str().unwrap().contains("25006"), "{said}");
    assert_eq!(server.sql("select count(*) from mart_sales"), "9300");
    let sleeps = served(over_postgres(&server, &catalogue("max(length(pg_sleep(20)::text))"), limits(), Duration::from_secs(1)), SCOPE_TOOLS).await;
    let started = Instant::now();
    assert_eq!(sleeps.call("get_metric", ask(json!({}))).await.0.as_deref(), Some("backend_unavailable"));
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    // A certificate that another authority signed is no server of ours.
    let other = postgres::Postgres::start();
    let stranger = Backend::Postgres(Postgres::new(&server.url(), Some(&other.ca()), TIMEOUT).unwrap());
    let stranger = served(registry(stranger, MockMode::Never, CATALOGUE, limits()), SCOPE_TOOLS).await;
    assert_eq!(stranger.call("get_metric", ask(json!({}))).await.0.as_deref(), Some("backend_unavailable"));
}

/// A key and a token of a person's own, made by the command.
fn token(folder: &std::path::Path, tenant: &str, role: &str) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_inquest"))
        .args(["token", "--tenant", tenant, "--role", role, "--user", "test-user", "--keys"])
        .arg(folder)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

fn keys(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("inquest-keys-{}-{name}", std::process::id()))
}

#[test]
fn s4_4_over_stdio_nothing_starts_without_a_valid_identity() {
    inquest::identity::install_crypto();
    let (ours, theirs) = (keys("ours"), keys("theirs"));
    let good = token(&ours, "demo", "analyst");
    let foreign = token(&theirs, "demo", "analyst");
    // A token of our key whose claims are wrong.
    let mut data = std::collections::BTreeMap::new();
    for entry in fs::read_dir(&ours).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("key-") {
            data.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    let ring = inquest::identity::KeyRing::from_data(&data).unwrap();
    let now = Timestamp::now();
    let forge = |change: &dyn Fn(&mut Claims)| {
        let part = good.split('.').nth(1).unwrap();
        let mut claims: Claims = serde_json::from_slice(&base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, part).unwrap()).unwrap();
        change(&mut claims);
        sign(&ring, &claims, now).unwrap().reveal().to_owned()
    };
    let hour = 3600;
    let none = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, r#"{"alg":"none","typ":"JWT"}"#);
    let unsigned = format!("{none}.{}.", good.split('.').nth(1).unwrap());
    for (what, token, wanted) in [
        ("missing", String::new(), "is not set"),
        ("expired", forge(&|c| (c.iat, c.nbf, c.exp) = (c.iat - 3 * hour, c.nbf - 3 * hour, c.iat - hour)), "has expired"),
        ("unsigned", unsigned, "no ES256 token"),
        ("of another key", foreign, "no ES256 token"),
        ("cut", good[..good.len() - 5].to_owned(), "no ES256 token"),
        ("no token", "hello".to_owned(), "no ES256 token"),
        ("without a role", forge(&|c| c.role = None), "names no role"),
        ("of an unknown role", forge(&|c| c.role = Some("superuser".into())), "superuser"),
        ("for another audience", forge(&|c| c.aud = "operator".into()), "audience"),
        ("without the scope", forge(&|c| c.scope = "knowledge:read".into()), "scope"),
        ("of another tenant's subject", forge(&|c| c.tenant_id = "other".into()), "no ES256 token"),
        ("valid for ever", forge(&|c| c.exp = c.iat + 1000 * 24 * hour), "no ES256 token"),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_inquest"))
            .args(["tools", "metrics", "--transport", "stdio", "--jwks-file"])
            .arg(ours.join("jwks.json"))
            .env("INQUEST_TOOL_TOKEN", &token)
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{what}: {said}");
        assert!(said.contains(wanted) && said.contains("error: not started"), "{what}: {said}");
        assert!(out.stdout.is_empty() && (token.len() < 20 || !said.contains(&token)), "{what}");
    }
    fs::remove_dir_all(ours).unwrap();
    fs::remove_dir_all(theirs).unwrap();
}

/// S4.8: the trace of the document, by a real process over stdio, against a real PostgreSQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_8_the_trace_of_the_document_and_its_audit_lines() {
    let server = postgres::Postgres::start();
    server.sql(&SALES.replace("'demo'", "'tenant-demo'"));
    let folder = keys("trace");
    let token = token(&folder, "tenant-demo", "analyst");
    let catalogue = folder.join("catalogue.yaml");
    fs::write(&catalogue, CATALOGUE).unwrap();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_inquest"));
    command
        .args(["tools", "metrics", "--transport", "stdio", "--mock-backend", "never", "--jwks-file"])
        .arg(folder.join("jwks.json"))
        .arg("--catalogue")
        .arg(&catalogue)
        .arg("--database-ca")
        .arg(server.ca())
        .arg("--audit-log")
        .arg(folder.join("audit"))
        .env("INQUEST_TOOL_TOKEN", token)
        .env("INQUEST_METRICS_DATABASE_URL", server.url());
    let client = stdio::connect(command).await;
    let mut names: Vec<String> = client.list_all_tools().await.unwrap().into_iter().map(|t| t.name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["get_metric", "get_schema_description", "list_available_metrics"]);
    let august = json!({"start": "2026-08-01", "end": "2026-08-31"});
    let get = |more: Value| ask(more);
    let mut codes_seen = vec![];
    for (tool, arguments) in [
        ("list_available_metrics", json!({})),
        ("get_metric", get(json!({"dimensions": ["date"], "date_range": august}))),
        ("get_metric", get(json!({"date_range": {"start": "1990-01-01", "end": "2030-01-01"}}))),
        ("get_metric", get(json!({"dimensions": ["customer_email"]}))),
        ("get_metric", get(json!({"filters": {"tenant_id": "someone-elses-tenant"}}))),
        ("get_schema_description", json!({"model_name": "raw.shopify__customers_pii"})),
        ("get_schema_description", json!({"model_name": "mart_sales"})),
        // The question itself: last month's revenue, in one figure.
        ("get_metric", get(json!({"date_range": august}))),
    ] {
        let said = stdio::call(&client, tool, arguments).await;
        codes_seen.push(said["guardrail_code"].as_str().map(str::to_owned));
        if tool == "get_metric" && said["row_count"] == 31 {
            assert_eq!((said["truncated"].as_bool(), said["source"].as_str()), (Some(false), Some("backend")), "{said}");
        }
    }
    let denied = |code: &str| Some(code.to_owned());
    assert_eq!(
        codes_seen,
        [None, None, denied("date_range_too_large"), denied("unknown_dimension"), denied("cross_tenant_denied"), denied("denylisted_model"), None, None]
    );
    client.cancel().await.unwrap();
    let file = fs::read_dir(folder.join("audit")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(file).unwrap();
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    println!("{text}");
    assert_eq!(lines.len(), 8);
    for (line, code) in lines.iter().zip(&codes_seen) {
        assert_eq!(line["guardrail_code"].as_str().map(str::to_owned), *code);
        assert_eq!([&line["user"], &line["tenant_id"], &line["role"]], [&json!("agent:tenant-demo/test-user"), &json!("tenant-demo"), &json!("analyst")]);
        assert_eq!(line["status"], if code.is_some() { "rejected" } else { "success" });
        assert!(line["latency_ms"].is_number() && line["timestamp"].is_string() && line["params"].is_object(), "{line}");
    }
    assert_eq!([&lines[1]["row_count"], &lines[0]["row_count"], &lines[2]["row_count"]], [&json!(31), &json!(3), &Value::Null]);
    fs::remove_dir_all(folder).unwrap();
}
