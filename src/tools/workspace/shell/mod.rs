//! `run_shell`: one command of an allow list, without a shell.
//!
//! Three steps, each enough for most attacks by itself. *Parse*: words become a `Plan` of a known command, known options and relative paths;
//! what is not in the table is refused. *Confine*: a process of its own opens the paths beneath the root and shuts itself in (Landlock: just
//! those files; no network, no writing; limits on CPU, memory and files). *Run*: it becomes the command; its time and its output are bounded.

mod commands;
mod confine;
mod plan;
mod run;
#[cfg(test)]
mod tests;

pub use confine::{REFUSED, confine};
pub use plan::Plan;
pub use run::Shell;
