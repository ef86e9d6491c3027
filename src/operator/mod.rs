//! The operator: watches, reconciles, writes status. A reconcile is one step of one run; nothing of a run is held between them.
//!
//! *Invariant*: what is written is our own: Investigations (status, and deletion at their TTL), their journals, the status of ToolServers
//! and Models, Events, one Lease, and one Secret that holds the signing keys.

mod caller;
mod endpoints;
mod events;
mod keys;
mod models;
mod quota;
mod reconcile;
mod servers;
mod setup;
pub mod shutdown;
mod status;
mod streams;

pub use setup::{Settings, run};
pub use status::usage;
