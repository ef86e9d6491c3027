//! What every store must do. Called for each of them.

use jiff::Timestamp;

use super::{JournalStore, MemoryStore, RunId, StoreError};
use crate::agent::Entry;

/// Runs the suite against an empty store.
pub async fn suite(store: &dyn JournalStore, run: &RunId) {
    let at = Timestamp::UNIX_EPOCH;
    let mut first = store.open(run).await.unwrap();
    assert!(first.journal().records().is_empty(), "a new run has no records");

    first.append(at, Entry::Started { investigator: "playbook".into(), tools: vec![] }).await.unwrap();
    first.append(at, Entry::Suspended).await.unwrap();
    let again = store.open(run).await.unwrap();
    assert_eq!(again.journal(), first.journal(), "what was appended is read back, in order");
    assert_eq!(again.journal().records().iter().map(|r| r.seq).collect::<Vec<_>>(), [1, 2]);

    // Two writers that saw the same journal: one wins, the other is fenced and nothing of it is stored.
    let (mut one, mut two) = (store.open(run).await.unwrap(), store.open(run).await.unwrap());
    one.append(at, Entry::Resumed).await.unwrap();
    let lost = two.append(at, Entry::Suspended).await;
    assert!(matches!(lost, Err(StoreError::Fenced)), "{lost:?}");
    assert_eq!(store.open(run).await.unwrap().journal(), one.journal());

    // A large entry is read back whole.
    let server = "x".repeat(200_000);
    let tools = vec![crate::agent::ToolRef { server, tool: "t".into() }];
    one.append(at, Entry::Started { investigator: "playbook".into(), tools }).await.unwrap();
    assert_eq!(store.open(run).await.unwrap().journal(), one.journal());

    // Another run of the same name is another run.
    let other = RunId { uid: format!("{}-other", run.uid), ..run.clone() };
    assert!(store.open(&other).await.unwrap().journal().records().is_empty());
}

#[tokio::test]
async fn memory_conforms() {
    suite(&MemoryStore::default(), &RunId { namespace: "demo".into(), name: "run".into(), uid: "u".into() }).await;
}
