//! Decisions as a table: every kind of state has its line.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::*;
use crate::{
    api::{BudgetSpec, Fallback, MicroUsd, Span, StopReason, Usd},
    grounding::Draft,
};

const T0: Timestamp = Timestamp::UNIX_EPOCH;

fn at(seconds: i64) -> Timestamp {
    T0 + SignedDuration::from_secs(seconds)
}

fn control(calls: u32, suspend: bool) -> Control {
    let caps = Caps { tool_calls: calls, cost: MicroUsd(500_000), tokens: 1000, duration: std::time::Duration::from_secs(60) };
    Control { caps, suspend, cancel: false, mind: Mind::Rules }
}

fn started() -> Entry {
    let tool = |t: &str| ToolRef { server: "s/k".into(), tool: t.into() };
    Entry::Started { investigator: "script".into(), tools: vec![tool("find"), tool("logs")], schemas: vec![] }
}

fn call(tool: &str, n: u32) -> ToolCall {
    ToolCall { tool: tool.into(), arguments: json!({"n": n}) }
}

fn decided(step: u32, journal: &Journal, caps: Caps, calls: Vec<ToolCall>) -> Entry {
    let mut ledger = Ledger::new(caps, journal.committed());
    let planned = plan(&calls, journal, &mut ledger);
    Entry::Decided { step, used: Spend::default(), beyond: Spend::default(), next: Move::Call { thought: String::new(), calls }, calls: planned }
}

fn settled(step: u32, journal: &Journal) -> Entry {
    let calls = journal.open_step().unwrap().1.to_vec();
    let received = |_: &PlannedCall| Received { at: T0, text: "{}".into(), truncated: false, code: None };
    Entry::Answered { step, results: answer(&calls, journal, received) }
}

fn journal(entries: Vec<Entry>) -> Journal {
    let mut journal = Journal::default();
    for entry in entries {
        journal.push(T0, entry);
    }
    journal
}

#[test]
fn each_state_has_one_decision() {
    let c = control(2, false);
    let begun = journal(vec![started()]);
    let mut open = begun.clone();
    open.push(T0, decided(1, &begun, c.caps, vec![call("find", 1)]));
    let mut answered = open.clone();
    answered.push(T0, settled(1, &open));
    let conclude = |j: &Journal| {
        let mut j = j.clone();
        j.push(
            T0,
            Entry::Decided {
                step: 2,
                used: Spend::default(),
                beyond: Spend::default(),
                next: Move::Conclude { draft: Box::new(Draft::unknown("x")) },
                calls: vec![],
            },
        );
        j
    };
    let malformed = |j: &Journal, n: u32| {
        let mut j = j.clone();
        for step in 0..n {
            j.push(T0, Entry::Decided { step, used: Spend::default(), beyond: Spend::default(), next: Move::Malformed { error: "x".into() }, calls: vec![] });
        }
        j
    };
    let with = |j: &Journal, entry: Entry| {
        let mut j = j.clone();
        j.push(T0, entry);
        j
    };
    let cases: Vec<(&str, Control, Journal, i64, Decision)> = vec![
        ("nothing yet", c, Journal::default(), 0, Decision::Start),
        ("suspended before the start", control(2, true), Journal::default(), 0, Decision::Suspend),
        ("begun", c, begun.clone(), 0, Decision::Ask { step: 1 }),
        ("interrupted in the middle of a step", c, open.clone(), 0, Decision::Execute { step: 1 }),
        ("suspended in the middle of a step", control(2, true), open.clone(), 0, Decision::Suspend),
        ("still suspended", control(2, true), with(&open, Entry::Suspended), 0, Decision::Wait),
        ("resumed", c, with(&open, Entry::Suspended), 0, Decision::Resume),
        ("goes on where it was", c, with(&with(&open, Entry::Suspended), Entry::Resumed), 0, Decision::Execute { step: 1 }),
        ("the next step", c, answered.clone(), 0, Decision::Ask { step: 2 }),
        ("the deadline", c, answered.clone(), 61, Decision::Stop(StopReason::Deadline)),
        ("a conclusion", c, conclude(&answered), 0, Decision::Conclude(StopReason::Done)),
        ("refused by the verifier", c, with(&conclude(&answered), Entry::Rejected { step: 2, reasons: vec![] }), 0, Decision::Ask { step: 3 }),
        ("one malformed reply", c, malformed(&answered, 1), 0, Decision::Ask { step: 3 }),
        ("two malformed replies", c, malformed(&answered, 2), 0, Decision::Stop(StopReason::Failed)),
        ("a person ends it", Control { cancel: true, ..c }, answered.clone(), 0, Decision::Stop(StopReason::Cancelled)),
        ("the end", c, with(&answered, Entry::Concluded { stop: StopReason::Done, draft: Draft::unknown("x") }), 99, Decision::Finished),
    ];
    for (what, control, journal, now, wanted) in cases {
        assert_eq!(decide(&control, &journal, at(now)), wanted, "{what}");
    }
}

/// S1.13, S3.9: the same table where a model decides.
#[test]
fn each_state_of_a_run_with_a_model_has_one_decision() {
    use StopReason::{CostCap, Done, StepCap, TokenCap};
    let with = |fallback| Control { mind: Mind::Model { fallback }, ..control(2, false) };
    let (falls, alone) = (with(Fallback::Playbook), with(Fallback::None));
    let begun = journal(vec![started()]);
    let and = |j: &Journal, entries: Vec<Entry>| {
        let mut j = j.clone();
        for entry in entries {
            j.push(T0, entry);
        }
        j
    };
    let failed = |reason: &str, retry: Option<i64>| Entry::DecisionFailed {
        step: 1,
        used: Spend::default(),
        reason: reason.into(),
        error: "e".into(),
        retry_at: retry.map(at),
    };
    let said = |next| Entry::Decided { step: 1, used: Spend::default(), beyond: Spend::default(), next, calls: vec![] };
    let concluded = || said(Move::Conclude { draft: Box::new(Draft::unknown("x")) });
    let malformed = || said(Move::Malformed { error: "x".into() });
    let fell = || Entry::FellBack { reason: "Timeout".into(), message: "e".into() };
    let capped = |stop| Entry::Capped { stop };
    let reserved = || Entry::DecisionReserved { step: 1, worst: Spend::default(), prompt: PromptMark::default() };
    let fall = |reason: &str, message: &str| Decision::FallBack { reason: reason.into(), message: message.into() };
    // Three answers that bring nothing new.
    let idle = |j: &Journal| {
        let repeat = || Entry::Answered { step: 1, results: vec![CallResult { call: "c1".into(), outcome: CallOutcome::Repeat { of: "e1".into() } }] };
        and(j, vec![repeat(), repeat(), repeat()])
    };
    let cases: Vec<(&str, Control, Journal, i64, Decision)> = vec![
        ("begun", falls, begun.clone(), 0, Decision::Ask { step: 1 }),
        ("interrupted while it was asked", falls, and(&begun, vec![reserved()]), 0, Decision::Ask { step: 1 }),
        ("failed, and it is too early", falls, and(&begun, vec![failed("Timeout", Some(5))]), 4, Decision::Later(at(5))),
        ("failed, and it is time", falls, and(&begun, vec![failed("Timeout", Some(5))]), 5, Decision::Ask { step: 1 }),
        ("failed for good", falls, and(&begun, vec![failed("Timeout", None)]), 5, fall("Timeout", "e")),
        ("failed for good, alone", alone, and(&begun, vec![failed("Timeout", None)]), 5, Decision::Stop(StopReason::Failed)),
        ("the playbooks go on", falls, and(&begun, vec![failed("Timeout", None), fell()]), 5, Decision::Ask { step: 1 }),
        ("malformed once", falls, and(&begun, vec![malformed()]), 0, Decision::Ask { step: 2 }),
        ("malformed twice", falls, and(&begun, vec![malformed(), malformed()]), 0, fall("MalformedReply", "two replies in a row could not be used")),
        ("too long once", falls, and(&begun, vec![failed(OVERFLOW, Some(0))]), 0, Decision::Ask { step: 1 }),
        ("too long twice", falls, and(&begun, vec![failed(OVERFLOW, Some(0)), failed(OVERFLOW, Some(0))]), 0, Decision::Cap(TokenCap)),
        ("nothing new three times", falls, idle(&begun), 0, Decision::Cap(StepCap)),
        ("nothing new three times, by rules", control(2, false), idle(&begun), 0, Decision::Ask { step: 1 }),
        ("a cap: the last word", falls, and(&begun, vec![capped(CostCap)]), 0, Decision::Answer { step: 1, stop: CostCap }),
        ("interrupted at its last word", falls, and(&begun, vec![capped(CostCap), reserved()]), 0, Decision::Answer { step: 1, stop: CostCap }),
        ("the last word is a conclusion", falls, and(&begun, vec![capped(CostCap), concluded()]), 0, Decision::Conclude(CostCap)),
        ("the last word is none", alone, and(&begun, vec![capped(CostCap), malformed()]), 0, Decision::Stop(CostCap)),
        (
            "the last word is none, of money",
            falls,
            and(&begun, vec![capped(CostCap), malformed()]),
            0,
            fall("CostCap", "the model did not conclude with what was left"),
        ),
        ("the last word is none, of calls", falls, and(&begun, vec![capped(StepCap), malformed()]), 0, Decision::Stop(StepCap)),
        ("the last word waits", falls, and(&begun, vec![capped(CostCap), failed("RateLimited", Some(9))]), 3, Decision::Later(at(9))),
        (
            "the last word is asked again",
            falls,
            and(&begun, vec![capped(CostCap), failed("RateLimited", Some(9))]),
            9,
            Decision::Answer { step: 1, stop: CostCap },
        ),
        ("the last word is too long", falls, and(&begun, vec![capped(TokenCap), failed(OVERFLOW, Some(0))]), 0, fall(OVERFLOW, "e")),
        ("the playbooks look on without money", falls, and(&begun, vec![capped(CostCap), fell()]), 0, Decision::Ask { step: 1 }),
        ("and conclude", falls, and(&begun, vec![capped(CostCap), fell(), concluded()]), 0, Decision::Conclude(CostCap)),
        ("a conclusion", falls, and(&begun, vec![concluded()]), 0, Decision::Conclude(Done)),
    ];
    for (what, control, journal, now, wanted) in cases {
        assert_eq!(decide(&control, &journal, at(now)), wanted, "{what}");
    }
}

#[test]
fn s1_11_calls_past_the_cap_are_skipped_and_the_run_stops_there() {
    let c = control(2, false);
    let begun = journal(vec![started()]);
    let mut j = begun.clone();
    j.push(T0, decided(1, &begun, c.caps, vec![call("find", 1), call("find", 2), call("find", 3)]));
    let plans: Vec<Plan> = j.planned().map(|p| p.plan.clone()).collect();
    assert!(matches!(plans[..], [Plan::Execute { .. }, Plan::Execute { .. }, Plan::Skip { .. }]), "{plans:?}");
    let open = j.clone();
    j.push(T0, settled(1, &open));
    assert_eq!(j.committed().tool_calls, 2);
    assert_eq!(decide(&c, &j, T0), Decision::Stop(StopReason::StepCap));
    // A raised cap lets it go on.
    assert_eq!(decide(&control(3, false), &j, T0), Decision::Ask { step: 2 });
}

#[test]
fn a_repeated_call_is_answered_from_the_journal_at_no_charge() {
    let c = control(8, false);
    let begun = journal(vec![started()]);
    let mut j = begun.clone();
    j.push(T0, decided(1, &begun, c.caps, vec![call("find", 1)]));
    let open = j.clone();
    j.push(T0, settled(1, &open));
    let again = ToolCall { tool: "find".into(), arguments: json!({"n": 1}) };
    let before = j.clone();
    j.push(T0, decided(2, &before, c.caps, vec![again, call("nope", 1)]));
    let plans: Vec<Plan> = j.planned().skip(1).map(|p| p.plan.clone()).collect();
    assert_eq!(plans, [Plan::Repeat { evidence: "e1".into() }, Plan::Unknown]);
    assert_eq!(j.committed().tool_calls, 1, "neither is charged");
}

#[test]
fn time_in_suspension_is_not_counted() {
    let mut j = Journal::default();
    j.push(at(0), started());
    j.push(at(10), Entry::Suspended);
    j.push(at(100), Entry::Resumed);
    assert_eq!(j.active(at(105)).as_secs(), 15);
}

#[test]
fn a_reservation_that_was_never_settled_counts_as_spent() {
    let worst = Spend { cost: MicroUsd(70), input_tokens: 7, ..Spend::default() };
    let mut j = journal(vec![started(), Entry::DecisionReserved { step: 1, worst, prompt: PromptMark::default() }]);
    assert_eq!(j.committed(), worst, "open");
    j.push(T0, Entry::DecisionReserved { step: 1, worst, prompt: PromptMark::default() });
    assert_eq!(j.committed().cost, MicroUsd(140), "the interrupted one stays spent");
    let used = Spend { cost: MicroUsd(1), input_tokens: 1, ..Spend::default() };
    j.push(T0, Entry::Decided { step: 1, used, beyond: Spend::default(), next: Move::Malformed { error: String::new() }, calls: vec![] });
    assert_eq!(j.committed().cost, MicroUsd(71));
}

#[test]
fn a_part_of_the_budget_is_kept_for_the_answer() {
    let caps = control(8, false).caps;
    let mut ledger = Ledger::new(caps, Spend { cost: MicroUsd(440_000), ..Spend::default() });
    let worst = Spend { cost: MicroUsd(20_000), ..Spend::default() };
    assert_eq!(ledger.reserve(worst, Purpose::Step), Err(StopReason::CostCap));
    assert_eq!(ledger.reserve(worst, Purpose::Answer), Ok(()));
}

#[test]
fn a_budget_that_cannot_be_read_names_its_field() {
    let bad = BudgetSpec { max_cost_usd: Usd::from("a lot"), ..BudgetSpec::default() };
    assert!(Caps::try_from(&bad).unwrap_err().to_string().starts_with("spec.budget.maxCostUSD: \"a lot\" is not an amount"));
    let bad = BudgetSpec { max_duration: Span::from("soon"), ..BudgetSpec::default() };
    assert!(Caps::try_from(&bad).unwrap_err().to_string().contains("maxDuration"));
}
