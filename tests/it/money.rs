//! No schedule of costs, lies, failures and crashes makes a run cost more than its cap: not by its own books, and not by the bill.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use inquest::{
    agent::{Again, Caps, Control, Journal, Mind, PlannedCall, Prices, Received, Reported, ToolRef},
    api::{Fallback, MicroUsd, Protocol, StopReason},
    grounding::Draft,
    investigators::{
        Case, Script,
        chat::{Chat, ChatReply, ChatRequest, Failure, Finish, Message, ModelCall, plain},
    },
    runner::{Admission, Model, ModelCaller, Parts, Stepped, ToolCaller, postmortem, step},
    store::{JournalStore, MemoryStore, RunId},
};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::json;

/// What the provider does with one request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Honest,
    NoUsage,
    ZeroUsage,
    NegativeUsage,
    HugeUsage,
    /// Refused before any work: not billed.
    Busy,
    /// The work is done and billed, and the answer is lost.
    Lost,
    /// The process dies while it waits: billed.
    Crash,
    Refuses,
    Overflows,
    BreakerOpen,
    NoPlace,
}

/// What an answer says.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Looks,
    LooksForTheSame,
    Nonsense,
    Lies,
    Gives,
}

struct Provider {
    fates: Mutex<Vec<(Fate, Answer, u8)>>,
    prices: Prices,
    /// What an honest bill says, in micro-dollars and tokens.
    billed: AtomicU64,
    tokens: AtomicU64,
    asked: AtomicUsize,
}

impl Provider {
    /// A prompt's true size: a token is a byte at the least and four in the usual text, and the same text is always as many.
    fn bill(&self, request: &ChatRequest, part: u8) -> (u64, u64) {
        let tokens = |text: String| text.len() as u64 / (text.bytes().map(u64::from).sum::<u64>() % 4 + 1);
        let json = |m: &Message| serde_json::to_string(m).unwrap();
        let input = tokens(serde_json::to_string(&(&request.system, &request.tools)).unwrap()) + request.messages.iter().map(|m| tokens(json(m))).sum::<u64>();
        // Up to the limit, and never over it.
        let output = (request.max_output * u64::from(part) / 255).max(1);
        let cost = |price: MicroUsd, n: u64| (price.0 * n).div_ceil(1_000_000);
        self.billed.fetch_add(cost(self.prices.input, input) + cost(self.prices.output, output), Ordering::SeqCst);
        self.tokens.fetch_add(input + output, Ordering::SeqCst);
        (input, output)
    }
}

impl ModelCaller for Provider {
    fn admit(&self) -> Admission {
        let next = self.fates.lock().unwrap().last().map(|f| f.0);
        let gone = |reason| Failure { reason, message: String::new(), again: Again::Never, billed: false };
        match next {
            Some(Fate::NoPlace) => {
                self.fates.lock().unwrap().pop();
                Admission::Later(Duration::from_millis(200))
            }
            Some(Fate::BreakerOpen) => {
                self.fates.lock().unwrap().pop();
                Admission::Never(gone("BreakerOpen"))
            }
            _ => Admission::Now(Box::new(())),
        }
    }

    fn ask<'a>(&'a self, request: &'a ChatRequest) -> BoxFuture<'a, Result<ChatReply, Failure>> {
        async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let (fate, answer, part) = self.fates.lock().unwrap().pop().unwrap_or((Fate::Honest, Answer::Gives, 9));
            let failed = |reason, again, billed| Err(Failure { reason, message: "m".into(), again, billed });
            match fate {
                Fate::Busy => return failed("RateLimited", Again::After(Duration::from_secs(2)), false),
                Fate::Overflows => return failed("ContextOverflow", Again::Smaller, false),
                _ => {}
            }
            let (input, output) = self.bill(request, part);
            match fate {
                Fate::Lost => return failed("Cut", Again::Soon, true),
                Fate::Crash => std::future::pending::<()>().await,
                _ => {}
            }
            let told = |n: u64| i64::try_from(n).unwrap();
            let usage = match fate {
                Fate::NoUsage => Reported::default(),
                Fate::ZeroUsage => Reported { input: Some(0), output: Some(0), ..Reported::default() },
                Fate::NegativeUsage => Reported { input: Some(-told(input)), output: Some(told(output)), ..Reported::default() },
                Fate::HugeUsage => Reported { input: Some(i64::MAX), output: Some(i64::MAX), ..Reported::default() },
                _ => Reported { input: Some(told(input)), output: Some(told(output)), ..Reported::default() },
            };
            let call = |name: &str, arguments: serde_json::Value| ModelCall { id: String::new(), name: name.into(), arguments: arguments.to_string() };
            let calls = match answer {
                Answer::Looks => vec![call("find", json!({"n": self.asked.load(Ordering::SeqCst)})), call("nope", json!({}))],
                Answer::LooksForTheSame => vec![call("find", json!({"n": 0}))],
                Answer::Nonsense => vec![],
                Answer::Lies => {
                    let lie = json!({"outcome": "cause", "statement": "Pod ghost-1 is out of memory", "object": {"kind": "Pod", "name": "ghost-1"}, "signature": "OOMKilled",
                                     "citations": [{"evidence": "e1", "quote": "OOMKilled"}]});
                    vec![call("conclude", lie)]
                }
                Answer::Gives => vec![call("conclude", json!({"outcome": "unknown"}))],
            };
            let finish = if matches!(fate, Fate::Refuses) { Finish::Refused } else { Finish::Stop };
            Ok(ChatReply { text: String::new(), calls, finish, usage })
        }
        .boxed()
    }
}

struct Tools;

impl ToolCaller for Tools {
    fn call<'a>(&'a self, call: &'a PlannedCall, _server: &'a str) -> BoxFuture<'a, Received> {
        async move { Received { at: Timestamp::UNIX_EPOCH, text: json!({"text": call.id, "pad": "x".repeat(600)}).to_string(), truncated: false, code: None } }
            .boxed()
    }
}

fn schedule() -> impl Strategy<Value = Vec<(Fate, Answer, u8)>> {
    use Fate::*;
    let fate = prop_oneof![
        8 => Just(Honest), 1 => Just(NoUsage), 1 => Just(ZeroUsage), 1 => Just(NegativeUsage), 1 => Just(HugeUsage), 2 => Just(Busy), 2 => Just(Lost), 2 => Just(Crash),
        1 => Just(Refuses), 1 => Just(Overflows), 1 => Just(NoPlace)
    ];
    let fate = prop_oneof![40 => fate, 1 => Just(BreakerOpen)];
    let answer = prop_oneof![8 => Just(Answer::Looks), 1 => Just(Answer::LooksForTheSame), 1 => Just(Answer::Nonsense), 1 => Just(Answer::Lies), 1 => Just(Answer::Gives)];
    proptest::collection::vec((fate, answer, any::<u8>()), 0..24)
}

struct Outcome {
    journal: Journal,
    stop: StopReason,
    proved: bool,
    billed: u64,
    tokens: u64,
    most: (u64, u64),
}

fn run(fates: Vec<(Fate, Answer, u8)>, caps: Caps, chat: &Chat, fallback: Fallback) -> Outcome {
    let store = MemoryStore::default();
    let id = RunId { namespace: "demo".into(), name: "run".into(), uid: "u".into() };
    let rules = Script { moves: vec![], last: Draft::unknown("the playbooks know nothing") };
    let provider = Provider {
        fates: Mutex::new(fates.into_iter().rev().collect()),
        prices: chat.prices,
        billed: AtomicU64::new(0),
        tokens: AtomicU64::new(0),
        asked: AtomicUsize::new(0),
    };
    let clock = AtomicI64::new(0);
    let now = || Timestamp::UNIX_EPOCH + SignedDuration::from_millis(clock.load(Ordering::SeqCst));
    let catalogue = [ToolRef { server: "s/k".into(), tool: "find".into() }];
    let schemas = [plain("find", "Finds.", &json!({"type": "object"}))];
    let case = Case { question: "Why?".into(), ..Case::default() };
    let control = Control { caps, suspend: false, cancel: false, mind: Mind::Model { fallback } };
    let mut most = (0, 0);
    for turn in 0.. {
        assert!(turn < 1000, "the run does not end");
        // Each step by another replica: nothing but the journal is known.
        let mut open = store.open(&id).now_or_never().unwrap().unwrap();
        let parts = Parts {
            case: &case,
            control,
            investigator: &rules,
            model: Some(Model { chat, caller: &provider }),
            tools: &Tools,
            catalogue: &catalogue,
            schemas: &schemas,
        };
        let stepped = step(open.as_mut(), &parts, &now).now_or_never();
        let journal = store.open(&id).now_or_never().unwrap().unwrap().journal().clone();
        let books = journal.committed();
        most = (most.0.max(books.cost.0), most.1.max(books.tokens()));
        match stepped {
            Some(Ok(Stepped::Finished)) => {
                let (stop, post) = postmortem(&case, &journal).unwrap();
                let (billed, tokens) = (provider.billed.load(Ordering::SeqCst), provider.tokens.load(Ordering::SeqCst));
                return Outcome { journal, stop, proved: post.root_cause.is_some(), billed, tokens, most };
            }
            Some(Ok(Stepped::Later(wait))) => {
                clock.fetch_add(i64::try_from(wait.as_millis()).unwrap() + 1, Ordering::SeqCst);
            }
            Some(Ok(Stepped::Again)) => {
                clock.fetch_add(500, Ordering::SeqCst);
            }
            // A crash: the next replica comes a while later.
            None => {
                clock.fetch_add(3000, Ordering::SeqCst);
            }
            Some(other) => panic!("{other:?}"),
        }
    }
    unreachable!()
}

fn chat(input: u64, output: u64) -> Chat {
    let prices = Prices { input: MicroUsd(input), cached_input: MicroUsd(input), cache_write: MicroUsd(input), output: MicroUsd(output) };
    Chat { name: "demo/model".into(), protocol: Protocol::Tools, max_output: 600, context: 30_000, prices }
}

/// S1.12, S1.13: 10 000 schedules.
#[test]
fn s1_12_no_schedule_of_costs_failures_and_crashes_costs_more_than_the_cap() {
    let prices = prop_oneof![Just((0u64, 0u64)), (1..20_000_000u64, 1..90_000_000u64)];
    let cases = (schedule(), prices, 0..400_000u64, 0..80_000u64, 0..6u32, any::<bool>());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() });
    let (over, asked, capped) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    runner
        .run(&cases, |(fates, (input, output), cost, tokens, calls, falls_back)| {
            let caps = Caps { tool_calls: calls, cost: MicroUsd(cost), tokens, duration: Duration::from_secs(60) };
            let fallback = if falls_back { Fallback::Playbook } else { Fallback::None };
            let outcome = run(fates, caps, &chat(input, output), fallback);
            let bill = outcome.billed > cost || outcome.tokens > tokens;
            let books = outcome.most.0 > cost || outcome.most.1 > tokens || outcome.journal.committed().tool_calls > calls;
            over.fetch_add(usize::from(bill || books), Ordering::Relaxed);
            asked.fetch_add(outcome.journal.steps() as usize, Ordering::Relaxed);
            capped.fetch_add(usize::from(matches!(outcome.stop, StopReason::CostCap | StopReason::TokenCap)), Ordering::Relaxed);
            prop_assert!(!bill, "the bill: {} of {cost} µ$, {} of {tokens} tokens", outcome.billed, outcome.tokens);
            prop_assert!(!books, "the books: {:?} of {cost} µ$ and {tokens} tokens", outcome.most);
            prop_assert!(!outcome.proved, "a lie was published");
            Ok(())
        })
        .unwrap();
    let count = |n: &AtomicUsize| n.load(Ordering::Relaxed);
    println!("10000 schedules, {} decisions, {} stopped at a cap of money or tokens, over a cap {} times", count(&asked), count(&capped), count(&over));
    assert!(count(&asked) > 10_000 && count(&capped) > 1000, "the schedules are too tame to prove anything");
}

/// S1.12: how far a cent goes, at the prices of a small hosted model.
#[test]
fn a_run_for_a_cent_gets_somewhere_and_answers() {
    let caps = Caps { tool_calls: 8, cost: MicroUsd(10_000), tokens: 200_000, duration: Duration::from_secs(600) };
    let fates = vec![(Fate::Honest, Answer::Looks, 30); 20];
    let outcome = run(fates, caps, &chat(150_000, 600_000), Fallback::Playbook);
    println!("{} calls, {} micro-dollars of 10000, stopped: {:?}", outcome.journal.committed().tool_calls, outcome.billed, outcome.stop);
    assert!(outcome.journal.committed().tool_calls >= 4 && outcome.billed <= 10_000);
}
