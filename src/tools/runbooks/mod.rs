//! The runbooks server: `search_runbooks` and `read_runbook`, over Runbook resources and a mounted folder. A tenant sees its own runbooks and the
//! shared ones.
//!
//! *Invariant*: a result names a signature only where the runbook lists it and the query holds it, letter for letter. `rank` and
//! `book` are pure.

mod book;
mod folder;
mod rank;
#[cfg(test)]
mod tests;
mod tools;

pub use folder::Folder;
pub use tools::{Settings, tools};
