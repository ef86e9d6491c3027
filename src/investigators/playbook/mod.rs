//! The deterministic investigator: from the symptom along the edges to the cause, asking only what would change its mind.
//! Its knowledge is data (`config/playbooks/*.yaml`); this is the engine. Pure.
//!
//! `facts` decodes evidence, `matcher` turns facts and playbooks into hypotheses, `engine` follows links, chooses, and asks; `runbook` looks for what a team wrote about the cause.

mod engine;
mod facts;
mod format;
mod lines;
mod matcher;
mod runbook;
mod shipped;

pub use engine::Playbooks;
pub use format::{LoadError, Playbook, load};
pub use shipped::SHIPPED;

#[cfg(test)]
mod tests;
