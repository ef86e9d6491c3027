//! Everything of one namespace that explains something, read at once.

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    json,
    kinds::{KINDS, Kind},
    source::{Listing, Source},
};
use crate::tools::server::Refusal;

/// Lists in flight at once: enough to hide the round trips, few enough to be fair to the API server.
const AT_ONCE: usize = 12;
/// Kinds that no analysis needs, or that are asked for by name only.
const NOT_NEEDED: &[&str] = &["ControllerRevision", "Namespace", "Runbook"];

/// The objects of one namespace and of the cluster, as far as the reader may see them.
pub struct World {
    pub namespace: String,
    pub now: Timestamp,
    lists: BTreeMap<&'static str, Vec<Value>>,
    /// Kinds that were not read, and why.
    pub denied: Vec<(&'static Kind, Refusal)>,
    /// Kinds whose list was cut.
    pub cut: Vec<&'static str>,
    /// Kinds that this cluster does not serve.
    unserved: Vec<&'static str>,
}

impl World {
    /// Reads it. What is denied is recorded; only a cluster that does not answer is an error.
    pub async fn load(source: &dyn Source, namespace: &str) -> Result<Self, Refusal> {
        // Boxed one by one: the compiler cannot see through a closure that borrows and awaits.
        let mut reads: Vec<BoxFuture<'_, (&'static Kind, Result<Listing, Refusal>)>> = Vec::with_capacity(KINDS.len());
        for kind in KINDS {
            if Self::reads(kind) {
                reads.push(async move { (kind, source.list(kind, kind.namespaced.then_some(namespace)).await) }.boxed());
            }
        }
        let mut results: Vec<_> = stream::iter(reads).buffer_unordered(AT_ONCE).collect().await;
        results.sort_by_key(|(kind, _)| kind.kind);
        let mut world = Self { namespace: namespace.to_owned(), now: source.now(), lists: BTreeMap::new(), denied: vec![], cut: vec![], unserved: vec![] };
        for (kind, result) in results {
            match result {
                Ok(list) => {
                    if !list.complete {
                        world.cut.push(kind.kind);
                    }
                    world.lists.insert(kind.kind, list.items);
                }
                Err(unavailable @ Refusal::ClusterUnavailable(_)) => return Err(unavailable),
                // A kind that this cluster does not serve has no objects.
                Err(Refusal::NotFound { .. }) => world.unserved.push(kind.kind),
                Err(refusal) => world.denied.push((kind, refusal)),
            }
        }
        Ok(world)
    }

    /// Whether the world holds this kind.
    pub fn reads(kind: &Kind) -> bool {
        !NOT_NEEDED.contains(&kind.kind)
    }

    /// A kind that the cluster does not serve has no objects, and so no faults.
    pub fn serves(&self, kind: &str) -> bool {
        !self.unserved.contains(&kind)
    }

    pub fn all(&self, kind: &str) -> &[Value] {
        self.lists.get(kind).map_or(&[], Vec::as_slice)
    }

    pub fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.all(kind).iter().find(|o| json::name(o) == name)
    }

    /// Whether the list of this kind was read to its end.
    pub fn saw_all(&self, kind: &str) -> bool {
        self.lists.contains_key(kind) && !self.cut.contains(&kind)
    }

    /// What was denied, one line a reason.
    pub fn denied_json(&self) -> Vec<Value> {
        let mut by_why: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (kind, refusal) in &self.denied {
            let why = match refusal {
                Refusal::Forbidden { who, .. } if refusal.to_string().contains("impersonated") => format!("the API server does not let {who} be impersonated"),
                Refusal::Forbidden { who, .. } => format!("the API server does not let {who} read them"),
                other => other.to_string(),
            };
            by_why.entry(why).or_default().push(kind.plural);
        }
        by_why
            .into_iter()
            .map(|(why, kinds)| {
                // Everything denied is said in a line, not in a list of all that there is.
                let what = if kinds.len() > 8 { format!("{} kinds, among them pods, services and events", kinds.len()) } else { kinds.join(", ") };
                json!({"what": format!("{what} in namespace {}", self.namespace), "why": why})
            })
            .collect()
    }

    /// The controller that a person thinks of when they see this object: a Pod's Deployment, not its ReplicaSet.
    pub fn workload(&self, object: &Value) -> Option<(String, String)> {
        let owner = json::list(object, "/metadata/ownerReferences").iter().find(|o| json::flag(o, "/controller"))?;
        let (kind, name) = (json::text(owner, "/kind"), json::text(owner, "/name"));
        match self.find(kind, name).and_then(|o| self.workload(o)) {
            Some(top) => Some(top),
            // The ReplicaSet is not readable: its name is the Deployment's with a hash.
            None if kind == "ReplicaSet" && self.find(kind, name).is_none() => {
                name.rsplit_once('-').map(|(deployment, _hash)| ("Deployment".to_owned(), deployment.to_owned()))
            }
            None => Some((kind.to_owned(), name.to_owned())),
        }
    }
}
