//! A PostgreSQL database: prepared statements from the catalogue, values as parameters, read-only transactions.

use std::{path::Path, time::Duration};

use deadpool_postgres::{Pool, PoolError};
use serde_json::Value;
use tokio_postgres::types::ToSql;

use super::{
    backend::{BackendError, Rows},
    catalogue::{Metric, Sql},
    guard::Checked,
};
use crate::database;

/// Connections of one replica.
const POOL: usize = 8;

pub struct Postgres {
    pool: Pool,
    timeout: Duration,
}

impl Postgres {
    /// `url` as libpq takes it. `ca`: a PEM file with the authority that signed the server's certificate.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn new(url: &str, ca: Option<&Path>, timeout: Duration) -> anyhow::Result<Self> {
        let mut config = database::config(url)?;
        // The database itself refuses to write and to go on for long, whatever the statement.
        config.options(format!("-c default_transaction_read_only=on -c statement_timeout={} -c search_path={}", timeout.as_millis(), search_path(&config)));
        config.application_name("inquest-metrics").connect_timeout(timeout);
        Ok(Self { pool: database::pool(config, ca, POOL, timeout)?, timeout })
    }

    pub(super) async fn query(&self, metric: &Metric, query: &Checked, tenant: &str, max_rows: u32) -> Result<Rows, BackendError> {
        let Some(sql) = &metric.sql else { return Err(BackendError::Failed(format!("{} has no sql in the catalogue", metric.name))) };
        let (text, values) = statement(metric, sql, query);
        match tokio::time::timeout(self.timeout, self.run(&text, tenant, query, &values, max_rows)).await {
            Ok(result) => result,
            Err(_late) => Err(BackendError::Late(self.timeout.as_secs())),
        }
    }

    async fn run(&self, text: &str, tenant: &str, query: &Checked, filters: &[String], max_rows: u32) -> Result<Rows, BackendError> {
        let client = self.pool.get().await.map_err(|e| match e {
            PoolError::Backend(e) => unreachable_or_failed(&e),
            PoolError::Timeout(_) => BackendError::Late(self.timeout.as_secs()),
            other => BackendError::Failed(other.to_string()),
        })?;
        let statement = client.prepare_cached(text).await.map_err(|e| unreachable_or_failed(&e))?;
        let (start, end, limit) = (query.start.to_string(), query.end.to_string(), i64::from(max_rows));
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&tenant, &start, &end, &limit];
        values.extend(filters.iter().map(|f| f as &(dyn ToSql + Sync)));
        let got = client.query(&statement, &values).await.map_err(|e| unreachable_or_failed(&e))?;
        let mut rows = vec![];
        let mut total = 0;
        for row in &got {
            let text: &str = row.try_get(0).map_err(|e| unreachable_or_failed(&e))?;
            total = row.try_get::<_, i64>(1).map_err(|e| unreachable_or_failed(&e))?;
            rows.push(serde_json::from_str::<Value>(text).map_err(|e| BackendError::Failed(e.to_string()))?);
        }
        Ok(Rows { rows, total: u64::try_from(total).unwrap_or(0) })
    }
}

/// The statement, and the values of its filters in the order of their parameters. Each piece of the text is the catalogue's; `query` only
/// chooses among them. Dimensions stand in the catalogue's order, so that a few statements are prepared and not one for each order.
pub(super) fn statement(metric: &Metric, sql: &Sql, query: &Checked) -> (String, Vec<String>) {
    let expression = |d: &super::catalogue::Dimension| d.sql.clone().unwrap_or_else(|| format!("\"{}\"", d.name));
    let chosen: Vec<_> = metric.dimensions.iter().filter(|d| query.dimensions.contains(&d.name)).collect();
    let columns: String = chosen.iter().map(|d| format!("({})::text AS \"{}\", ", expression(d), d.name)).collect();
    let mut conditions = format!("({})::text = $1 AND ({}) >= $2::text::date AND ({}) < $3::text::date + 1", sql.tenant, sql.date, sql.date);
    let mut values = vec![];
    for dimension in &metric.dimensions {
        if let Some(value) = query.filters.get(&dimension.name) {
            values.push(value.clone());
            conditions += &format!(" AND ({})::text = ${}", expression(dimension), values.len() + 4);
        }
    }
    let numbers = (1..=chosen.len()).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let group = if chosen.is_empty() { String::new() } else { format!(" GROUP BY {numbers}") };
    let order = if chosen.is_empty() {
        String::new()
    } else {
        format!(" ORDER BY {}", chosen.iter().map(|d| format!("q.\"{}\"", d.name)).collect::<Vec<_>>().join(", "))
    };
    let text = format!(
        "SELECT to_json(q)::text, (count(*) OVER ())::bigint FROM (SELECT {columns}({}) AS \"{}\" FROM {} WHERE {conditions}{group}) q{order} LIMIT $4",
        sql.measure, metric.name, sql.from
    );
    (text, values)
}

/// The schemas that the URL names, or the usual ones.
fn search_path(config: &tokio_postgres::Config) -> String {
    let options = config.get_options().unwrap_or_default();
    let named = options.split("search_path=").nth(1).and_then(|s| s.split_whitespace().next());
    named.filter(|n| n.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b','))).unwrap_or("public").to_owned()
}

fn unreachable_or_failed(error: &tokio_postgres::Error) -> BackendError {
    // An answer of the server is a failure; anything else means that none came. Its text may quote data: the log has it.
    match error.as_db_error() {
        Some(db) if db.code() == &tokio_postgres::error::SqlState::QUERY_CANCELED => BackendError::Failed("the statement took too long".to_owned()),
        Some(db) => {
            tracing::warn!(code = db.code().code(), message = db.message(), "the database refused a statement");
            BackendError::Failed(format!("the database answers with SQLSTATE {}", db.code().code()))
        }
        None => {
            tracing::warn!(%error, "the database cannot be reached");
            BackendError::Unreachable("the database does not answer".to_owned())
        }
    }
}
