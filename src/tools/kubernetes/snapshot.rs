//! A saved cluster: the objects and logs that the tools saw, for tests that need no cluster.

use std::{collections::BTreeMap, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    json,
    kinds::Kind,
    source::{Listing, LogQuery, Readers, Source},
};
use crate::tools::server::{Caller, Refusal};

/// Objects with their `kind`, and logs by `namespace/pod/container` (`…/previous` for the one before).
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    pub taken_at: Timestamp,
    pub objects: Vec<Value>,
    #[serde(default)]
    pub logs: BTreeMap<String, String>,
    /// Kinds, or namespaces, that the reader may not read.
    #[serde(default)]
    pub denied: Vec<String>,
}

impl Readers for Arc<Snapshot> {
    fn reader(&self, _caller: &Caller) -> Arc<dyn Source> {
        Arc::new(Reader(Arc::clone(self)))
    }
}

struct Reader(Arc<Snapshot>);

impl Reader {
    fn allowed(&self, kind: &Kind, namespace: Option<&str>) -> Result<(), Refusal> {
        let denied = &self.0.denied;
        if denied.iter().any(|d| d == kind.kind || Some(d.as_str()) == namespace) {
            let place = namespace.map(|n| format!(" in namespace {n}")).unwrap_or_default();
            return Err(Refusal::Forbidden { who: "the reader".to_owned(), what: format!("read {}{place}", kind.plural) });
        }
        Ok(())
    }

    fn of<'a>(&'a self, kind: &'a Kind, namespace: Option<&'a str>) -> impl Iterator<Item = &'a Value> {
        self.0.objects.iter().filter(move |o| json::text(o, "/kind") == kind.kind && (!kind.namespaced || namespace.is_none_or(|n| json::namespace(o) == n)))
    }
}

impl Source for Reader {
    fn list<'a>(&'a self, kind: &'static Kind, namespace: Option<&'a str>) -> BoxFuture<'a, Result<Listing, Refusal>> {
        async move {
            self.allowed(kind, namespace)?;
            Ok(Listing { items: self.of(kind, namespace).cloned().collect(), complete: true })
        }
        .boxed()
    }

    fn get<'a>(&'a self, kind: &'static Kind, namespace: Option<&'a str>, name: &'a str) -> BoxFuture<'a, Result<Value, Refusal>> {
        async move {
            self.allowed(kind, namespace)?;
            self.of(kind, namespace).find(|o| json::name(o) == name).cloned().ok_or_else(|| Refusal::NotFound { what: format!("{} \"{name}\"", kind.plural) })
        }
        .boxed()
    }

    fn logs<'a>(&'a self, query: &'a LogQuery) -> BoxFuture<'a, Result<String, Refusal>> {
        async move {
            let mut key = format!("{}/{}/{}", query.namespace, query.pod, query.container);
            if query.previous {
                key.push_str("/previous");
            }
            let text = self.0.logs.get(&key).ok_or_else(|| Refusal::InvalidArgument {
                field: "arguments",
                problem: if query.previous { "previous terminated container not found".to_owned() } else { "no log".to_owned() },
            })?;
            let lines: Vec<&str> = text.lines().collect();
            let from = lines.len().saturating_sub(query.tail as usize);
            Ok(lines[from..].join("\n"))
        }
        .boxed()
    }

    fn now(&self) -> Timestamp {
        self.0.taken_at
    }
}
