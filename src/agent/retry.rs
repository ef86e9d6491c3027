//! When a model that did not answer is asked again. Pure: the same failure at the same place of the same run waits as long.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use jiff::Timestamp;

use super::{Caps, Entry, Journal};

/// Requests for one decision, the first included.
const ATTEMPTS: u32 = 4;
const FIRST: Duration = Duration::from_secs(1);
/// A provider that asks for longer is not worth waiting for within a run.
const LONGEST: Duration = Duration::from_secs(60);

/// What a failure allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    Never,
    /// After a while of our own choice.
    Soon,
    /// The provider named a time.
    After(Duration),
    /// At once, with a smaller prompt.
    Smaller,
}

/// The time of the next request, or none where it would be the fifth, or past the deadline.
#[must_use]
pub fn retry_at(again: Again, step: u32, journal: &Journal, caps: &Caps, now: Timestamp) -> Option<Timestamp> {
    let failed = failures(step, journal);
    if failed + 1 >= ATTEMPTS {
        return None;
    }
    let wait = match again {
        Again::Never => return None,
        Again::Smaller => Duration::ZERO,
        Again::Soon => jittered(FIRST * 2_u32.pow(failed), journal),
        Again::After(wait) if wait > LONGEST => return None,
        // Not all runs at the same moment.
        Again::After(wait) => wait + jittered(Duration::from_millis(500), journal),
    };
    let left = caps.duration.saturating_sub(journal.active(now));
    (wait < left).then(|| now + wait)
}

fn failures(step: u32, journal: &Journal) -> u32 {
    let of_this_step = |e: &Entry| matches!(e, Entry::DecisionFailed { step: at, .. } if *at == step);
    journal.records().iter().filter(|r| of_this_step(&r.entry)).count().try_into().unwrap_or(u32::MAX)
}

/// Between half and one and a half of it; by the run's start and length, so that it can be told beforehand.
fn jittered(base: Duration, journal: &Journal) -> Duration {
    let mut hash = DefaultHasher::new();
    (journal.started(), journal.records().len()).hash(&mut hash);
    let percent = u32::try_from(hash.finish() % 101).unwrap_or(50) + 50;
    base * percent / 100
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{agent::Spend, api::MicroUsd};

    #[test]
    fn a_model_is_asked_again_within_the_deadline_and_not_for_ever() {
        let caps = Caps { tool_calls: 8, cost: MicroUsd(0), tokens: 0, duration: Duration::from_secs(30) };
        let now = Timestamp::UNIX_EPOCH;
        let mut journal = Journal::default();
        journal.push(now, Entry::Started { investigator: "chat".into(), tools: vec![], schemas: vec![] });
        let wait = |again, journal: &Journal| retry_at(again, 1, journal, &caps, now).map(|at| Duration::try_from(at.duration_since(now)).unwrap());
        assert_eq!(wait(Again::Never, &journal), None);
        assert_eq!(wait(Again::Smaller, &journal), Some(Duration::ZERO));
        let first = wait(Again::Soon, &journal).unwrap();
        assert!((Duration::from_millis(500)..=Duration::from_millis(1500)).contains(&first), "{first:?}");
        let told = wait(Again::After(Duration::from_secs(7)), &journal).unwrap();
        assert!((Duration::from_secs(7)..Duration::from_secs(8)).contains(&told), "{told:?}");
        assert_eq!(wait(Again::After(Duration::from_secs(40)), &journal), None, "past the deadline");
        for n in 1..4 {
            let failed = Entry::DecisionFailed { step: 1, used: Spend::default(), reason: "Timeout".into(), error: String::new(), retry_at: Some(now) };
            journal.push(now, failed);
            assert_eq!(wait(Again::Soon, &journal).is_some(), n < 3, "after {n}");
        }
    }
}
