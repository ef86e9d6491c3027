//! From facts and playbooks to hypotheses, and to what is still missing for one.

use std::collections::BTreeMap;

use regex::{Captures, Regex};

use super::{
    facts::{Facts, Frame, Key, Log, Problem},
    format::{Outcome, Playbook, ProblemPattern, fill},
};
use crate::api::{Citation, ObjectRef, SuggestedAction};

/// A match of one playbook.
#[derive(Clone, Debug)]
pub struct Hypothesis<'a> {
    pub book: &'a Playbook,
    /// Whose trouble it explains: the workload, or the object itself.
    pub subject: (String, String),
    pub anchor: Option<&'a Problem>,
    pub citations: Vec<Citation>,
    pub meaning: Meaning,
    pub actions: Vec<SuggestedAction>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    Cause {
        object: ObjectRef,
        statement: String,
        signature: String,
    },
    Link {
        to: Key,
        statement: String,
    },
    /// The host is an address: which Service has it must be asked first.
    Resolve {
        namespace: String,
    },
}

/// A log that a playbook needs before it can decide.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    /// How much an answer could decide.
    pub specificity: i32,
    pub subject: (String, String),
}

pub struct Matched<'a> {
    pub hypotheses: Vec<Hypothesis<'a>>,
    pub needs: Vec<Need>,
}

/// All matches of one frame. Problems that are over match nothing: they are history.
pub fn matches<'a>(books: &'a [Playbook], frame: &'a Frame, facts: &'a Facts) -> Matched<'a> {
    let mut matched = Matched { hypotheses: vec![], needs: vec![] };
    for book in books {
        match &book.problem {
            Some(pattern) => {
                for problem in frame.problems.iter().filter(|p| !p.over) {
                    let Some(found) = on_problem(pattern, problem) else { continue };
                    anchored(book, frame, facts, problem, found, &mut matched);
                }
            }
            None => {
                // A playbook of the log alone speaks of pods that look healthy.
                for log in facts.logs.iter().filter(|l| l.namespace == frame.namespace && frame.objects.iter().any(|o| o.strip_prefix("Pod/") == Some(&l.pod)))
                {
                    if frame.problems.iter().any(|p| !p.over && p.name == log.pod) {
                        continue;
                    }
                    on_log(book, log, &mut |bound, quote| {
                        let mut all = log_names(log);
                        all.extend(bound);
                        let citations = vec![pod_citation(log), Citation { evidence: log.evidence.clone(), quote }];
                        push(book, facts, frame, None, ("Pod".to_owned(), log.pod.clone()), all, citations, &mut matched.hypotheses);
                    });
                }
            }
        }
    }
    matched
}

fn anchored<'a>(book: &'a Playbook, frame: &'a Frame, facts: &'a Facts, problem: &'a Problem, found: BTreeMap<String, String>, matched: &mut Matched<'a>) {
    let subject = problem.subject();
    let mut bound = names(problem);
    bound.extend(found);
    let mut citations = vec![Citation { evidence: frame.evidence.clone(), quote: problem.text.clone() }];
    if let Some(second) = &book.and {
        let other =
            frame.problems.iter().filter(|p| !p.over && p.text != problem.text && p.subject() == subject).find_map(|p| Some((p, on_problem(second, p)?)));
        let Some((other, more)) = other else { return };
        bound.extend(more);
        citations.push(Citation { evidence: frame.evidence.clone(), quote: other.text.clone() });
    }
    if book.log.is_none() {
        push(book, facts, frame, Some(problem), subject, bound, citations, &mut matched.hypotheses);
        return;
    }
    if problem.kind != "Pod" {
        return;
    }
    // One pod of a workload speaks for its replicas: prefer the log that is there.
    let read = facts.logs.iter().find(|l| {
        l.namespace == problem.namespace
            && (problem.container.is_empty() || l.container == problem.container)
            && (l.pod == problem.name || frame.problems.iter().any(|p| p.name == l.pod && p.subject() == subject))
    });
    match read {
        Some(log) if log.pod == problem.name => on_log(book, log, &mut |more, quote| {
            let mut all = bound.clone();
            all.extend(more);
            let mut cited = citations.clone();
            cited.push(Citation { evidence: log.evidence.clone(), quote });
            push(book, facts, frame, Some(problem), subject.clone(), all, cited, &mut matched.hypotheses);
        }),
        Some(_) => {}
        None => matched.needs.push(Need {
            namespace: problem.namespace.clone(),
            pod: problem.name.clone(),
            container: problem.container.clone(),
            specificity: book.specificity,
            subject,
        }),
    }
}

fn on_problem(pattern: &ProblemPattern, problem: &Problem) -> Option<BTreeMap<String, String>> {
    let one_of = |list: &[String], value: &str| list.is_empty() || list.iter().any(|v| v == value);
    if !one_of(&pattern.kinds, &problem.kind) || !one_of(&pattern.reasons, &problem.reason) || !one_of(&pattern.from, &problem.from) {
        return None;
    }
    match &pattern.message {
        None => Some(BTreeMap::from([("match".to_owned(), problem.reason.clone())])),
        Some(regex) => regex.captures(&problem.message).map(|c| captured(regex, &c)),
    }
}

/// Tries the explaining lines in order; the first that matches counts.
fn on_log(book: &Playbook, log: &Log, found: &mut dyn FnMut(BTreeMap<String, String>, String)) {
    let Some(pattern) = &book.log else { return };
    for line in log.explaining.iter().filter_map(|i| log.lines.get(*i)) {
        let bound = match &pattern.text {
            None if super::lines::is_telling(&line.text) => Some(BTreeMap::from([("match".to_owned(), line.text.clone())])),
            None => None,
            Some(regex) => regex.captures(&line.text).map(|c| captured(regex, &c)),
        };
        if let Some(mut bound) = bound {
            bound.insert("line".to_owned(), line.text.trim().to_owned());
            found(bound, line.text.trim().to_owned());
            return;
        }
    }
}

fn captured(regex: &Regex, captures: &Captures<'_>) -> BTreeMap<String, String> {
    let mut bound: BTreeMap<String, String> =
        regex.capture_names().flatten().map(|n| (n.to_owned(), captures.name(n).map_or(String::new(), |m| m.as_str().to_owned()))).collect();
    bound.insert("match".to_owned(), captures[0].to_owned());
    bound
}

fn names(problem: &Problem) -> BTreeMap<String, String> {
    let (subject_kind, subject) = problem.subject();
    [
        ("kind", problem.kind.clone()),
        ("namespace", problem.namespace.clone()),
        ("name", problem.name.clone()),
        ("pod", problem.name.clone()),
        ("container", problem.container.clone()),
        ("reason", problem.reason.clone()),
        ("message", problem.message.clone()),
        ("subjectKind", subject_kind),
        ("workload", subject.clone()),
        ("subject", subject),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), v))
    .collect()
}

fn log_names(log: &Log) -> BTreeMap<String, String> {
    [
        ("kind", "Pod"),
        ("namespace", &log.namespace),
        ("name", &log.pod),
        ("pod", &log.pod),
        ("container", &log.container),
        ("reason", ""),
        ("message", ""),
        ("subjectKind", "Pod"),
        ("workload", &log.pod),
        ("subject", &log.pod),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .collect()
}

/// A log line does not say whose it is; the tool's summary does.
fn pod_citation(log: &Log) -> Citation {
    Citation { evidence: log.evidence.clone(), quote: format!("container {} of Pod {}/{}", log.container, log.namespace, log.pod) }
}

#[expect(clippy::too_many_arguments, reason = "each is one part of a hypothesis, and this is the one place that puts them together")]
fn push<'a>(
    book: &'a Playbook,
    facts: &Facts,
    frame: &'a Frame,
    anchor: Option<&'a Problem>,
    subject: (String, String),
    bound: BTreeMap<String, String>,
    citations: Vec<Citation>,
    out: &mut Vec<Hypothesis<'a>>,
) {
    let meaning = match &book.outcome {
        Outcome::Conclude { kind, namespace, name, statement, signature } => Meaning::Cause {
            object: ObjectRef { api_version: String::new(), kind: fill(kind, &bound), namespace: fill(namespace, &bound), name: fill(name, &bound) },
            statement: fill(statement, &bound),
            signature: fill(signature, &bound),
        },
        Outcome::Link { kind, host, statement } => {
            let host = fill(host, &bound);
            match resolve(&host, &frame.namespace, facts) {
                Resolved::Service(namespace, name) => Meaning::Link { to: Key { namespace, kind: kind.clone(), name }, statement: fill(statement, &bound) },
                Resolved::Ask => Meaning::Resolve { namespace: frame.namespace.clone() },
                // Not something of this cluster: the link leads nowhere.
                Resolved::Outside => return,
            }
        }
    };
    let actions = book
        .actions
        .iter()
        .map(|a| SuggestedAction { title: fill(&a.title, &bound), command: fill(&a.command, &bound), reason: fill(&a.reason, &bound) })
        .collect();
    out.push(Hypothesis { book, subject, anchor, citations, meaning, actions });
}

enum Resolved {
    Service(String, String),
    Ask,
    Outside,
}

/// `redis`, `redis.cache`, `redis.cache.svc.cluster.local`, or a cluster IP.
fn resolve(host: &str, namespace: &str, facts: &Facts) -> Resolved {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    if host.is_empty() || host == "localhost" || host.starts_with("127.") || host.contains("::") {
        return Resolved::Outside;
    }
    if host.parse::<std::net::Ipv4Addr>().is_ok() {
        return match facts.cluster_ips.get(&(namespace.to_owned(), host)) {
            Some(name) => Resolved::Service(namespace.to_owned(), name.clone()),
            None if facts.services_listed.contains(namespace) => Resolved::Outside,
            None => Resolved::Ask,
        };
    }
    let labels: Vec<&str> = host.split('.').collect();
    match labels.as_slice() {
        [name] => Resolved::Service(namespace.to_owned(), (*name).to_owned()),
        [name, namespace] if !["com", "net", "org", "io", "dev", "local", "internal", "svc"].contains(namespace) => {
            Resolved::Service((*namespace).to_owned(), (*name).to_owned())
        }
        [name, namespace, "svc", ..] => Resolved::Service((*namespace).to_owned(), (*name).to_owned()),
        _ => Resolved::Outside,
    }
}
