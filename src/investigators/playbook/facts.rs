//! Facts: what the evidence says, each with the exact text that a citation will quote.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::lines;
use crate::{
    agent::{CallOutcome, Journal},
    grounding::{Evidence, trusted},
};

/// An object: namespace, kind, name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub namespace: String,
    pub kind: String,
    pub name: String,
}

/// An unhealthy object, as `find_problems` reports it.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Problem {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// `Deployment/web`.
    pub workload: String,
    pub container: String,
    pub reason: String,
    pub message: String,
    pub count: Option<i64>,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    pub from: String,
    pub over: bool,
    /// By itself no fault.
    pub notice: bool,
    pub text: String,
}

impl Problem {
    /// The workload, or the object itself.
    pub fn subject(&self) -> (String, String) {
        self.workload.split_once('/').map_or_else(|| (self.kind.clone(), self.name.clone()), |(k, n)| (k.to_owned(), n.to_owned()))
    }
}

/// The log of one container, with the lines that explain its end.
#[derive(Clone, Debug)]
pub struct Log {
    pub evidence: String,
    pub namespace: String,
    pub pod: String,
    pub container: String,
    pub lines: Vec<Line>,
    /// Lines of the most telling class, the best first.
    pub explaining: Vec<usize>,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Line {
    pub time: Option<Timestamp>,
    pub text: String,
}

/// One look at an object and what belongs to it, or at a namespace.
#[derive(Clone, Debug)]
pub struct Frame {
    pub evidence: String,
    pub namespace: String,
    /// Kind and name; none for the namespace.
    pub target: Option<(String, String)>,
    pub problems: Vec<Problem>,
    /// `Kind/name` of what was looked at.
    pub objects: Vec<String>,
    /// Listed to the end: the only thing that proves an absence.
    pub complete: bool,
    pub summary: String,
    /// What could not be read, as lines for a person.
    pub denied: Vec<String>,
}

/// Everything the journal says.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub frames: Vec<Frame>,
    pub logs: Vec<Log>,
    /// `(namespace, clusterIP)` to the Service's name.
    pub cluster_ips: BTreeMap<(String, String), String>,
    /// Namespaces whose Services were listed.
    pub services_listed: BTreeSet<String>,
    /// Calls that were refused or failed: tool, arguments, what was said.
    pub refused: Vec<Refused>,
    pub skipped: Vec<String>,
    pub truncated: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Refused {
    pub tool: String,
    pub arguments: Value,
    pub code: String,
    pub error: String,
}

impl Facts {
    #[must_use]
    pub fn of(journal: &Journal) -> Self {
        let mut facts = Self::default();
        for evidence in journal.evidence() {
            facts.add(&trusted(evidence));
        }
        let planned: BTreeMap<&str, &str> = journal.planned().map(|p| (p.id.as_str(), p.tool.as_str())).collect();
        for result in journal.results() {
            if let CallOutcome::Skipped { reason } = &result.outcome {
                let tool = planned.get(result.call.as_str()).copied().unwrap_or_default();
                facts.skipped.push(format!("{tool} ({}) was skipped: {reason}", result.call));
            }
        }
        facts
    }

    fn add(&mut self, evidence: &Evidence) {
        let Some(value) = evidence.json() else {
            self.refuse(evidence, "not_json", "the result is not JSON");
            return;
        };
        if let Some(code) = &evidence.code {
            let error = value.get("error").and_then(Value::as_str).unwrap_or(&evidence.text);
            self.refuse(evidence, code, error);
            return;
        }
        let said = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        if evidence.truncated || value.get("cut").is_some() {
            self.truncated.push(format!("{} of {} was cut: {}", evidence.tool, evidence.id, said("cut")));
        }
        match evidence.tool.as_str() {
            "find_problems" => self.frames.push(Frame {
                evidence: evidence.id.clone(),
                namespace: said("namespace"),
                target: value.get("target").and_then(|t| Some((t.get("kind")?.as_str()?.to_owned(), t.get("name")?.as_str()?.to_owned()))),
                problems: decode(&value, "problems"),
                objects: decode(&value, "objects"),
                complete: value.get("complete").and_then(Value::as_bool).unwrap_or(false),
                summary: said("summary"),
                denied: denied(&value),
            }),
            "search_runbooks" => self.truncated.extend(denied(&value)),
            "kubectl_logs" => {
                let lines: Vec<Line> = decode(&value, "lines");
                let explaining = lines::explaining(&lines);
                self.logs.push(Log {
                    evidence: evidence.id.clone(),
                    namespace: said("namespace"),
                    pod: said("pod"),
                    container: said("container"),
                    lines,
                    explaining,
                });
            }
            "kubectl_get" if said("kind") == "Service" => {
                let namespace = said("namespace");
                for item in value.get("items").and_then(Value::as_array).into_iter().flatten() {
                    self.cluster_ips.insert((namespace.clone(), text(item, "clusterIP").to_owned()), text(item, "name").to_owned());
                }
                self.services_listed.insert(namespace);
            }
            _ => {}
        }
    }

    fn refuse(&mut self, evidence: &Evidence, code: &str, error: &str) {
        self.refused.push(Refused { tool: evidence.tool.clone(), arguments: evidence.arguments.clone(), code: code.to_owned(), error: error.to_owned() });
    }

    /// The look at exactly this object.
    pub fn frame(&self, key: &Key) -> Option<&Frame> {
        self.frames.iter().find(|f| f.namespace == key.namespace && f.target.as_ref().is_some_and(|(k, n)| *k == key.kind && *n == key.name))
    }

    /// Why looking at this object was refused.
    pub fn refusal(&self, key: &Key) -> Option<&Refused> {
        self.refused.iter().find(|r| {
            r.tool == "find_problems"
                && text(&r.arguments, "namespace") == key.namespace
                && text(&r.arguments, "kind") == key.kind
                && text(&r.arguments, "name") == key.name
        })
    }

    pub fn log(&self, namespace: &str, pod: &str, container: &str) -> Option<&Log> {
        self.logs.iter().find(|l| l.namespace == namespace && l.pod == pod && (container.is_empty() || l.container == container))
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// What the tool could not read, as lines for a person.
fn denied(value: &Value) -> Vec<String> {
    value.get("denied").and_then(Value::as_array).into_iter().flatten().map(|d| format!("{}: {}", text(d, "what"), text(d, "why"))).collect()
}

/// A list of things, leaving out those that are not what they should be: a server of somebody else may answer anything.
fn decode<T: for<'de> Deserialize<'de>>(value: &Value, key: &str) -> Vec<T> {
    value.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(|v| T::deserialize(v).ok()).collect()
}
