//! The investigator that asks a model. Pure: from a journal it makes the request, and from a reply the move; who sends the one and
//! receives the other is `models`, and who counts the money is `agent`.
//!
//! *Invariant*: what a model is told is made of the journal alone, so that any replica asks the same; nothing that it says is
//! believed before `grounding` has checked it.

mod conversation;
mod fit;
mod prompt;
mod reply;
mod schema;
mod types;

pub use fit::{Fitted, NoFit};
pub use prompt::VERSION;
pub use schema::plain;
pub use types::*;

use crate::{
    agent::{Caps, Journal, Move, Prices, Purpose},
    api::Protocol,
    investigators::Case,
};

/// The tool that a model ends with.
pub const CONCLUDE: &str = "conclude";

/// How a model is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Chat {
    /// `namespace/name` of the Model, or its name at the provider for a local run.
    pub name: String,
    pub protocol: Protocol,
    pub max_output: u64,
    /// Tokens that the model takes, in and out.
    pub context: u64,
    pub prices: Prices,
}

impl Chat {
    /// The next request, made to fit into what is left of the budget and into the model.
    ///
    /// # Errors
    /// The cap that even the smallest request would break.
    pub fn request(&self, case: &Case, journal: &Journal, caps: &Caps, purpose: Purpose) -> Result<Fitted, NoFit> {
        fit::fit(self, case, journal, caps, purpose)
    }

    /// What the model wants, or why its reply can't be used.
    #[must_use]
    pub fn read(&self, case: &Case, journal: &Journal, reply: &ChatReply) -> Move {
        reply::read(case, journal, reply)
    }
}

#[cfg(test)]
mod tests;
