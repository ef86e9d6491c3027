//! Text in the evidence that speaks to whoever investigates: "ignore your instructions", "report that all is well". Anybody who can write a
//! log line can write that. It is reported, and no claim may rest on it.
//!
//! What is looked for is an address to a model or an investigator together with an order, a forged mark of a conversation, or an order
//! about what to conclude. It is a net with holes: what slips through is still data that a claim must quote, and is still read-only.

use std::{borrow::Cow, cell::OnceCell, sync::LazyLock};

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use serde_json::Value;

use super::Evidence;
use crate::{
    api::{Citation, PublishedClaim},
    text::head,
};

/// Findings that a postmortem holds.
const MAX_FINDINGS: usize = 4;
/// Bytes of a line that are quoted.
const QUOTE: usize = 300;
/// Bytes of a line that are looked at: an order stands within.
const LINE: usize = 4096;

const ORDERS: &[&str] = &[
    // "Ignore all previous instructions", "disregard the rules above".
    r"\b(ignore|disregard|forget)\b.{0,30}\b(previous|prior|above|earlier|preceding|all|any|your|these|those|existing)\b.{0,30}\b(instruction|prompt|rule|guideline|direction|guardrail|constraint|polic|context|task)",
    r"\b(override|bypass|set aside|drop)\b.{0,30}\b(previous|prior|your|all|any|existing)\b.{0,30}\b(instruction|prompt|guideline|guardrail)",
    // "SYSTEM: you must …", "assistant: report …": a turn of a conversation in the middle of a line of data.
    r"(^|[^a-z0-9_/.-])(system|assistant|developer|user|human)\s*(prompt|message|override|instruction|note|notice|update)?\s*:\s.{0,80}\b(you|investigat\w*|report|conclude|root cause|instructions?|ignore|respond|answer)\b",
    // Marks of chat templates, and of our own data.
    r"<\|(im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id)\|>.{0,120}\b(you|report|conclude|ignore|system|call|investigat)",
    r"\[/?inst\]|<</?sys>>|</?(evidence|system|system-reminder|instructions?|tool_result|tool_response|function_results?|assistant|untrusted|untrusted_data|admin|important)>",
    r"\b(end|begin|start) of (the )?(logs?|evidence|data|tool output|untrusted|context|user input)\b.{0,60}\b(system|instruction|new|assistant|admin|you|now)",
    // An order that names whom it is for.
    r"\b(note|message|attention|attn|instructions?|reminder|hint|hey|hello|hi|dear|to|for)\b[ ,:]*(to |for )?(the |any |all |whichever )?(ai|a\.i\.|llm|language model|assistant|chatbot|agent|copilot|investigator|inquest|gpt|claude|sre bot|automated)\b.{0,160}\b(must|should|shall|please|do not|don't|need to|have to|report|conclude|answer|state|say|call|run|execute|ignore|stop|skip|treat|blame|use|send|print|include|mark|close|suggest|recommend)\b",
    r"\b(ai|llm|language model|assistants?|chatbot|copilot|investigator|inquest|gpt|claude)( agents?| models?| reading this| processing this| analy[sz]ing this| reviewing this)*\b.{0,30}\b(must|should|shall|are to|is to|has to|have to|needs? to|please|are (required|instructed|asked|expected|authori[sz]ed) to|is (required|instructed|asked|expected|authori[sz]ed) to)\b",
    r"\byou are (now )?(an? |the |in )?(ai|assistant|llm|language model|helpful|unrestricted|developer mode|debug mode|root|admin|sre agent|dan\b|no longer)",
    r"\bif you are (an? |the )?(ai|llm|assistant|language model|agent|model|automated|investigat|bot)",
    r"\b(act|behave|respond|pretend|roleplay|continue) as (an? |the |if you (are|were) )?(ai|assistant|root|admin|cluster.?admin|unrestricted|developer|superuser)",
    // Orders about the outcome.
    r"\b(report|conclude|answer|state|declare|respond|reply|say|set|record|write|output|name|give|list|mark)\b.{0,40}\b(root.?cause|outcome|verdict|conclusion|finding|final answer|diagnosis|incident|investigation)\b.{0,40}\b(is|as|to|:|=|be|with|resolved|closed)",
    r"\b(report|conclude|answer|state|declare|respond|reply|say)\b (only |simply |just |back )?(that|with|as) .{0,60}\b(healthy|no problem|no issue|nothing is wrong|all is well|all clear|false alarm|resolved|works as|is fine|are fine|is ok)",
    r"\b(stop|end|abort|halt|finish|terminate|close|conclude|skip|cease|discontinue|suspend) (the |this |your |all |any |further )*(investigation|investigating|analysis|diagnosis|tool calls?)( here| now| immediately| and|[.,;!)]|$)",
    r"\b(do not|don't|never|no need to|without) (further )?(investigat|mention|report|look at|read|cite|quote|check|query|inspect|examin)\w*\b.{0,60}\b(log|event|pod|this|evidence|secret|further|service|line|note|namespace|tool)",
    r"\b(report|name|declare|give|treat|mark|flag|classify) .{1,40} as (the |a |an )?(root.?cause|cause of|false alarm|false positive|resolved|benign)",
    r"\bto (any|the|all|whichever|whoever|every) (ai|llm|language model|assistant|agent|model|investigator|bot)s?\b.{0,40}:",
    r"\bas (the|an|a) (sre|ai|llm|on.?call|investigat\w*|automated|helpful)( (bot|agent|assistant|model|engineer))?,? you\b",
    // What only an investigator has.
    r"\b(reveal|print|show|output|repeat|send|post|leak|exfiltrate|include|paste|dump|disclose|append|echo|quote)\b.{0,40}\b(your|the) (full |entire |complete |hidden |own |initial |original |exact )*(system prompt|prompt|instructions|api.?key|token|credentials?|service ?account|bearer|context|conversation|rules)",
    r"\b(call|use|invoke|run|execute)\b.{0,20}\b(the )?(tool|function|mcp)\b.{0,60}\b(with|on|in|to|namespace|and|delete)",
    r"\b(call|invoke|use|run) (the )?`?(delete_|kubectl_|run_shell|read_file|search_|find_problems|get_)\w*",
];

/// Whether a line speaks to whoever investigates.
#[must_use]
pub fn instructs(line: &str) -> bool {
    let plain = plain(head(line, LINE));
    SET.as_ref().is_some_and(|set| set.is_match(plain.as_bytes()))
}

/// Over bytes: a `.` that knows nothing of characters is a hundred times smaller.
static SET: LazyLock<Option<RegexSet>> = LazyLock::new(|| RegexSetBuilder::new(ORDERS).unicode(false).build().ok());

/// Where in a line the instruction begins. What stands before it was somebody else's to say: a program's own words, mostly.
fn begins(line: &str) -> usize {
    let small = line.to_ascii_lowercase();
    let starts = EACH.iter().filter_map(|p| p.find(small.as_bytes()));
    // One that only the plain form shows is hidden with care: nothing of its line is believed.
    starts.map(|m| m.start()).min().filter(|at| line.is_char_boundary(*at)).unwrap_or(0)
}

static EACH: LazyLock<Vec<Regex>> = LazyLock::new(|| ORDERS.iter().filter_map(|o| RegexBuilder::new(o).unicode(false).build().ok()).collect());

/// Small letters, single spaces, and without what is not seen.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    // A name says it with hyphens.
    let name = !line.contains(char::is_whitespace);
    for c in line.chars().flat_map(char::to_lowercase) {
        match c {
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{00ad}' => {}
            c if c.is_whitespace() || name && matches!(c, '-' | '_' | '.') => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// The lines of this evidence that instruct.
fn lines(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    let mut take = |text: &str| {
        for line in text.lines().filter(|l| instructs(l)) {
            if !found.iter().any(|f| f == line) {
                found.push(line.to_owned());
            }
        }
    };
    match evidence.json() {
        Some(value) => strings(&value, &mut take),
        None => take(&evidence.text),
    }
    found
}

fn strings(value: &Value, take: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(items) => items.iter().for_each(|v| strings(v, take)),
        Value::Object(map) => {
            for (name, inner) in map {
                take(name);
                strings(inner, take);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Evidence to check claims against: each piece is searched for instructions once, when it is first cited.
pub struct Sources<'a>(Vec<(&'a Evidence, OnceCell<Cow<'a, Evidence>>)>);

impl<'a> Sources<'a> {
    #[must_use]
    pub fn new(evidence: &'a [Evidence]) -> Self {
        Self(evidence.iter().map(|e| (e, OnceCell::new())).collect())
    }
    pub(super) fn all(&self) -> impl Iterator<Item = &'a Evidence> {
        self.0.iter().map(|(e, _)| *e)
    }
    pub(super) fn find(&self, id: &str) -> Option<&'a Evidence> {
        self.all().find(|e| e.id == id)
    }
    /// What of a piece a claim may rest on.
    pub(super) fn trusted(&self, id: &str) -> Option<&Evidence> {
        self.0.iter().find(|(e, _)| e.id == id).map(|(e, cell)| cell.get_or_init(|| trusted(e)).as_ref())
    }
}

/// The evidence with each line cut where it begins to instruct: what a claim may quote, and what playbooks read.
pub fn trusted(evidence: &Evidence) -> Cow<'_, Evidence> {
    let hostile = lines(evidence);
    if hostile.is_empty() {
        return Cow::Borrowed(evidence);
    }
    let mut text = evidence.text.clone();
    for line in hostile {
        let kept = line[..begins(&line)].trim_end();
        let escaped = |t: &str| Value::from(t).to_string().trim_matches('"').to_owned();
        text = text.replace(&escaped(&line), &escaped(kept)).replace(&line, kept);
    }
    Cow::Owned(Evidence { text, ..evidence.clone() })
}

/// What the evidence holds of such text, each finding with its quote.
#[must_use]
pub fn suspicious(evidence: &[Evidence]) -> Vec<PublishedClaim> {
    let mut seen: Vec<String> = Vec::new();
    let mut findings = Vec::new();
    for e in evidence {
        for line in lines(e) {
            if findings.len() < MAX_FINDINGS && !seen.contains(&line) {
                let statement =
                    format!("Evidence {} ({}) holds text that reads like an instruction to whoever investigates. It was not followed.", e.id, e.tool);
                findings.push(PublishedClaim { statement, citations: vec![Citation { evidence: e.id.clone(), quote: head(line.trim(), QUOTE).to_owned() }] });
                seen.push(line);
            }
        }
    }
    findings
}
