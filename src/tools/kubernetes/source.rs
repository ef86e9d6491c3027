//! Where objects are read from: the API server as the run's ServiceAccount, or a snapshot.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;

use super::kinds::Kind;
use crate::tools::server::{Caller, Refusal};

/// A list as far as it was read.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub items: Vec<Value>,
    /// Nothing was cut: the only thing that proves an absence.
    pub complete: bool,
}

/// Which log to read.
#[derive(Clone, Debug)]
pub struct LogQuery {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    pub previous: bool,
    pub tail: u32,
}

/// Reads objects and logs, as somebody.
pub trait Source: Send + Sync {
    fn list<'a>(&'a self, kind: &'static Kind, namespace: Option<&'a str>) -> BoxFuture<'a, Result<Listing, Refusal>>;
    fn get<'a>(&'a self, kind: &'static Kind, namespace: Option<&'a str>, name: &'a str) -> BoxFuture<'a, Result<Value, Refusal>>;
    /// Lines with their RFC 3339 time in front, as `kubectl logs --timestamps` prints them.
    fn logs<'a>(&'a self, query: &'a LogQuery) -> BoxFuture<'a, Result<String, Refusal>>;
    fn now(&self) -> Timestamp;
}

/// Gives each caller a source that reads with that caller's rights.
pub trait Readers: Send + Sync {
    fn reader(&self, caller: &Caller) -> Arc<dyn Source>;
}
