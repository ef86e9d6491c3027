//! What to do next, from the journal and the spec alone.

use jiff::Timestamp;

use super::{CallOutcome, Caps, Entry, Journal, Move};
use crate::api::{Fallback, StopReason};

/// Decisions beyond the call budget: room for repeats, unknown tools and repairs, and an end to an investigator that loops.
const SPARE_STEPS: u32 = 16;
/// Steps in a row that brought nothing new, after which a model is asked for its answer: it would ask for the same for ever.
const IDLE_STEPS: usize = 3;

/// What a person controls while the run lives, and who decides.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    pub caps: Caps,
    pub suspend: bool,
    pub cancel: bool,
    pub mind: Mind,
}

/// Who decides the steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mind {
    /// Playbooks or a script: free, and at hand.
    #[default]
    Rules,
    /// A model, and what finishes the run when it fails.
    Model { fallback: Fallback },
}

/// The one next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is recorded yet: list the tools and begin.
    Start,
    /// Record that the run is suspended.
    Suspend,
    /// Wait until somebody resumes it.
    Wait,
    /// Record that it goes on.
    Resume,
    /// The calls of this step are planned and have no results: execute them.
    Execute { step: u32 },
    /// Ask the investigator.
    Ask { step: u32 },
    /// Nothing until then: the model is asked again.
    Later(Timestamp),
    /// Record that the playbooks go on in place of the model.
    FallBack { reason: String, message: String },
    /// Record that a cap was reached: the model has one last word.
    Cap(StopReason),
    /// Ask the model for that last word, without tools.
    Answer { step: u32, stop: StopReason },
    /// Check the conclusion of the last step, and publish it.
    Conclude(StopReason),
    /// A cap or an end: answer without tools from what there is.
    Stop(StopReason),
    /// Everything is said.
    Finished,
}

/// Pure: the same journal, spec and time give the same decision, on any replica.
#[must_use]
pub fn decide(control: &Control, journal: &Journal, now: Timestamp) -> Decision {
    if journal.conclusion().is_some() {
        return Decision::Finished;
    }
    if control.cancel {
        return Decision::Stop(StopReason::Cancelled);
    }
    match (control.suspend, journal.is_suspended()) {
        (true, true) => return Decision::Wait,
        (true, false) => return Decision::Suspend,
        (false, true) => return Decision::Resume,
        (false, false) => {}
    }
    if journal.started().is_none() {
        return Decision::Start;
    }
    if journal.active(now) >= control.caps.duration {
        return Decision::Stop(StopReason::Deadline);
    }
    if let Some((step, _)) = journal.open_step() {
        return Decision::Execute { step };
    }
    let model = match control.mind {
        Mind::Model { fallback } if journal.fell_back().is_none() => Some(fallback),
        Mind::Model { .. } | Mind::Rules => None,
    };
    let step = journal.steps() + 1;
    if let Some(stop) = journal.capped() {
        return last_answer(journal, &control.caps, now, stop, model);
    }
    let cap = |stop: StopReason| if model.is_some() { Decision::Cap(stop) } else { Decision::Stop(stop) };
    match last_word(journal) {
        Some(Entry::Decided { next: Move::Conclude { .. }, .. }) => return Decision::Conclude(StopReason::Done),
        // Without the error: it quotes the model, and this is published.
        Some(Entry::Decided { next: Move::Malformed { .. }, .. }) if malformed_in_a_row(journal) >= 2 => {
            return fail(model, "MalformedReply", "two replies in a row could not be used");
        }
        Some(Entry::DecisionFailed { retry_at: Some(at), .. }) if now < *at => return Decision::Later(*at),
        // Once more with a smaller prompt, and then it must do with what it has.
        Some(Entry::DecisionFailed { retry_at: Some(_), reason, .. }) if reason == OVERFLOW && overflows(journal) > 1 => return cap(StopReason::TokenCap),
        Some(Entry::DecisionFailed { retry_at: None, reason, error, .. }) => return fail(model, reason, error),
        Some(Entry::Answered { results, .. }) => {
            let capped = |label: StopReason| results.iter().any(|r| matches!(&r.outcome, CallOutcome::Skipped { reason } if reason == label.label()));
            // A cap that was raised in the meantime is no cap.
            if capped(StopReason::StepCap) && journal.committed().tool_calls >= control.caps.tool_calls {
                return cap(StopReason::StepCap);
            }
            if model.is_some() && idle_steps(journal) >= IDLE_STEPS {
                return cap(StopReason::StepCap);
            }
        }
        _ => {}
    }
    if step > most_steps(&control.caps) {
        return cap(StopReason::StepCap);
    }
    Decision::Ask { step }
}

/// The reason of a prompt that was too long for the model.
pub const OVERFLOW: &str = "ContextOverflow";

/// How often the prompt was too long: each time the next one is made smaller.
#[must_use]
pub fn overflows(journal: &Journal) -> usize {
    journal.records().iter().filter(|r| matches!(&r.entry, Entry::DecisionFailed { reason, .. } if reason == OVERFLOW)).count()
}

/// After a cap a model has one answer. Where its money or tokens are used up and no answer came of it, the playbooks go on: they cost neither.
fn last_answer(journal: &Journal, caps: &Caps, now: Timestamp, stop: StopReason, model: Option<Fallback>) -> Decision {
    let step = journal.steps() + 1;
    let last = last_word(journal);
    let looks_on = matches!(stop, StopReason::CostCap | StopReason::TokenCap);
    match (last, model) {
        (Some(Entry::Decided { next: Move::Conclude { .. }, .. }), _) => Decision::Conclude(stop),
        (Some(Entry::DecisionFailed { retry_at: Some(at), .. }), Some(_)) if now < *at => Decision::Later(*at),
        (Some(Entry::Capped { .. }), Some(_)) => Decision::Answer { step, stop },
        // A prompt for the answer alone that is too long will not get shorter.
        (Some(Entry::DecisionFailed { retry_at: Some(_), reason, .. }), Some(_)) if reason != OVERFLOW => Decision::Answer { step, stop },
        (Some(Entry::DecisionFailed { reason, error, .. }), Some(Fallback::Playbook)) if looks_on => {
            Decision::FallBack { reason: reason.clone(), message: error.clone() }
        }
        (_, Some(Fallback::Playbook)) if looks_on => {
            Decision::FallBack { reason: format!("{stop:?}"), message: "the model did not conclude with what was left".to_owned() }
        }
        (_, None) if looks_on && journal.fell_back().is_some() && journal.committed().tool_calls < caps.tool_calls && step <= most_steps(caps) => {
            Decision::Ask { step }
        }
        _ => Decision::Stop(stop),
    }
}

fn most_steps(caps: &Caps) -> u32 {
    caps.tool_calls.saturating_add(SPARE_STEPS)
}

fn fail(model: Option<Fallback>, reason: &str, message: &str) -> Decision {
    match model {
        Some(Fallback::Playbook) => Decision::FallBack { reason: reason.to_owned(), message: message.to_owned() },
        Some(Fallback::None) | None => Decision::Stop(StopReason::Failed),
    }
}

/// The last entry that says something about the run's course.
fn last_word(journal: &Journal) -> Option<&Entry> {
    journal.records().iter().rev().map(|r| &r.entry).find(|e| !matches!(e, Entry::Suspended | Entry::Resumed | Entry::DecisionReserved { .. }))
}

fn malformed_in_a_row(journal: &Journal) -> usize {
    journal
        .records()
        .iter()
        .rev()
        .filter_map(|r| match &r.entry {
            Entry::Decided { next, .. } => Some(next),
            _ => None,
        })
        .take_while(|next| matches!(next, Move::Malformed { .. }))
        .count()
}

fn idle_steps(journal: &Journal) -> usize {
    journal
        .records()
        .iter()
        .rev()
        .filter_map(|r| match &r.entry {
            Entry::Answered { results, .. } => Some(results),
            _ => None,
        })
        .take_while(|results| !results.iter().any(|r| matches!(r.outcome, CallOutcome::Evidence { .. })))
        .count()
}
