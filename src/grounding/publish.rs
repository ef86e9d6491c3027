//! The only way from a draft to a postmortem.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Claim, Draft, DraftEvent, Evidence, Finding, Sources, occurs, suspicious, verify, verify_root};
use crate::api::{Outcome, Postmortem, PublishedClaim, RootCause, StopReason, TimelineEntry};

/// Fields of the status are bounded; these are their `maxLength`s in characters.
const STATEMENT: usize = 1024;
const QUOTE: usize = 1024;
const LINE: usize = 512;

/// What `publish` must know of the run beside the evidence.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The question or the target's name, as the user wrote it: its tokens need no proof.
    pub question: &'a str,
    pub stop: StopReason,
    /// What the loop itself left out: skipped calls, cut evidence.
    pub not_checked: Vec<String>,
}

/// Publishes what is proved. A cause that is not proved makes the outcome `Inconclusive`, whatever the draft says.
#[must_use]
pub fn publish(draft: &Draft, evidence: &[Evidence], run: &Run<'_>) -> Postmortem {
    let sources = Sources::new(evidence);
    let mut dropped = 0;
    let mut keep = |claim: &Claim| -> Option<PublishedClaim> {
        let supported = fits(claim) && verify(claim, &sources, run.question).supported();
        dropped += i32::from(!supported);
        supported.then(|| PublishedClaim { statement: claim.statement.clone(), citations: claim.citations.clone() })
    };

    let mut post = Postmortem {
        chain: draft.chain.iter().filter_map(&mut keep).take(12).collect(),
        contributing: draft.contributing.iter().filter_map(&mut keep).take(8).collect(),
        impact: draft.impact.as_ref().and_then(&mut keep).map(|c| c.statement).unwrap_or_default(),
        ..Postmortem::default()
    };
    match &draft.finding {
        Finding::Cause(root) => {
            if fits(&root.claim) && root.signature.chars().count() <= STATEMENT && verify_root(root, &sources, run.question).supported() {
                post.outcome = Outcome::RootCauseFound;
                post.summary = clip(&root.claim.statement, STATEMENT);
                post.root_cause = Some(RootCause {
                    statement: root.claim.statement.clone(),
                    object: root.object.clone(),
                    signature: root.signature.clone(),
                    citations: root.claim.citations.clone(),
                });
                post.actions = draft.actions.iter().take(8).cloned().collect();
                post.runbook = draft
                    .runbook
                    .as_ref()
                    // S1.17: cited only where the runbook itself holds the very signature that proved the cause.
                    .filter(|r| !r.cited.signature.is_empty() && root.claim.citations.iter().any(|c| c.quote.contains(&r.cited.signature)))
                    .filter(|r| {
                        evidence.iter().any(|e| {
                            e.id == r.evidence && [&r.cited.signature, &r.cited.name, &r.cited.namespace, &r.cited.title].iter().all(|t| e.contains(t))
                        })
                    })
                    .map(|r| r.cited.clone());
            } else {
                dropped += 1;
                post.refusal = "A cause was proposed, but its quotes do not prove it, so it is not published.".to_owned();
            }
        }
        Finding::Healthy(claim) => match keep(claim) {
            Some(kept) => {
                post.outcome = Outcome::Healthy;
                post.summary = clip(&kept.statement, STATEMENT);
                post.chain.insert(0, kept);
            }
            None => post.refusal = "That nothing is wrong was proposed, but not proved.".to_owned(),
        },
        Finding::Unknown(why) => post.refusal = clip(why, STATEMENT),
    }
    if post.outcome == Outcome::Inconclusive {
        if post.refusal.is_empty() {
            post.refusal = "The evidence names no cause.".to_owned();
        }
        post.summary = format!("Inconclusive: {}", clip(&post.refusal, STATEMENT - 16));
    }
    post.dropped_claims = dropped;
    post.suspicious = suspicious(evidence);
    post.timeline = draft.timeline.iter().filter(|e| told(e, &sources)).take(16).map(entry).collect();
    post.not_checked = run.not_checked.iter().chain(&draft.not_checked).map(|s| clip(s, LINE)).fold(Vec::new(), |mut seen, s| {
        if !seen.contains(&s) && seen.len() < 16 {
            seen.push(s);
        }
        seen
    });
    post
}

/// A quote or statement longer than its field can't be published whole, and a cut quote proves nothing.
fn fits(claim: &Claim) -> bool {
    claim.statement.chars().count() <= STATEMENT && claim.citations.len() <= 8 && claim.citations.iter().all(|c| c.quote.chars().count() <= QUOTE)
}

/// An event of the timeline stands word for word in its evidence, and so does its time, to the second.
fn told(event: &DraftEvent, sources: &Sources<'_>) -> bool {
    let second = event.time.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    sources.trusted(&event.evidence).is_some_and(|e| e.contains(&event.event) && (e.contains(&second) || occurs(&second, &e.text)))
}

fn entry(event: &DraftEvent) -> TimelineEntry {
    TimelineEntry { time: Time(event.time), event: clip(&event.event, LINE), evidence: event.evidence.clone() }
}

fn clip(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    text.chars().take(max.saturating_sub(1)).chain(['…']).collect()
}
