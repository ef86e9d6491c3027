//! Property tests that run for a time instead of a number of cases: a second each in `make test`, a minute each in `make fuzz`.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use proptest::{
    strategy::{BoxedStrategy, Strategy},
    test_runner::{TestCaseError, TestRunner},
};

/// Words that mean something to a guard, mixed with anything.
pub fn hostile(words: &'static [&'static str]) -> BoxedStrategy<String> {
    let word = proptest::sample::select(words).prop_map(str::to_owned);
    let any = proptest::prop_oneof![4 => word, 1 => "[ -~]{0,8}", 1 => "\\PC{0,4}", 1 => proptest::char::any().prop_map(String::from)];
    proptest::collection::vec(any, 0..12).prop_map(|parts| parts.concat()).boxed()
}

/// Runs `check` on values of `strategy` until the time is over.
pub fn run<T: Debug>(name: &str, strategy: impl Strategy<Value = T>, check: impl Fn(T) -> Result<(), TestCaseError>) {
    let seconds = std::env::var("INQUEST_FUZZ_SECONDS").ok().map_or(1.0, |s| s.parse().expect("INQUEST_FUZZ_SECONDS is a number of seconds"));
    let mut runner = TestRunner::default();
    let (until, mut cases) = (Instant::now() + Duration::from_secs_f64(seconds), 0_u64);
    while Instant::now() < until {
        for _ in 0..64 {
            let tree = strategy.new_tree(&mut runner).expect("a value");
            if let Err(error) = runner.run_one(tree, &check) {
                panic!("{name}: {error}");
            }
            cases += 1;
        }
    }
    println!("{name}: {cases} cases");
}
