//! Where journals live: `memory` for tests and local runs, `kubernetes` by default, `postgres` for many or long runs. All pass one
//! conformance suite (`conformance`).
//!
//! *Invariant*: appends are fenced. A writer whose view of the journal is not the newest cannot append; it must open it again.

mod kubernetes;
mod memory;
mod postgres;

pub use kubernetes::KubernetesStore;
pub use memory::MemoryStore;
pub use postgres::PostgresStore;

use futures::future::BoxFuture;
use jiff::Timestamp;

use crate::agent::{Entry, Journal, OutOfOrder};

/// Which run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RunId {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

#[derive(thiserror::Error, Debug)]
pub enum StoreError {
    /// Somebody else has written: what this writer knows is old.
    #[error("the journal was written by another replica")]
    Fenced,
    #[error("the journal cannot be read: {0}")]
    Corrupt(String),
    #[error("the journal cannot be reached: {0}")]
    Unavailable(String),
    /// Larger than the store takes; trying again changes nothing.
    #[error("the journal's entry is too large: {0}")]
    TooLarge(String),
}

impl StoreError {
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Fenced => "JournalFenced",
            Self::Corrupt(_) => "JournalCorrupt",
            Self::Unavailable(_) => "JournalUnavailable",
            Self::TooLarge(_) => "JournalEntryTooLarge",
        }
    }
}

impl From<OutOfOrder> for StoreError {
    fn from(error: OutOfOrder) -> Self {
        Self::Corrupt(error.to_string())
    }
}

/// Opens journals.
pub trait JournalStore: Send + Sync {
    /// `memory` or `kubernetes`, as in `status.journalRef.store`.
    fn kind(&self) -> &'static str;
    fn open<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Box<dyn OpenJournal>, StoreError>>;
}

/// A journal as it stood when it was opened, and the only way to add to it.
pub trait OpenJournal: Send + Sync {
    fn journal(&self) -> &Journal;
    /// The name in `status.journalRef`.
    fn name(&self) -> String;
    /// Durable when it returns.
    fn append(&mut self, at: Timestamp, entry: Entry) -> BoxFuture<'_, Result<(), StoreError>>;
}

pub mod conformance;
