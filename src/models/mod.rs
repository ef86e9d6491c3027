//! Language models: the wire forms of the providers, and how many requests one takes. What a model says is hostile input.
//!
//! The forms are read value by value and not by a crate's types: a server that leaves `usage` or `index` out, sends `content: null`, a
//! finish reason of its own or a negative count is answered all the same, and what can't be believed is judged by `agent::Prices`.

mod anthropic;
mod client;
mod gate;
mod line;
mod openai;
mod script;

pub use client::{Client, Key, Settings};
pub use gate::{BreakerState, Gate};
pub use line::{KeySource, Line, Observer, StaticKey};
pub use script::{Script, ScriptError};

#[cfg(test)]
mod tests;
