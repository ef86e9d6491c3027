//! Journals in memory: for tests, and for runs that need not survive their process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;

use super::{JournalStore, OpenJournal, RunId, StoreError};
use crate::agent::{Entry, Journal, Record};

type Shared = Arc<Mutex<HashMap<RunId, Vec<Record>>>>;

#[derive(Clone, Default)]
pub struct MemoryStore {
    runs: Shared,
}

struct Open {
    run: RunId,
    runs: Shared,
    journal: Journal,
}

impl JournalStore for MemoryStore {
    fn kind(&self) -> &'static str {
        "memory"
    }
    fn open<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Box<dyn OpenJournal>, StoreError>> {
        let records = self.runs.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned().unwrap_or_default();
        async move {
            let open = Open { run: run.clone(), runs: Arc::clone(&self.runs), journal: Journal::new(records)? };
            Ok(Box::new(open) as Box<dyn OpenJournal>)
        }
        .boxed()
    }
}

impl OpenJournal for Open {
    fn journal(&self) -> &Journal {
        &self.journal
    }
    fn name(&self) -> String {
        self.run.name.clone()
    }
    fn append(&mut self, at: Timestamp, entry: Entry) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = runs.entry(self.run.clone()).or_default();
        let result = if stored.len() == self.journal.records().len() {
            stored.push(self.journal.push(at, entry));
            Ok(())
        } else {
            Err(StoreError::Fenced)
        };
        async move { result }.boxed()
    }
}
