//! What to do next, from the journal and the spec alone.

use jiff::Timestamp;

use super::{CallOutcome, Caps, Entry, Journal, Move};
use crate::api::StopReason;

/// Decisions beyond the call budget: room for repeats, unknown tools and repairs, and an end to an investigator that loops.
const SPARE_STEPS: u32 = 16;

/// What a person controls while the run lives.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    pub caps: Caps,
    pub suspend: bool,
    pub cancel: bool,
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
    /// Check the conclusion of the last step, and publish it.
    Conclude,
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
    match last_word(journal) {
        Some(Entry::Decided { next: Move::Conclude { .. }, .. }) => return Decision::Conclude,
        Some(Entry::Decided { next: Move::Malformed { .. }, .. }) if malformed_in_a_row(journal) >= 2 => {
            return Decision::Stop(StopReason::Failed);
        }
        Some(Entry::Answered { results, .. }) => {
            let capped = |label: StopReason| results.iter().any(|r| matches!(&r.outcome, CallOutcome::Skipped { reason } if reason == label.label()));
            // A cap that was raised in the meantime is no cap.
            if capped(StopReason::StepCap) && journal.committed().tool_calls >= control.caps.tool_calls {
                return Decision::Stop(StopReason::StepCap);
            }
        }
        _ => {}
    }
    let step = journal.steps() + 1;
    if step > control.caps.tool_calls.saturating_add(SPARE_STEPS) {
        return Decision::Stop(StopReason::StepCap);
    }
    Decision::Ask { step }
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
