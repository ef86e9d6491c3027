//! The kubernetes tools: what an expert would look at, as facts. No conclusions are drawn here.
//!
//! *Invariant*: only GET requests leave this folder, each as the ServiceAccount of the run, and none for the values of Secrets.
//! What an object means (`problems`, `edges`, `rollout`) is pure and works on objects that a [`Source`] has read.

pub(in crate::tools) mod args;
mod describe;
mod edges;
mod events;
pub(in crate::tools) mod json;
pub mod kinds;
mod live;
mod logs;
mod problems;
pub(in crate::tools) mod rollout;
mod snapshot;
mod source;
mod tools;
pub(in crate::tools) mod world;

pub use live::{Impersonating, cluster_version};
pub(in crate::tools) use logs::split_time_of as split_time;
pub use snapshot::Snapshot;
pub use source::{LogQuery, Readers, Source};
pub use tools::tools;

#[cfg(test)]
mod tests;
