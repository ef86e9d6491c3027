//! Follows hypotheses from the symptom to the cause, chooses, asks, and drafts the postmortem.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    facts::{Facts, Frame, Key, Problem},
    format::{LoadError, Playbook, load},
    matcher::{Hypothesis, Meaning, Need, matches},
    runbook,
};
use crate::{
    agent::{Journal, Move, ToolCall, is_no_answer},
    api::{Citation, ObjectRef, StopReason},
    grounding::{Claim, Draft, DraftEvent, Finding, RootClaim, occurs},
    investigators::{Case, Investigator},
};

/// Links followed from the symptom: further away, a cause is somebody else's incident.
const MAX_HOPS: usize = 5;
/// Logs asked for in one step.
const LOGS_AT_ONCE: usize = 3;
/// Below this a match describes the symptom and names no cause.
const CAUSE_FROM: i32 = 30;
/// Lines of a crashed container: enough for a stack trace and what led to it.
const TAIL: u32 = 60;

/// The investigator that needs no model.
#[derive(Clone, Debug)]
pub struct Playbooks {
    books: Vec<Playbook>,
}

impl Playbooks {
    /// Reads playbooks from files given as name and text.
    ///
    /// # Errors
    /// The first mistake, with file and line.
    pub fn load<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, LoadError> {
        let mut books: Vec<Playbook> = Vec::new();
        for (file, text) in files {
            for book in load(file, text)? {
                let at =
                    |problem: String| LoadError { file: file.to_owned(), line: 1 + text.lines().position(|l| l.contains(&book.name)).unwrap_or(0), problem };
                if books.iter().any(|b| b.name == book.name) {
                    return Err(at(format!("playbook {}: the name is used twice", book.name)));
                }
                books.push(book);
            }
        }
        for book in &books {
            if let Some(unknown) = book.rule_out.iter().find(|n| !books.iter().any(|b| b.name == **n)) {
                return Err(LoadError {
                    file: book.name.clone(),
                    line: 1,
                    problem: format!("playbook {}: rule_out names {unknown}, which is no playbook", book.name),
                });
            }
        }
        Ok(Self { books })
    }

    #[must_use]
    pub fn books(&self) -> &[Playbook] {
        &self.books
    }

    fn assess<'a>(&'a self, case: &Case, facts: &'a Facts) -> Assessment<'a> {
        // A link that turned out to explain nothing is left out, and the next best is tried.
        let mut barred: BTreeSet<(String, Key)> = BTreeSet::new();
        for _ in 0..=MAX_HOPS {
            match self.walk(case, facts, &barred) {
                Walk::Barred(book, key) => {
                    barred.insert((book, key));
                }
                Walk::Ended(assessment) => return assessment,
            }
        }
        Assessment::nothing(End::Unexplained)
    }

    fn walk<'a>(&'a self, case: &Case, facts: &'a Facts, barred: &BTreeSet<(String, Key)>) -> Walk<'a> {
        let mut path = Assessment::nothing(End::Unexplained);
        let Some(first) = start(case, facts) else {
            path.wants = vec![find_problems(&case.namespace, None, case.window_minutes)];
            path.end = End::NotLooked(None);
            return Walk::Ended(path);
        };
        let mut here = first;
        let mut seen = BTreeSet::new();
        loop {
            if !seen.insert(here.clone()) || seen.len() > MAX_HOPS + 1 {
                return back(path, barred);
            }
            let frame = match &here {
                Place::Namespace(frame) => frame,
                Place::Object(key) => match facts.frame(key) {
                    Some(frame) => frame,
                    None => {
                        path.end = match facts.refusal(key) {
                            Some(refused) => End::Denied(key.clone(), refused.error.clone()),
                            None => {
                                path.wants = vec![find_problems(&key.namespace, Some((&key.kind, &key.name)), case.window_minutes)];
                                End::NotLooked(Some(key.clone()))
                            }
                        };
                        return Walk::Ended(path);
                    }
                },
            };
            let matched = matches(&self.books, frame, facts);
            let hypotheses = standing(matched.hypotheses, frame, barred);
            let best = choose(&hypotheses, frame);
            let wants = logs_worth_reading(matched.needs, best.map(|h| h.book.specificity));
            if !wants.is_empty() {
                path.wants = wants;
            } else if hypotheses.is_empty() && is_well(frame) && frame.target.is_some() && path.links.is_empty() {
                // It looks well, and somebody asks all the same: what does it say itself?
                path.wants = logs_of_the_well(frame, facts);
            }
            path.frames.push(frame);
            let open = !path.wants.is_empty();
            let Some(best) = best.cloned() else {
                path.end = if is_denied(frame) {
                    End::Denied(key_of(&here, frame), frame.denied.join("; "))
                } else if is_well(frame) {
                    End::Well
                } else {
                    End::Unexplained
                };
                if !path.links.is_empty() && !open && matches!(path.end, End::Well) {
                    return back(path, barred);
                }
                return Walk::Ended(path);
            };
            path.others = hypotheses.iter().filter(|h| h.subject != best.subject || path.links.is_empty()).cloned().chain(path.others).collect();
            match &best.meaning {
                Meaning::Cause { .. } => {
                    path.root = Some(best);
                    path.end = End::Cause;
                    return Walk::Ended(path);
                }
                Meaning::Link { to, .. } => {
                    let next = Place::Object(to.clone());
                    path.links.push(best);
                    if open {
                        path.end = End::Unexplained;
                        return Walk::Ended(path);
                    }
                    here = next;
                }
                Meaning::Resolve { namespace } => {
                    path.wants.push(ToolCall { tool: "kubectl_get".to_owned(), arguments: json!({"kind": "Service", "namespace": namespace}) });
                    path.end = End::NotLooked(None);
                    return Walk::Ended(path);
                }
            }
        }
    }

    fn draft(&self, case: &Case, facts: &Facts, stopped: Option<StopReason>) -> Draft {
        let path = self.assess(case, facts);
        let mut draft = Draft::unknown(path.why_not(stopped));
        draft.chain = path.chain();
        draft.impact = path.impact();
        draft.timeline = path.timeline(facts);
        draft.not_checked = not_checked(&path, facts);
        match (&path.end, &path.root) {
            (End::Cause, Some(root)) => {
                if let Meaning::Cause { object, statement, signature } = &root.meaning
                    && root.book.specificity >= CAUSE_FROM
                    // At a cap, a log that was not read could have named a better cause.
                    && (stopped.is_none() || path.wants.is_empty())
                {
                    let object = ObjectRef { api_version: api_version(&object.kind).to_owned(), ..object.clone() };
                    draft.finding = Finding::Cause(RootClaim {
                        claim: Claim { statement: statement.clone(), citations: root.citations.clone() },
                        object,
                        signature: signature.clone(),
                    });
                    draft.actions.clone_from(&root.actions);
                    draft.contributing = path.contributing(root);
                } else {
                    draft.chain.extend(claim_of(root));
                }
            }
            (End::Well, _) if path.links.is_empty() => {
                if let Some(frame) = path.frames.first() {
                    let quote = frame.summary.clone();
                    draft.finding = Finding::Healthy(Claim {
                        statement: format!("Nothing is wrong now: {quote}."),
                        citations: vec![Citation { evidence: frame.evidence.clone(), quote }],
                    });
                    draft.chain.clear();
                    draft.contributing = frame.problems.iter().filter(|p| p.over || p.notice).take(3).map(|p| quoted(frame, p)).collect();
                }
            }
            _ => {}
        }
        draft
    }
}

impl Investigator for Playbooks {
    fn kind(&self) -> &'static str {
        "playbook"
    }

    fn next(&self, case: &Case, journal: &Journal) -> Move {
        let facts = Facts::of(journal);
        let path = self.assess(case, &facts);
        // What was asked before is answered: asking again would change nothing.
        // A call that got no answer is asked once more: the tools may have been starting.
        let mut asked: Vec<(&str, &Value)> = journal.planned().map(|p| (p.tool.as_str(), &p.arguments)).collect();
        for silent in journal.evidence().filter(|e| is_no_answer(e)) {
            let key = (silent.tool.as_str(), &silent.arguments);
            if asked.iter().filter(|a| **a == key).count() == 1 {
                asked.retain(|a| *a != key);
            }
        }
        let calls: Vec<ToolCall> = path.wants.into_iter().filter(|c| !asked.contains(&(c.tool.as_str(), &c.arguments))).collect();
        if calls.is_empty() {
            let mut draft = self.draft(case, &facts, None);
            if let Finding::Cause(root) = &draft.finding
                && let Some(search) = runbook::search(root, journal)
            {
                return Move::Call { thought: "the cause is known: is there a runbook for it?".to_owned(), calls: vec![search] };
            }
            draft.runbook = runbook::cited(journal);
            return Move::Conclude { draft: Box::new(draft) };
        }
        Move::Call { thought: path.end.thought(), calls }
    }

    fn conclude(&self, case: &Case, journal: &Journal, stop: StopReason) -> Draft {
        Draft { runbook: runbook::cited(journal), ..self.draft(case, &Facts::of(journal), Some(stop)) }
    }
}

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place<'a> {
    Object(Key),
    Namespace(&'a Frame),
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        self.evidence == other.evidence
    }
}
impl Eq for Frame {}
impl PartialOrd for Frame {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Frame {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.evidence.cmp(&other.evidence)
    }
}

enum Walk<'a> {
    Ended(Assessment<'a>),
    /// The last link explains nothing.
    Barred(String, Key),
}

/// How the walk ended.
#[derive(Clone, Debug)]
enum End {
    Cause,
    Well,
    Unexplained,
    NotLooked(Option<Key>),
    Denied(Key, String),
}

impl End {
    fn thought(&self) -> String {
        match self {
            Self::NotLooked(Some(key)) => format!("the chain leads to {} {}/{}: look at it", key.kind, key.namespace, key.name),
            Self::NotLooked(None) => "look at what is unhealthy".to_owned(),
            Self::Cause | Self::Unexplained | Self::Denied(..) => "read the log that may say why".to_owned(),
            Self::Well => "it looks well: read what it says itself".to_owned(),
        }
    }
}

struct Assessment<'a> {
    frames: Vec<&'a Frame>,
    links: Vec<Hypothesis<'a>>,
    root: Option<Hypothesis<'a>>,
    others: Vec<Hypothesis<'a>>,
    wants: Vec<ToolCall>,
    end: End,
}

impl Assessment<'_> {
    fn nothing(end: End) -> Self {
        Self { frames: vec![], links: vec![], root: None, others: vec![], wants: vec![], end }
    }

    fn why_not(&self, stopped: Option<StopReason>) -> String {
        let cap = stopped.map(|s| format!("The run stopped ({s:?}) before that was known. ")).unwrap_or_default();
        match &self.end {
            End::NotLooked(Some(key)) => format!("{cap}The chain leads to {} {}/{}, which was not looked at.", key.kind, key.namespace, key.name),
            End::NotLooked(None) => format!("{cap}Nothing was looked at."),
            End::Denied(key, why) if key.name.is_empty() => format!("{cap}The run may not read what it needs in namespace {}: {why}.", key.namespace),
            End::Denied(key, why) => format!("{cap}The chain leads to {} {}/{}, which this run could not read: {why}.", key.kind, key.namespace, key.name),
            End::Unexplained | End::Cause | End::Well => {
                let seen = self.frames.last().and_then(|f| f.problems.iter().find(|p| !p.over));
                match (seen, self.wants.is_empty()) {
                    (_, false) if stopped.is_some() => format!("{cap}A log that may name the cause was not read."),
                    (Some(problem), _) => format!("{cap}No playbook explains what was seen: {}", problem.text),
                    (None, _) => format!("{cap}Not everything could be listed, so neither a fault nor its absence is proved."),
                }
            }
        }
    }

    /// From the symptom to the cause: each link with its own quotes.
    fn chain(&self) -> Vec<Claim> {
        let mut chain: Vec<Claim> = Vec::new();
        let mut add = |claim: Claim| {
            if !chain.iter().any(|c| c.statement == claim.statement) {
                chain.push(claim);
            }
        };
        for (at, frame) in self.frames.iter().enumerate() {
            let hypothesis = self.links.get(at).or(self.root.as_ref());
            let own = frame.problems.iter().find(|p| !p.over && frame.target.as_ref().is_some_and(|(k, n)| *k == p.kind && *n == p.name));
            if let Some(problem) = own {
                add(quoted(frame, problem));
            }
            if let Some(anchor) = hypothesis.and_then(|h| h.anchor).or_else(|| frame.problems.iter().find(|p| !p.over && !p.notice)) {
                add(quoted(frame, anchor));
            }
            if let Some(link) = self.links.get(at) {
                claim_of(link).into_iter().for_each(&mut add);
            }
        }
        chain
    }

    fn impact(&self) -> Option<Claim> {
        const TELLING: &[&str] = &["NoReadyEndpoints", "SelectorMatchesNoPod", "ReplicasNotReady", "NotReady"];
        let frame = self.frames.first()?;
        TELLING.iter().find_map(|reason| frame.problems.iter().find(|p| !p.over && p.reason == *reason && p.kind != "Pod")).map(|p| quoted(frame, p))
    }

    /// When what was seen of the objects on the path began, and the log line that gave it away.
    fn timeline(&self, facts: &Facts) -> Vec<DraftEvent> {
        let mut events: Vec<DraftEvent> = Vec::new();
        let on_path: BTreeSet<(String, String)> = self.links.iter().chain(&self.root).map(|h| h.subject.clone()).collect();
        for frame in &self.frames {
            for problem in frame.problems.iter().filter(|p| on_path.contains(&p.subject())) {
                if let Some(time) = problem.first.or(problem.last) {
                    events.push(DraftEvent { time, event: problem.text.clone(), evidence: frame.evidence.clone() });
                }
            }
        }
        for hypothesis in self.links.iter().chain(&self.root) {
            for citation in &hypothesis.citations {
                let line = facts.logs.iter().filter(|l| l.evidence == citation.evidence).flat_map(|l| &l.lines).find(|l| l.text.trim() == citation.quote);
                if let Some(time) = line.and_then(|l| l.time) {
                    events.push(DraftEvent { time, event: citation.quote.clone(), evidence: citation.evidence.clone() });
                }
            }
        }
        events.sort_by(|a, b| (a.time, &a.event).cmp(&(b.time, &b.event)));
        events.dedup_by(|a, b| a.event == b.event);
        events.truncate(12);
        events
    }

    /// Other causes that were proved beside the root: mentioned, not blamed.
    fn contributing(&self, root: &Hypothesis<'_>) -> Vec<Claim> {
        let mut seen: Vec<&Meaning> = vec![&root.meaning];
        let mut out = Vec::new();
        for other in &self.others {
            let about_the_same = other.subject == root.subject || self.links.iter().any(|l| l.subject == other.subject);
            let same_cause = seen.iter().any(|m| same_cause(m, &other.meaning));
            if other.book.specificity < CAUSE_FROM || about_the_same || same_cause || out.len() == 3 {
                continue;
            }
            seen.push(&other.meaning);
            out.extend(claim_of(other));
        }
        out
    }
}

/// Where the question leads first: the target; or the object of the namespace that the question names; or the namespace.
fn start<'a>(case: &Case, facts: &'a Facts) -> Option<Place<'a>> {
    if let Some(target) = &case.target {
        return Some(Place::Object(Key { namespace: case.namespace.clone(), kind: target.kind.clone(), name: target.name.clone() }));
    }
    let frame = facts.frames.iter().find(|f| f.target.is_none() && f.namespace == case.namespace)?;
    let named = frame
        .objects
        .iter()
        .filter_map(|o| o.split_once('/'))
        // The kinds come in the order in which people mean them; of two names the longer is meant.
        .filter(|(_, name)| name.len() > 1 && names_whole(name, &case.question))
        .fold(None::<(&str, &str)>, |best, (kind, name)| match best {
            Some((_, found)) if found.len() >= name.len() => best,
            _ => Some((kind, name)),
        });
    Some(match named {
        Some((kind, name)) => Place::Object(Key { namespace: case.namespace.clone(), kind: kind.to_owned(), name: name.to_owned() }),
        None => Place::Namespace(frame),
    })
}

/// `api` is not named by "payments-api".
fn names_whole(name: &str, question: &str) -> bool {
    question.match_indices(name).any(|(at, _)| {
        let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_');
        !part(question[..at].chars().next_back()) && !part(question[at + name.len()..].chars().next())
    }) && occurs(name, question)
}

fn key_of(place: &Place<'_>, frame: &Frame) -> Key {
    match place {
        Place::Object(key) => key.clone(),
        Place::Namespace(_) => Key { namespace: frame.namespace.clone(), ..Key::default() },
    }
}

/// Nothing of it is wrong, and everything of it was listed.
fn is_well(frame: &Frame) -> bool {
    frame.complete && frame.problems.iter().all(|p| p.over || p.notice)
}

/// It shows nothing because it may not be read.
fn is_denied(frame: &Frame) -> bool {
    !frame.complete && !frame.denied.is_empty() && frame.problems.iter().all(|p| p.over || p.notice)
}

/// The last link leads to something that is well: it explains nothing.
fn back<'a>(mut path: Assessment<'a>, barred: &BTreeSet<(String, Key)>) -> Walk<'a> {
    if let Some(link) = path.links.pop()
        && let Meaning::Link { to, .. } = &link.meaning
    {
        let entry = (link.book.name.clone(), to.clone());
        if !barred.contains(&entry) {
            return Walk::Barred(entry.0, entry.1);
        }
    }
    path.end = End::Unexplained;
    Walk::Ended(path)
}

/// Hypotheses that no other one rules out, and whose link was not found empty.
fn standing<'a>(all: Vec<Hypothesis<'a>>, frame: &Frame, barred: &BTreeSet<(String, Key)>) -> Vec<Hypothesis<'a>> {
    let out: BTreeSet<(&str, (String, String))> = all.iter().flat_map(|h| h.book.rule_out.iter().map(|n| (n.as_str(), h.subject.clone()))).collect();
    let stands = |h: &Hypothesis<'a>| {
        let barred = matches!(&h.meaning, Meaning::Link { to, .. } if barred.contains(&(h.book.name.clone(), to.clone())));
        // Somebody asks about a namespace: what is as somebody wanted it is no answer.
        let notice = frame.target.is_none() && h.anchor.is_some_and(|p| p.notice);
        !barred && !notice && !out.contains(&(h.book.name.as_str(), h.subject.clone()))
    };
    all.iter().filter(|h| stands(h)).cloned().collect()
}

/// The most specific; of equals the one about the target itself, then the first by name, so that the answer is the same each time.
fn choose<'b, 'a>(hypotheses: &'b [Hypothesis<'a>], frame: &Frame) -> Option<&'b Hypothesis<'a>> {
    let own = |h: &Hypothesis<'_>| frame.target.as_ref().is_some_and(|t| *t == h.subject);
    // Of the same thing said twice, the status says it better than an event that repeats it.
    let direct = |h: &Hypothesis<'_>| h.anchor.map_or(3, |p| ["status", "condition", "spec"].iter().position(|f| *f == p.from).unwrap_or(3));
    hypotheses.iter().min_by_key(|h| (std::cmp::Reverse(h.book.specificity), !own(h), direct(h), h.subject.clone(), h.anchor.map(|p| p.text.clone())))
}

fn same_cause(a: &Meaning, b: &Meaning) -> bool {
    match (a, b) {
        (Meaning::Cause { object: x, signature: s, .. }, Meaning::Cause { object: y, signature: t, .. }) => x == y || s == t,
        (Meaning::Link { to: x, .. }, Meaning::Link { to: y, .. }) => x == y,
        _ => false,
    }
}

/// Logs that could name a better cause than the one at hand: one for each container of each workload.
fn logs_worth_reading(needs: Vec<Need>, best: Option<i32>) -> Vec<ToolCall> {
    let mut needs: Vec<Need> = needs.into_iter().filter(|n| best.is_none_or(|b| n.specificity > b)).collect();
    needs.sort_by(|a, b| (std::cmp::Reverse(a.specificity), &a.pod, &a.container).cmp(&(std::cmp::Reverse(b.specificity), &b.pod, &b.container)));
    let mut asked: BTreeSet<((String, String), String)> = BTreeSet::new();
    let mut calls = Vec::new();
    // A problem of the pod as a whole adds nothing where one of its containers is named.
    let named: BTreeSet<(String, String)> = needs.iter().filter(|n| !n.container.is_empty()).map(|n| n.subject.clone()).collect();
    for need in needs.into_iter().filter(|n| !n.container.is_empty() || !named.contains(&n.subject)) {
        if calls.len() < LOGS_AT_ONCE && asked.insert((need.subject, need.container.clone())) {
            calls.push(log_of(&need.namespace, &need.pod, &need.container, true));
        }
    }
    calls
}

/// The log of one pod of something that looks well.
fn logs_of_the_well(frame: &Frame, facts: &Facts) -> Vec<ToolCall> {
    frame
        .objects
        .iter()
        .filter_map(|o| o.strip_prefix("Pod/"))
        .take(1)
        .filter(|pod| facts.log(&frame.namespace, pod, "").is_none())
        .map(|pod| log_of(&frame.namespace, pod, "", false))
        .collect()
}

fn log_of(namespace: &str, pod: &str, container: &str, previous: bool) -> ToolCall {
    ToolCall {
        tool: "kubectl_logs".to_owned(),
        arguments: json!({"namespace": namespace, "pod": pod, "container": container, "previous": previous, "tail": TAIL}),
    }
}

fn find_problems(namespace: &str, object: Option<(&str, &str)>, window_minutes: u32) -> ToolCall {
    let mut arguments = json!({"namespace": namespace, "window_minutes": window_minutes.max(1)});
    if let Some((kind, name)) = object {
        arguments["kind"] = json!(kind);
        arguments["name"] = json!(name);
    }
    ToolCall { tool: "find_problems".to_owned(), arguments }
}

/// The problem's own words.
fn quoted(frame: &Frame, problem: &Problem) -> Claim {
    Claim { statement: problem.text.clone(), citations: vec![Citation { evidence: frame.evidence.clone(), quote: problem.text.clone() }] }
}

fn claim_of(hypothesis: &Hypothesis<'_>) -> Option<Claim> {
    let statement = match &hypothesis.meaning {
        Meaning::Cause { statement, .. } | Meaning::Link { statement, .. } => statement.clone(),
        Meaning::Resolve { .. } => return None,
    };
    Some(Claim { statement, citations: hypothesis.citations.clone() })
}

fn not_checked(path: &Assessment<'_>, facts: &Facts) -> Vec<String> {
    let mut lines: Vec<String> = path.frames.iter().flat_map(|f| f.denied.iter().cloned()).collect();
    for refused in &facts.refused {
        let what = ["kind", "name", "pod", "namespace"]
            .iter()
            .filter_map(|k| refused.arguments.get(*k).and_then(Value::as_str))
            .filter(|s| !s.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
        lines.push(format!("{} {what}: {} ({})", refused.tool, refused.error, refused.code));
    }
    lines.extend(facts.skipped.iter().cloned());
    lines.extend(facts.truncated.iter().cloned());
    lines
}

fn api_version(kind: &str) -> &'static str {
    match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" => "apps/v1",
        "Job" | "CronJob" => "batch/v1",
        "Ingress" | "NetworkPolicy" => "networking.k8s.io/v1",
        "HorizontalPodAutoscaler" => "autoscaling/v2",
        "PodDisruptionBudget" => "policy/v1",
        "StorageClass" => "storage.k8s.io/v1",
        "PriorityClass" => "scheduling.k8s.io/v1",
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => "admissionregistration.k8s.io/v1",
        _ => "v1",
    }
}
