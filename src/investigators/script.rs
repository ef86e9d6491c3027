//! Replays recorded moves, in order. For tests and the demo: it decides nothing.

use super::{Case, Investigator};
use crate::{
    agent::{Journal, Move},
    api::StopReason,
    grounding::Draft,
};

/// The moves, and the draft that ends the run when they are used up or a cap is reached.
#[derive(Clone, Debug)]
pub struct Script {
    pub moves: Vec<Move>,
    pub last: Draft,
}

impl Investigator for Script {
    fn kind(&self) -> &'static str {
        "script"
    }
    fn next(&self, _case: &Case, journal: &Journal) -> Move {
        let step = journal.steps() as usize;
        self.moves.get(step).cloned().unwrap_or_else(|| Move::Conclude { draft: Box::new(self.last.clone()) })
    }
    fn conclude(&self, _case: &Case, _journal: &Journal, _stop: StopReason) -> Draft {
        self.last.clone()
    }
}
