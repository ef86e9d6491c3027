//! What an expert sees in one look: each unhealthy object with the exact reason, message, count and time. Facts, no conclusions.
//!
//! One file a group of kinds; each is a function from the world to problems.

mod autoscaling;
mod cluster;
mod events;
mod network;
mod pods;
mod storage;
mod workloads;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{edges, json, kinds, world::World};

/// An object by kind and name, in the namespace of the world (or of the cluster).
pub type Key = (String, String);

/// What came to an end this long ago is history, not a problem.
pub const RECENT: SignedDuration = SignedDuration::from_mins(15);
/// A state that lasts shorter than this is a start, not a problem.
pub const SETTLE: SignedDuration = SignedDuration::from_secs(20);

/// One unhealthy thing, as status, a condition or an event states it.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Problem {
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    /// The controller above it, as `Deployment/web`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub workload: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container: String,
    pub reason: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// status, condition, event or spec: where it was read.
    pub from: String,
    /// It came to an end: the object is well now, or gone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
    /// Worth knowing, and by itself no fault: a quota that is used up, a workload that somebody scaled to zero.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub notice: bool,
    /// The whole in one line, for a citation.
    pub text: String,
}

impl Problem {
    /// A problem of `object`; `from` says where it was read.
    pub fn new(world: &World, object: &Value, kind: &str, from: &'static str, reason: &str, message: impl Into<String>) -> Self {
        let workload = world.workload(object).map(|(k, n)| format!("{k}/{n}")).unwrap_or_default();
        Self {
            kind: kind.to_owned(),
            namespace: json::namespace(object).to_owned(),
            name: json::name(object).to_owned(),
            workload,
            reason: reason.to_owned(),
            message: clip(&message.into()),
            from: from.to_owned(),
            ..Self::default()
        }
    }
    pub fn container(mut self, name: &str) -> Self {
        name.clone_into(&mut self.container);
        self
    }
    pub fn at(mut self, first: Option<Timestamp>, last: Option<Timestamp>) -> Self {
        (self.first, self.last) = (first, last);
        self
    }
    pub fn times(mut self, count: Option<i64>) -> Self {
        self.count = count.filter(|c| *c > 0);
        self
    }
    pub fn over(mut self, over: bool) -> Self {
        self.over = over;
        self
    }
    pub fn notice(mut self) -> Self {
        self.notice = true;
        self
    }
    pub fn key(&self) -> Key {
        (self.kind.clone(), self.name.clone())
    }
    fn sealed(mut self) -> Self {
        let place = if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) };
        let container = if self.container.is_empty() { String::new() } else { format!(" container {}", self.container) };
        let times = self.count.filter(|c| *c > 1).map(|c| format!(" (x{c})")).unwrap_or_default();
        self.text = format!("{} {place}{container}: {}: {}{times}", self.kind, self.reason, self.message);
        self
    }
}

/// Messages of the runtime can hold whole stack traces; a problem needs its sentence.
fn clip(message: &str) -> String {
    const MAX: usize = 600;
    let message = message.trim();
    if message.chars().count() <= MAX { message.to_owned() } else { message.chars().take(MAX - 1).chain(['…']).collect() }
}

/// What `find_problems` returns before it is cut to size.
pub struct Found {
    pub problems: Vec<Problem>,
    /// How many objects were looked at.
    pub objects: usize,
    /// The objects in scope, when a target was given.
    pub scope: Option<BTreeSet<Key>>,
}

/// All problems of the namespace, or those of a target and of what belongs to it.
pub fn find(world: &World, target: Option<&Key>, window: SignedDuration) -> Found {
    let mut all = Vec::new();
    pods::find(world, &mut all);
    workloads::find(world, &mut all);
    network::find(world, &mut all);
    storage::find(world, &mut all);
    autoscaling::find(world, &mut all);
    cluster::find(world, &mut all);
    events::find(world, window, &mut all);

    let scope = target.map(|t| edges::scope(world, t));
    let mut problems: Vec<Problem> =
        all.into_iter().filter(|p| scope.as_ref().is_none_or(|s| s.contains(&p.key()) || concerns_all(p))).map(Problem::sealed).collect();
    if let Some((kind, name)) = target
        && let Some(missing) = absent(world, kind, name)
    {
        problems.insert(0, missing.sealed());
    }
    // What is over last; then by object; the order is the same on every call.
    problems.sort_by(|a, b| {
        (a.over, a.notice, rank(a), &a.kind, &a.name, &a.container, &a.reason).cmp(&(b.over, b.notice, rank(b), &b.kind, &b.name, &b.container, &b.reason))
    });
    problems.dedup_by(|a, b| a.text == b.text);
    let objects = match &scope {
        Some(scope) => scope.len(),
        None => ["Pod", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Service", "Ingress", "PersistentVolumeClaim"]
            .iter()
            .map(|k| world.all(k).len())
            .sum(),
    };
    Found { problems, objects, scope }
}

/// Status before conditions before events: the most direct statement first.
fn rank(problem: &Problem) -> u8 {
    match problem.from.as_str() {
        "status" => 0,
        "condition" => 1,
        "spec" => 2,
        _ => 3,
    }
}

/// Problems that no edge leads to and that yet hold up everything in the namespace.
fn concerns_all(problem: &Problem) -> bool {
    problem.kind == "ResourceQuota" || problem.kind == "Namespace" || problem.kind.ends_with("WebhookConfiguration")
}

/// The target does not exist, where the list that would hold it was read to its end.
fn absent(world: &World, kind: &str, name: &str) -> Option<Problem> {
    let known = kinds::find(kind)?;
    if !world.saw_all(known.kind) || world.find(known.kind, name).is_some() {
        return None;
    }
    let others: Vec<&str> = world.all(known.kind).iter().map(json::name).take(8).collect();
    let there = if others.is_empty() { "there is none at all".to_owned() } else { format!("there are {}", others.join(", ")) };
    Some(Problem {
        kind: known.kind.to_owned(),
        namespace: if known.namespaced { world.namespace.clone() } else { String::new() },
        name: name.to_owned(),
        reason: "NotFound".to_owned(),
        message: format!("no {} \"{name}\" exists in namespace {}; {there}", known.kind, world.namespace),
        from: "status".to_owned(),
        ..Problem::default()
    })
}
