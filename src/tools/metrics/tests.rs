//! Whatever is asked: no panic, and what passes keeps to the limits and puts no text of the caller into a statement.

use std::collections::BTreeMap;

use jiff::civil::Date;
use proptest::{prop_assert, prop_assert_eq};

use super::{
    catalogue::Catalogue,
    guard::{DateRange, DenyList, GetMetric, Limits, Role, check, check_model, check_names},
    postgres::statement,
};
use crate::{
    fuzz::{hostile, run},
    tools::server::Caller,
};

const WORDS: &[&str] = &[
    "revenue",
    "date",
    "tenant_id",
    "product_category",
    "demo",
    "other",
    "'",
    "\"",
    ";",
    "--",
    " or ",
    "1=1",
    "2026-08-01",
    "2026-",
    "-",
    "9999",
    "\0",
    "%",
    "$1",
    "(",
    ")",
    "raw",
    ".",
    "_pii",
    "__pii",
    "*",
];

fn limits() -> Limits {
    Limits {
        max_dimensions: 3,
        max_filters: 5,
        max_filter_value_len: 200,
        max_date_range_days: 366,
        oldest_date: Date::constant(2000, 1, 1),
        max_future_slack_days: 1,
        max_rows: 1000,
        denied_models: DenyList::new(&["raw*", "raw.*", "*_pii", "*__pii*"]).unwrap(),
        schema_roles: vec![Role::Owner, Role::Analyst],
    }
}

fn caller() -> Caller {
    Caller { tenant: "demo".into(), service_account: String::new(), subject: "s".into(), uid: String::new(), role: Some("analyst".into()) }
}

#[test]
fn fuzz_metric_queries() {
    use proptest::{collection, strategy::Strategy};
    let limits = limits();
    let catalogue = Catalogue::parse(include_str!("../../../config/metrics/example.yaml"), &limits.denied_models).unwrap();
    let known: Vec<_> = catalogue.metrics.iter().map(|m| (m.name.clone(), m.dimensions.iter().map(|d| d.name.clone()).collect())).collect();
    let names =
        || proptest::prop_oneof![3 => proptest::sample::select(&["date", "tenant_id", "product_category"][..]).prop_map(str::to_owned), 1 => hostile(WORDS)];
    let days = || proptest::prop_oneof![3 => (2024_i16..2028, 1_i8..=12, 1_i8..=28).prop_map(|(y, m, d)| format!("{y:04}-{m:02}-{d:02}")), 1 => hostile(WORDS)];
    let metric = || proptest::prop_oneof![3 => proptest::strategy::Just("revenue".to_owned()), 1 => hostile(WORDS)];
    let value = || proptest::prop_oneof![1 => proptest::strategy::Just("demo".to_owned()), 2 => hostile(WORDS)];
    let arguments = (metric(), days(), days(), collection::vec(names(), 0..5), collection::btree_map(names(), value(), 0..7));
    run("metric queries", arguments, |(metric_name, start, end, dimensions, filters)| {
        let args = GetMetric { metric_name, date_range: DateRange { start, end }, dimensions, filters };
        let Ok(query) = check(args, &caller(), &limits, Date::constant(2026, 12, 1)) else { return Ok(()) };
        prop_assert!(query.start <= query.end && query.end <= Date::constant(2026, 12, 2) && query.start >= limits.oldest_date);
        prop_assert!(query.dimensions.len() <= 3 && query.filters.len() <= 5);
        prop_assert!(query.filters.get("tenant_id").is_none_or(|t| t == "demo"));
        if check_names(&query, &known).is_err() {
            return Ok(());
        }
        let metric = catalogue.metric(&query.metric).unwrap();
        let (text, values) = statement(metric, metric.sql.as_ref().unwrap(), &query);
        // The same text, whatever the values are.
        let mut plain = query.clone();
        plain.filters = query.filters.keys().map(|k| (k.clone(), "x".to_owned())).collect::<BTreeMap<_, _>>();
        prop_assert_eq!(&text, &statement(metric, metric.sql.as_ref().unwrap(), &plain).0);
        prop_assert_eq!(values.len(), query.filters.len());
        Ok(())
    });
}

#[test]
fn fuzz_model_names() {
    let limits = limits();
    run("model names", hostile(WORDS), |model| {
        if check_model(&model, Role::Analyst, &limits).is_ok() {
            prop_assert!(model.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.'));
            prop_assert!(!model.to_lowercase().starts_with("raw") && !model.to_lowercase().ends_with("_pii"), "{model}");
        }
        Ok(())
    });
}

#[test]
fn a_catalogue_that_cannot_be_served_is_refused_with_its_place() {
    let limits = limits();
    let metric = |name: &str, dimensions: &str, sql: &str| format!("metrics: [{{name: {name}, description: x, dimensions: [{dimensions}], sql: {{{sql}}}}}]");
    let sql = "from: mart, measure: sum(x), tenant: t, date: d";
    assert!(Catalogue::parse(&metric("revenue", "{name: date}", sql), &limits.denied_models).is_ok());
    for (text, wanted) in [
        (metric("Revenue", "{name: date}", sql), "metrics[Revenue]: name"),
        (metric("revenue", "{name: 'a\" --'}", sql), "metrics[revenue]: dimensions"),
        (metric("revenue", "{name: date}, {name: date}", sql), "is there twice"),
        (metric("revenue", "{name: date}", "from: 'mart; drop', measure: sum(x), tenant: t, date: d"), "sql.from"),
        (metric("revenue", "{name: date}", "from: raw.orders, measure: sum(x), tenant: t, date: d"), "denylisted model"),
        (metric("revenue", "{name: date}", "measure: sum(x)"), "from"),
        ("models: [{name: users_pii, description: x, columns: []}]".to_owned(), "models[users_pii]: is a denylisted model"),
        ("metric: []".to_owned(), "metric"),
        ("{".to_owned(), "cannot be read"),
    ] {
        let said = Catalogue::parse(&text, &limits.denied_models).unwrap_err().to_string();
        assert!(said.contains(wanted), "{text}: {said}");
    }
}
