//! From claims and recorded evidence to a postmortem in which every sentence is proved.
//!
//! Pure: imports neither kube, nor rmcp, nor an HTTP client, nor a model, nor a clock; `tests/it/purity.rs` holds it to that.
//! What it shares with the rest are the data types of `api`.
//!
//! *Invariant*: nothing reaches a [`Postmortem`](crate::api::Postmortem) but through [`publish`], and `publish` keeps a claim only
//! when [`verify`] says [`Verdict::Supported`]. There is no other constructor of a published claim outside tests.

mod draft;
mod evidence;
mod hostile;
mod publish;
mod tokens;
mod verify;

pub use draft::*;
pub use evidence::*;
pub use hostile::{Sources, instructs, suspicious, trusted};
pub use publish::{Run, publish};
pub use verify::*;

#[cfg(test)]
mod tests;
