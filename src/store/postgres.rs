//! Journals in PostgreSQL: for many or long runs. One row a record, in a schema of its own, by a role that needs no right but on that
//! schema. A record is inserted under its number: the key refuses a second one, and that is the fence.

use std::{path::Path, time::Duration};

use deadpool_postgres::{Pool, PoolError};
use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use tokio_postgres::error::SqlState;

use super::{JournalStore, OpenJournal, RunId, StoreError};
use crate::{
    agent::{Entry, Journal, Record},
    database,
};

/// Connections of one replica. A step waits for tools and models most of its time, not for its journal.
const POOL: usize = 16;
/// One statement, and one wait for a connection.
const DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of a record.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Each version's statements, in order. What is here was run somewhere: it is never changed, only added to.
const MIGRATIONS: &[&str] = &["create table inquest.journal (
    uid text not null, seq bigint not null, namespace text not null, name text not null, record text not null,
    written timestamptz not null default now(), primary key (uid, seq))"];
/// The lock that one migrating replica holds.
const LOCK: i64 = 0x0049_4e51_5545_5354;

#[derive(Clone)]
pub struct PostgresStore {
    pool: Pool,
}

impl PostgresStore {
    /// Connects, and brings the schema `inquest` up to date. `url` as libpq takes it; `ca`: a PEM file with the authority that signed the
    /// server's certificate.
    ///
    /// # Errors
    /// When the database can't be used, and why.
    pub async fn connect(url: &str, ca: Option<&Path>) -> anyhow::Result<Self> {
        let mut config = database::config(url)?;
        config.application_name("inquest-journal").connect_timeout(DEADLINE);
        let store = Self { pool: database::pool(config, ca, POOL, DEADLINE)? };
        store.migrate().await?;
        Ok(store)
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        let mut client = self.pool.get().await.map_err(no_connection)?;
        let transaction = client.transaction().await.map_err(unavailable)?;
        transaction.execute("select pg_advisory_xact_lock($1)", &[&LOCK]).await.map_err(unavailable)?;
        // A role that may not create schemas finds its own made for it.
        let there = transaction.query_opt("select 1 from pg_namespace where nspname = 'inquest'", &[]).await.map_err(unavailable)?;
        if there.is_none() {
            transaction.batch_execute("create schema inquest").await.map_err(unavailable)?;
        }
        transaction.batch_execute("create table if not exists inquest.version (version int primary key)").await.map_err(unavailable)?;
        let row = transaction.query_one("select coalesce(max(version), 0) from inquest.version", &[]).await.map_err(unavailable)?;
        let done: i32 = row.try_get(0).map_err(unavailable)?;
        for (version, sql) in (1_i32..).zip(MIGRATIONS).filter(|(v, _)| *v > done) {
            transaction.batch_execute(sql).await.map_err(unavailable)?;
            transaction.execute("insert into inquest.version values ($1)", &[&version]).await.map_err(unavailable)?;
        }
        transaction.commit().await.map_err(unavailable)
    }

    /// Removes the journals of runs that are no more, by their UIDs. Returns how many records went.
    ///
    /// # Errors
    /// When the database can't be reached.
    pub async fn keep_only(&self, alive: &[String]) -> Result<u64, StoreError> {
        let client = self.pool.get().await.map_err(no_connection)?;
        // A run that has just begun may not be known yet to who asks.
        let old = "delete from inquest.journal where uid <> all($1) and written < now() - interval '1 hour'";
        within(client.execute(old, &[&alive])).await
    }
}

impl JournalStore for PostgresStore {
    fn kind(&self) -> &'static str {
        "postgres"
    }

    fn open<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Box<dyn OpenJournal>, StoreError>> {
        async move {
            let client = self.pool.get().await.map_err(no_connection)?;
            let statement = within(client.prepare_cached("select record from inquest.journal where uid = $1 order by seq")).await?;
            let rows = within(client.query(&statement, &[&run.uid])).await?;
            let mut records = Vec::with_capacity(rows.len());
            for row in &rows {
                let text: &str = row.try_get(0).map_err(unavailable)?;
                records.push(serde_json::from_str::<Record>(text).map_err(|e| StoreError::Corrupt(e.to_string()))?);
            }
            let open = Open { pool: self.pool.clone(), run: run.clone(), journal: Journal::new(records)? };
            Ok(Box::new(open) as Box<dyn OpenJournal>)
        }
        .boxed()
    }
}

struct Open {
    pool: Pool,
    run: RunId,
    journal: Journal,
}

impl OpenJournal for Open {
    fn journal(&self) -> &Journal {
        &self.journal
    }
    fn name(&self) -> String {
        self.run.uid.clone()
    }
    fn append(&mut self, at: Timestamp, entry: Entry) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let record = Record { seq: self.journal.records().len() as u64 + 1, at, entry };
            let text = serde_json::to_string(&record).map_err(|e| StoreError::Corrupt(e.to_string()))?;
            if text.len() > MAX_BYTES {
                return Err(StoreError::TooLarge(format!("{} bytes, {MAX_BYTES} fit", text.len())));
            }
            let seq = i64::try_from(record.seq).map_err(|e| StoreError::Corrupt(e.to_string()))?;
            let client = self.pool.get().await.map_err(no_connection)?;
            let insert = "insert into inquest.journal (uid, seq, namespace, name, record) values ($1, $2, $3, $4, $5)";
            let statement = within(client.prepare_cached(insert)).await?;
            within(client.execute(&statement, &[&self.run.uid, &seq, &self.run.namespace, &self.run.name, &text])).await?;
            self.journal.push(at, record.entry);
            Ok(())
        }
        .boxed()
    }
}

async fn within<T>(statement: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, StoreError> {
    match tokio::time::timeout(DEADLINE, statement).await {
        Ok(result) => result.map_err(unavailable),
        Err(_late) => Err(StoreError::Unavailable(format!("no answer in {} s", DEADLINE.as_secs()))),
    }
}

fn unavailable(error: tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(code) if *code == SqlState::UNIQUE_VIOLATION => StoreError::Fenced,
        // The message alone: a row's values are in the details.
        _ => StoreError::Unavailable(error.as_db_error().map_or_else(|| error.to_string(), |e| format!("{}: {}", e.code().code(), e.message()))),
    }
}

fn no_connection(error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => unavailable(error),
        other => StoreError::Unavailable(other.to_string()),
    }
}
