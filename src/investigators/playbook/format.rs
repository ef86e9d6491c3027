//! The format of a playbook, and a loader that says file, line and what would be right.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde::Deserialize;

use crate::api::SuggestedAction;

/// One piece of knowledge: what it looks like, and what it means.
#[derive(Clone, Debug)]
pub struct Playbook {
    pub name: String,
    pub about: String,
    /// 0 to 100: a more specific one beats a less specific one.
    pub specificity: i32,
    pub problem: Option<ProblemPattern>,
    pub log: Option<LogPattern>,
    /// A second problem of the same subject that must be there, too.
    pub and: Option<ProblemPattern>,
    pub outcome: Outcome,
    pub rule_out: Vec<String>,
    pub actions: Vec<SuggestedAction>,
    pub tests: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct ProblemPattern {
    pub kinds: Vec<String>,
    pub reasons: Vec<String>,
    pub message: Option<Regex>,
    pub from: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct LogPattern {
    pub text: Option<Regex>,
}

/// What a match means.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// This is a cause.
    Conclude { kind: String, namespace: String, name: String, statement: String, signature: String },
    /// It is explained by the state of that object.
    Link { kind: String, host: String, statement: String },
}

#[derive(thiserror::Error, Debug, Clone, PartialEq, Eq)]
#[error("{file}:{line}: {problem}")]
pub struct LoadError {
    pub file: String,
    pub line: usize,
    pub problem: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    about: String,
    specificity: i32,
    #[serde(rename = "match")]
    matches: Vec<RawMatch>,
    #[serde(default)]
    conclude: Option<RawConclude>,
    #[serde(default)]
    link: Option<RawLink>,
    #[serde(default)]
    rule_out: Vec<String>,
    #[serde(default)]
    actions: Vec<RawAction>,
    #[serde(default)]
    tests: Vec<RawTest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMatch {
    #[serde(default)]
    problem: Option<RawProblem>,
    #[serde(default)]
    log: Option<RawLog>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProblem {
    #[serde(default)]
    kind: OneOrMany,
    #[serde(default)]
    reason: OneOrMany,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    from: OneOrMany,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLog {
    #[serde(default)]
    text: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(untagged)]
enum OneOrMany {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn list(self) -> Vec<String> {
        match self {
            Self::None => vec![],
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConclude {
    object: RawObject,
    statement: String,
    signature: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawObject {
    kind: String,
    #[serde(default)]
    namespace: Option<String>,
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLink {
    to: RawTo,
    statement: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTo {
    kind: String,
    host: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAction {
    title: String,
    #[serde(default)]
    command: String,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawTest {
    Decides(String),
    Leaves(BTreeMap<String, String>),
}

/// Names that every match binds.
const ALWAYS: &[&str] = &["kind", "namespace", "name", "pod", "container", "reason", "message", "match", "subject", "subjectKind", "workload"];

/// Reads the playbooks of one file, separated by `---`.
///
/// # Errors
/// The first mistake, with its line.
pub fn load(file: &str, text: &str) -> Result<Vec<Playbook>, LoadError> {
    let mut books = Vec::new();
    let mut first_line = 1;
    for document in text.split("\n---\n") {
        let at = |offset: usize, problem: String| LoadError { file: file.to_owned(), line: first_line + offset, problem };
        if document.lines().any(|l| !l.trim().is_empty() && !l.trim_start().starts_with('#')) {
            let raw: Raw = serde_saphyr::from_str(document).map_err(|e| {
                let line = e.location().map_or(0, |l| usize::try_from(l.line()).unwrap_or(1).saturating_sub(1));
                let problem = e.to_string().lines().next().unwrap_or_default().to_owned();
                at(line, problem)
            })?;
            let line_of = |text: &str| document.lines().position(|l| l.contains(text)).unwrap_or(0);
            let name = raw.name.clone();
            books.push(check(raw).map_err(|(near, problem)| at(line_of(&near), format!("playbook {name}: {problem}")))?);
        }
        first_line += document.lines().count() + 1;
    }
    Ok(books)
}

/// Near which text the mistake is, and what it is.
type Mistake = (String, String);

fn check(raw: Raw) -> Result<Playbook, Mistake> {
    if raw.about.trim().is_empty() {
        return Err(("about".to_owned(), "about is empty: say in a sentence what is wrong when it matches".to_owned()));
    }
    if !(0..=100).contains(&raw.specificity) {
        return Err(("specificity".to_owned(), format!("specificity is {}: use 0 to 100, where more specific beats less specific", raw.specificity)));
    }
    let (mut problem, mut and, mut log) = (None, None, None);
    let mut bound: BTreeSet<String> = ALWAYS.iter().map(|s| (*s).to_owned()).collect();
    for one in raw.matches {
        match (one.problem, one.log) {
            (Some(p), None) => {
                let message = p.message.as_deref().map(|m| regex(m, &mut bound)).transpose()?;
                let pattern = ProblemPattern { kinds: p.kind.list(), reasons: p.reason.list(), message, from: p.from.list() };
                if problem.is_none() {
                    problem = Some(pattern);
                } else if and.is_none() {
                    and = Some(pattern);
                } else {
                    return Err(("problem".to_owned(), "more than two problems in one match: write two playbooks".to_owned()));
                }
            }
            (None, Some(l)) if log.is_none() => {
                bound.insert("line".to_owned());
                log = Some(LogPattern { text: l.text.as_deref().map(|t| regex(t, &mut bound)).transpose()? });
            }
            (None, Some(_)) => return Err(("log".to_owned(), "more than one log in one match: join them with | in one expression".to_owned())),
            _ => return Err(("match".to_owned(), "each item of match is either a problem or a log".to_owned())),
        }
    }
    if problem.is_none() && log.is_none() {
        return Err(("match".to_owned(), "match is empty: name at least one problem or log".to_owned()));
    }
    let names = |text: &str| check_names(text, &bound);
    let outcome = match (raw.conclude, raw.link) {
        (Some(c), None) => {
            let namespace = c.object.namespace.unwrap_or_else(|| "{namespace}".to_owned());
            for text in [&c.object.kind, &namespace, &c.object.name, &c.statement, &c.signature] {
                names(text)?;
            }
            Outcome::Conclude { kind: c.object.kind, namespace, name: c.object.name, statement: c.statement, signature: c.signature }
        }
        (None, Some(l)) => {
            for text in [&l.to.host, &l.statement] {
                names(text)?;
            }
            Outcome::Link { kind: l.to.kind, host: l.to.host, statement: l.statement }
        }
        (Some(_), Some(_)) => return Err(("link".to_owned(), "both conclude and link: a match means one or the other".to_owned())),
        (None, None) => return Err(("name".to_owned(), "neither conclude nor link: say what a match means".to_owned())),
    };
    for action in &raw.actions {
        names(&action.title)?;
        names(&action.command)?;
        names(&action.reason)?;
    }
    if raw.tests.is_empty() {
        return Err(("name".to_owned(), "tests is empty: name at least one scenario that it must decide".to_owned()));
    }
    Ok(Playbook {
        name: raw.name,
        about: raw.about,
        specificity: raw.specificity,
        problem,
        log,
        and,
        outcome,
        rule_out: raw.rule_out,
        actions: raw.actions.into_iter().map(|a| SuggestedAction { title: a.title, command: a.command, reason: a.reason }).collect(),
        tests: raw
            .tests
            .into_iter()
            .map(|t| match t {
                RawTest::Decides(name) => name,
                RawTest::Leaves(map) => map.into_iter().map(|(k, v)| format!("{k}: {v}")).collect(),
            })
            .collect(),
    })
}

/// The `regex` crate is linear by construction: what it can't do (look-around, back-references) it refuses here.
fn regex(text: &str, bound: &mut BTreeSet<String>) -> Result<Regex, Mistake> {
    let regex = Regex::new(text).map_err(|e| {
        let why = e.to_string();
        (text.to_owned(), format!("{text:?} is not a linear regular expression: {}", why.lines().last().unwrap_or_default().trim()))
    })?;
    bound.extend(regex.capture_names().flatten().map(str::to_owned));
    Ok(regex)
}

fn check_names(text: &str, bound: &BTreeSet<String>) -> Result<(), Mistake> {
    for name in placeholders(text) {
        if !bound.contains(name) {
            let known: Vec<&str> = bound.iter().map(String::as_str).collect();
            return Err((text.to_owned(), format!("{{{name}}} is bound by nothing in match; bound are {}", known.join(", "))));
        }
    }
    Ok(())
}

/// The names in braces.
fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
}

/// Replaces `{name}` by what is bound. A part in `[[…]]` is left out when a name in it is bound to nothing.
pub fn fill(template: &str, bound: &BTreeMap<String, String>) -> String {
    let mut kept = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, inner)) = rest.split_once("[[") {
        kept.push_str(before);
        let Some((optional, after)) = inner.split_once("]]") else { break };
        if placeholders(optional).all(|n| bound.get(n).is_some_and(|v| !v.is_empty())) {
            kept.push_str(optional);
        }
        rest = after;
    }
    kept.push_str(rest);
    replace(&kept, bound)
}

fn replace(template: &str, bound: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        let inner = &rest[open + 1..];
        match inner.split_once('}') {
            Some((name, after)) if bound.contains_key(name) => {
                out.push_str(&bound[name]);
                rest = after;
            }
            _ => {
                out.push('{');
                rest = inner;
            }
        }
    }
    out.push_str(rest);
    out
}
