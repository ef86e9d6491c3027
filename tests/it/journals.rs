//! S1.15: the PostgreSQL store: its own schema, a role without rights beyond it, what an outage is called, and what is removed.

use inquest::{
    agent::Entry,
    store::{JournalStore, PostgresStore, RunId, StoreError, conformance::suite},
};
use jiff::Timestamp;

use crate::postgres::Postgres;

fn run(uid: &str) -> RunId {
    RunId { namespace: "demo".into(), name: "run".into(), uid: uid.into() }
}

#[tokio::test]
async fn s1_15_postgres_conforms_with_a_role_that_may_do_nothing_else() {
    inquest::identity::install_crypto();
    let server = Postgres::start();
    server.sql("create role journal login; create schema inquest authorization journal; create table public.others (a int)");
    let url = server.url().replace("postgres@", "journal@");
    let store = PostgresStore::connect(&url, Some(&server.ca())).await.unwrap();
    suite(&store, &run("u")).await;
    // A second replica finds the schema as it is.
    let again = PostgresStore::connect(&url, Some(&server.ca())).await.unwrap();
    assert_eq!(again.open(&run("u")).await.unwrap().journal().records().len(), 6);
    assert_eq!(server.sql("select rolsuper::text from pg_roles where rolname = 'journal'"), "false");
    assert_eq!(server.sql("select max(version) from inquest.version"), "1");
    // What is no more is removed; what has just begun is not.
    let mut open = store.open(&run("gone")).await.unwrap();
    open.append(Timestamp::UNIX_EPOCH, Entry::Suspended).await.unwrap();
    assert_eq!(store.keep_only(&["u".into()]).await.unwrap(), 0);
    server.sql("update inquest.journal set written = now() - interval '2 hours'");
    assert_eq!(store.keep_only(&["u".into()]).await.unwrap(), 1);
    assert_eq!(store.open(&run("u")).await.unwrap().journal().records().len(), 6);
    // An outage is an error that says so, and nothing is taken for empty.
    server.stop();
    assert!(matches!(store.open(&run("u")).await.err(), Some(StoreError::Unavailable(_))));
    let nowhere = PostgresStore::connect("postgres://journal:hunter22hunter22@127.0.0.1:1/x", None).await.err().unwrap().to_string();
    assert!(!nowhere.contains("hunter22") && nowhere.contains("the journal cannot be reached"), "{nowhere}");
}
