//! No sequence of moves, failures, crashes and resumptions makes a run exceed a cap, and every call has exactly one result.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicI64, AtomicU32, Ordering},
};

use futures::{FutureExt, future::BoxFuture};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    api::{MicroUsd, StopReason},
    grounding::{Claim, Draft, Finding, RootClaim},
    investigators::{Case, Script},
    runner::{Parts, Stepped, ToolCaller, postmortem, step},
    store::{JournalStore, MemoryStore, RunId},
};

/// What the world does to one reconcile.
#[derive(Clone, Copy, Debug)]
enum Weather {
    Calm,
    /// The process dies while the tools are being called.
    Crash,
    /// A person suspends, and later resumes.
    Suspend,
}

/// Counts executions; may hang so that the step is dropped in the middle.
struct Tools {
    executed: AtomicU32,
    fails: bool,
    hang: bool,
}

impl ToolCaller for Tools {
    fn call<'a>(&'a self, call: &'a PlannedCall, _server: &'a str) -> BoxFuture<'a, Received> {
        async move {
            self.executed.fetch_add(1, Ordering::SeqCst);
            if self.hang {
                std::future::pending::<()>().await;
            }
            let code = self.fails.then(|| "tool_error".to_owned());
            Received { at: Timestamp::UNIX_EPOCH, text: json!({"text": call.id}).to_string(), truncated: false, code }
        }
        .boxed()
    }
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let call = (prop_oneof![Just("find"), Just("logs"), Just("nope")], 0..4u32).prop_map(|(t, n)| ToolCall { tool: t.into(), arguments: json!({"n": n}) });
    let batch = proptest::collection::vec(call, 0..24).prop_map(|calls| Move::Call { thought: String::new(), calls });
    let lie = Claim { statement: "Pod ghost is gone".into(), citations: vec![] };
    let root = RootClaim { claim: lie, object: crate::api::ObjectRef::default(), signature: "ghost".into() };
    let conclude = Just(Move::Conclude { draft: Box::new(Draft { finding: Finding::Cause(root), ..Draft::unknown("") }) });
    let malformed = Just(Move::Malformed { error: "not JSON".into() });
    proptest::collection::vec(prop_oneof![6 => batch, 1 => malformed, 1 => conclude], 0..12)
}

fn weather() -> impl Strategy<Value = Vec<Weather>> {
    proptest::collection::vec(prop_oneof![4 => Just(Weather::Calm), 2 => Just(Weather::Crash), 1 => Just(Weather::Suspend)], 0..60)
}

async fn run(moves: Vec<Move>, weather: Vec<Weather>, cap: u32, seconds: i64, fails: bool) -> Journal {
    let store = MemoryStore::default();
    let id = RunId { namespace: "demo".into(), name: "run".into(), uid: "u".into() };
    let script = Script { moves, last: Draft::unknown("the script is over") };
    let caps = Caps { tool_calls: cap, cost: MicroUsd(0), tokens: 0, duration: std::time::Duration::from_secs(60) };
    let clock = AtomicI64::new(0);
    let now = || Timestamp::UNIX_EPOCH + SignedDuration::from_secs(clock.load(Ordering::SeqCst));
    let catalogue: Vec<ToolRef> = ["find", "logs"].iter().map(|t| ToolRef { server: "s/k".into(), tool: (*t).into() }).collect();
    let case = Case::default();
    let mut weather = weather.into_iter();
    for turn in 0..2000 {
        clock.fetch_add(seconds, Ordering::SeqCst);
        let today = weather.next().unwrap_or(Weather::Calm);
        let tools = Tools { executed: AtomicU32::new(0), fails, hang: matches!(today, Weather::Crash) };
        let control = Control { caps, suspend: matches!(today, Weather::Suspend), cancel: false, mind: Mind::Rules };
        let mut open = store.open(&id).await.unwrap();
        let parts = Parts { case: &case, control, investigator: &script, model: None, tools: &tools, catalogue: &catalogue, schemas: &[] };
        let stepped = step(open.as_mut(), &parts, &now).now_or_never();
        // In the middle of a crash nothing that was executed may be missing from the reservations.
        let stored = store.open(&id).await.unwrap().journal().clone();
        assert!(stored.committed().tool_calls <= cap, "reserved {} of {cap}", stored.committed().tool_calls);
        if let Some(Ok(Stepped::Finished)) = stepped {
            return stored;
        }
        assert!(turn < 1999, "the run does not end");
    }
    unreachable!()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_run_exceeds_its_caps(moves in moves(), weather in weather(), cap in 0..10u32, seconds in 0..3i64, fails in any::<bool>()) {
        let journal = run(moves, weather, cap, seconds, fails).now_or_never().unwrap();
        prop_assert!(journal.committed().tool_calls <= cap);

        // Every call has exactly one result, and only a reserved one has evidence.
        let mut results: HashMap<&str, usize> = HashMap::new();
        for r in journal.results() {
            *results.entry(r.call.as_str()).or_default() += 1;
        }
        let stopped_open: Vec<&str> = journal.open_step().map(|(_, c)| c.iter().map(|p| p.id.as_str()).collect()).unwrap_or_default();
        for p in journal.planned() {
            let wanted = usize::from(!stopped_open.contains(&p.id.as_str()));
            prop_assert_eq!(results.get(p.id.as_str()).copied().unwrap_or(0), wanted, "{}", p.id);
        }
        let executed = journal.planned().filter(|p| matches!(p.plan, Plan::Execute { .. })).count();
        prop_assert!(journal.evidence().count() <= executed);

        // It ends with an answer, and an unproved cause is never in it.
        let (stop, post) = postmortem(&Case::default(), &journal).unwrap();
        prop_assert!(post.root_cause.is_none());
        prop_assert!(!post.refusal.is_empty());
        prop_assert!(matches!(stop, StopReason::Done | StopReason::StepCap | StopReason::Deadline | StopReason::Failed));
    }

    #[test]
    fn no_reservation_or_report_makes_a_ledger_exceed_its_caps(
        costs in proptest::collection::vec((0..400_000u64, 0..400u64, 0..u64::MAX, 0..u64::MAX, any::<bool>(), any::<bool>()), 0..40)
    ) {
        let caps = Caps { tool_calls: 5, cost: MicroUsd(1_000_000), tokens: 1000, duration: std::time::Duration::ZERO };
        let mut ledger = Ledger::new(caps, Spend::default());
        for (cost, tokens, lied_cost, lied_tokens, settles, answer) in costs {
            let worst = Spend { tool_calls: 0, cost: MicroUsd(cost), input_tokens: tokens, ..Spend::default() };
            let purpose = if answer { Purpose::Answer } else { Purpose::Step };
            if ledger.reserve(worst, purpose).is_ok() && settles {
                // A provider may report anything.
                ledger.settle(worst, Spend { cost: MicroUsd(lied_cost), input_tokens: lied_tokens, ..Spend::default() });
            }
            prop_assert!(ledger.committed.cost <= caps.cost);
            prop_assert!(ledger.committed.tokens() <= caps.tokens);
        }
    }
}
