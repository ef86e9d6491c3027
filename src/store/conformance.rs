//! What every store must do. Called for each of them: for `memory` below, for `postgres` in `tests/it/journals.rs`, for `kubernetes` in
//! `tests/e2e/lifecycle.rs`.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use jiff::Timestamp;

use super::{JournalStore, RunId, StoreError};
use crate::agent::Entry;

/// Runs the suite against an empty store.
pub async fn suite(store: &dyn JournalStore, run: &RunId) {
    let at = Timestamp::UNIX_EPOCH;
    let mut first = store.open(run).await.unwrap();
    assert!(first.journal().records().is_empty(), "a new run has no records");

    first.append(at, Entry::Started { investigator: "playbook".into(), tools: vec![], schemas: vec![] }).await.unwrap();
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

    // Large entries that do not compress are read back whole, in order, across chunks.
    let mut state = 1u32;
    for _ in 0..3 {
        let server: String = (0..200_000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                char::from_digit((state >> 24) % 36, 36).unwrap()
            })
            .collect();
        let tools = vec![crate::agent::ToolRef { server, tool: "t".into() }];
        one.append(at, Entry::Started { investigator: "playbook".into(), tools, schemas: vec![] }).await.unwrap();
    }
    assert_eq!(store.open(run).await.unwrap().journal(), one.journal());

    // Another run of the same name is another run.
    let other = RunId { uid: format!("{}-other", run.uid), ..run.clone() };
    assert!(store.open(&other).await.unwrap().journal().records().is_empty());
}

#[cfg(test)]
#[tokio::test]
async fn memory_conforms() {
    suite(&super::MemoryStore::default(), &RunId { namespace: "demo".into(), name: "run".into(), uid: "u".into() }).await;
}
