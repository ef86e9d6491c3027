//! The metrics server: `list_available_metrics`, `get_metric`, `get_schema_description`, and never a tool that takes a query.
//!
//! *Invariant*: no text of a caller becomes part of a statement or of a request's path. A statement is put together from the catalogue, which
//! the platform team writes; what a caller gives is a parameter of it. The tenant and the role come from the verified token alone.

mod backend;
mod catalogue;
mod fixtures;
mod guard;
mod http;
mod postgres;
#[cfg(test)]
mod tests;
mod tools;

pub use backend::{Backend, MockMode, Source};
pub use catalogue::{Catalogue, CatalogueError};
pub use guard::{DenyList, Limits, Role, codes};
pub use http::HttpBackend;
pub use postgres::Postgres;
pub use tools::{Settings, tools};
