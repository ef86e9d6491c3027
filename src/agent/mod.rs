//! The loop: what to do next, what it may cost, what is recorded, why it stops.
//!
//! Pure: no clock, no client, no environment. Given a journal it returns the next decision; the operator does what it says.
//!
//! *Invariant*: nothing is spent that was not reserved in the journal first, and every planned call has exactly one result.

mod budget;
mod decide;
mod journal;
mod plan;
mod price;
mod retry;

pub use budget::*;
pub use decide::*;
pub use journal::*;
pub use plan::*;
pub use price::*;
pub use retry::*;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
