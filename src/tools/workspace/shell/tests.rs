//! Whatever the line: what would be run is made of words of the tables, and paths beneath the workspace.

use proptest::prop_assert;

use super::{
    Plan,
    commands::{COMMANDS, Value},
};
use crate::{
    fuzz::{hostile, run},
    tools::workspace::tests::is_beneath,
};

const WORDS: &[&str] = &[
    "cat ",
    "find ",
    "grep ",
    "sort ",
    "date ",
    "ls ",
    "uniq ",
    "tail ",
    "stat ",
    "du ",
    "-",
    "--",
    "-n",
    "-o",
    "-exec",
    "-delete",
    "-name",
    "-f",
    "--files0-from=",
    "-e",
    " ",
    "=",
    "'",
    "\"",
    "\\",
    "/",
    "..",
    "*",
    "$",
    "`",
    ";",
    "|",
    "a",
    "1",
    "!",
    "rm",
    "+%Y",
    "-type",
    "f",
    "-r",
    "\t",
    "\n",
    "~",
];
#[test]
fn fuzz_command_lines() {
    run("command lines", hostile(WORDS), |line| {
        let Ok(plan) = Plan::parse(&line) else { return Ok(()) };
        let command = COMMANDS.iter().find(|c| c.name == plan.program).unwrap();
        prop_assert!(plan.paths.iter().all(|p| is_beneath(p)), "{line:?}: {plan:?}");
        let mut words = plan.options.iter().chain(&plan.tests);
        while let Some(word) = words.next() {
            if word == "!" && command.expressions || word.starts_with('+') && command.name == "date" {
                continue;
            }
            let known = command.options.iter().find(|o| word.strip_prefix('-') == Some(o.name));
            prop_assert!(known.is_some(), "{line:?}: {word:?} of {plan:?}");
            if !matches!(known.unwrap().value, Value::None) {
                prop_assert!(words.next().is_some(), "{line:?}: {plan:?}");
            }
        }
        Ok(())
    });
}
