//! The kubernetes tools: what an expert would look at, as facts. No conclusions are drawn here.
//!
//! *Invariant*: only GET requests leave this folder, each as the ServiceAccount of the run, and none for the values of Secrets.
//! What an object means (`problems`, `edges`, `rollout`) is pure and works on objects that a [`Source`] has read.

mod args;
mod describe;
mod edges;
mod events;
mod json;
pub mod kinds;
mod live;
mod logs;
mod problems;
mod rollout;
mod snapshot;
mod source;
mod tools;
mod world;

pub use live::{Impersonating, cluster_version};
pub use snapshot::Snapshot;
pub use source::{LogQuery, Readers, Source};
pub use tools::tools;

#[cfg(test)]
mod tests;
