//! How many requests a model takes, at once and a minute, over all runs; and when it is let alone because it fails.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use governor::{
    Quota, RateLimiter,
    clock::{Clock, DefaultClock},
    state::{InMemoryState, NotKeyed},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::client::failure;
use crate::{
    agent::{Again, OVERFLOW},
    investigators::chat::{ChatReply, Failure},
    runner::Admission,
};

/// Failures in a row that open the breaker.
const FAILURES: u32 = 5;
/// How long it stays open the first time; each time it fails again it is twice as long.
const OPEN: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(600);
/// A run that finds no place looks again so soon.
const BUSY: Duration = Duration::from_millis(200);
/// A provider that asks to wait longer has failed: the runs do not wait for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// `status.breaker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    Closed,
    Open,
    HalfOpen,
}

#[derive(Debug)]
struct Breaker {
    /// In a row.
    failures: u32,
    /// Set while open or half open.
    open: Option<Opened>,
    /// What it failed of last.
    last: String,
}

#[derive(Clone, Copy, Debug)]
struct Opened {
    until: Instant,
    wait: Duration,
    /// One request finds out whether it is well again.
    probing: bool,
}

/// The gate of one model.
pub struct Gate {
    places: Arc<Semaphore>,
    rate: Option<RateLimiter<NotKeyed, InMemoryState, DefaultClock>>,
    breaker: Arc<Mutex<Breaker>>,
    not_before: Mutex<Option<Instant>>,
}

/// A place among the requests in flight. A probe that was never reported leaves the breaker as it found it.
struct Place {
    _permit: OwnedSemaphorePermit,
    breaker: Arc<Mutex<Breaker>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(open) = &mut lock(&self.breaker).open {
            open.probing = false;
        }
    }
}

impl Gate {
    /// `per_minute` 0 is no limit.
    #[must_use]
    pub fn new(concurrency: usize, per_minute: u32) -> Self {
        Self {
            places: Arc::new(Semaphore::new(concurrency.max(1))),
            rate: NonZeroU32::new(per_minute).map(|n| RateLimiter::direct(Quota::per_minute(n))),
            breaker: Arc::new(Mutex::new(Breaker { failures: 0, open: None, last: String::new() })),
            not_before: Mutex::new(None),
        }
    }

    pub fn admit(&self) -> Admission {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Admission {
        // The breaker first: who may not ask at all takes no place and no minute's share.
        let (open, last) = {
            let breaker = lock(&self.breaker);
            (breaker.open, breaker.last.clone())
        };
        if let Some(open) = open.filter(|o| now < o.until || o.probing) {
            let wait = open.until.saturating_duration_since(now).as_secs();
            let message = format!("it failed {FAILURES} times in a row and is let alone for {wait} s more; the last time: {last}");
            return Admission::Never(failure("BreakerOpen", message, Again::Never));
        }
        if let Some(wait) = lock(&self.not_before).map(|at| at.saturating_duration_since(now)).filter(|w| !w.is_zero()) {
            return Admission::Later(wait);
        }
        let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() else { return Admission::Later(BUSY) };
        if let Some(Err(not_until)) = self.rate.as_ref().map(RateLimiter::check) {
            return Admission::Later(not_until.wait_time_from(DefaultClock::default().now()).max(BUSY));
        }
        if let Some(open) = &mut lock(&self.breaker).open {
            open.probing = true;
        }
        Admission::Now(Box::new(Place { _permit: permit, breaker: Arc::clone(&self.breaker) }))
    }

    /// What became of a request. Returns whether the breaker's state changed.
    pub fn report(&self, result: &Result<ChatReply, Failure>) -> bool {
        self.report_at(result, Instant::now())
    }

    fn report_at(&self, result: &Result<ChatReply, Failure>, now: Instant) -> bool {
        let before = self.state_at(now);
        match result {
            Ok(_) => {
                let mut breaker = lock(&self.breaker);
                (breaker.failures, breaker.open) = (0, None);
            }
            // The request's fault, or an answer of a kind: the model is well.
            Err(f) if [OVERFLOW, "BadRequest", "ScriptEnded"].contains(&f.reason) => {}
            Err(f) => {
                if let Again::After(wait) = f.again {
                    *lock(&self.not_before) = Some(now + wait.min(PATIENCE));
                }
                let mut breaker = lock(&self.breaker);
                breaker.failures = breaker.failures.saturating_add(1);
                breaker.last.clone_from(&f.message);
                if let Some(open) = breaker.open {
                    let wait = (open.wait * 2).min(LONGEST);
                    breaker.open = Some(Opened { until: now + wait, wait, probing: false });
                } else if breaker.failures >= FAILURES {
                    breaker.open = Some(Opened { until: now + OPEN, wait: OPEN, probing: false });
                }
            }
        }
        before != self.state_at(now)
    }

    #[must_use]
    pub fn state(&self) -> BreakerState {
        self.state_at(Instant::now())
    }

    fn state_at(&self, now: Instant) -> BreakerState {
        match lock(&self.breaker).open {
            None => BreakerState::Closed,
            Some(open) if now < open.until => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }

    /// What it failed of last.
    #[must_use]
    pub fn last_error(&self) -> String {
        lock(&self.breaker).last.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down() -> Result<ChatReply, Failure> {
        Err(failure("Unavailable", "503".to_owned(), Again::Soon))
    }

    #[test]
    fn a_breaker_opens_for_one_model_is_tried_once_and_closes_again() {
        let gate = Gate::new(4, 0);
        let start = Instant::now();
        for n in 1..=FAILURES {
            assert!(matches!(gate.admit_at(start), Admission::Now(_)), "{n}");
            assert_eq!(gate.report_at(&down(), start), n == FAILURES);
        }
        assert_eq!(gate.state_at(start), BreakerState::Open);
        assert!(matches!(gate.admit_at(start + OPEN / 2), Admission::Never(f) if f.reason == "BreakerOpen" && f.message.contains("503")));
        let later = start + OPEN;
        assert_eq!(gate.state_at(later), BreakerState::HalfOpen);
        let Admission::Now(probe) = gate.admit_at(later) else { panic!("one may try") };
        assert!(matches!(gate.admit_at(later), Admission::Never(_)), "and no second one");
        drop(probe);
        assert!(matches!(gate.admit_at(later), Admission::Now(_)), "a probe that was dropped is no answer");
        gate.report_at(&down(), later);
        assert!(matches!(gate.admit_at(later + OPEN), Admission::Never(_)), "twice as long");
        let well = later + OPEN * 2;
        assert!(matches!(gate.admit_at(well), Admission::Now(_)));
        assert!(gate.report_at(&Ok(ChatReply::default()), well));
        assert_eq!(gate.state_at(well), BreakerState::Closed);
    }

    #[test]
    fn places_and_minutes_are_shared_and_a_wait_is_everybodys() {
        let gate = Gate::new(2, 0);
        let now = Instant::now();
        let (one, two) = (gate.admit_at(now), gate.admit_at(now));
        assert!(matches!((&one, &two), (Admission::Now(_), Admission::Now(_))));
        assert!(matches!(gate.admit_at(now), Admission::Later(_)));
        drop(one);
        assert!(matches!(gate.admit_at(now), Admission::Now(_)));
        let gate = Gate::new(9, 2);
        assert!(matches!(gate.admit(), Admission::Now(_)));
        assert!(matches!(gate.admit(), Admission::Now(_)));
        assert!(matches!(gate.admit(), Admission::Later(w) if w > Duration::from_secs(20)));
        let gate = Gate::new(9, 0);
        gate.report_at(&Err(failure("RateLimited", "429".to_owned(), Again::After(Duration::from_secs(9)))), now);
        assert!(matches!(gate.admit_at(now), Admission::Later(w) if w == Duration::from_secs(9)));
        assert!(matches!(gate.admit_at(now + Duration::from_secs(9)), Admission::Now(_)));
        for _ in 0..20 {
            gate.report_at(&Err(failure("BadRequest", String::new(), Again::Never)), now);
        }
        assert_eq!(gate.state_at(now), BreakerState::Closed, "a mistake of one run opens nothing for the others");
    }
}
