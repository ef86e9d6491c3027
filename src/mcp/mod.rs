//! Calling tool servers: discovery, tokens, timeouts, size limits. What a server says is hostile input.

mod client;
mod local;

pub use client::{CallLimits, Connection, Endpoint, McpError, Offered};
pub use local::LocalTools;
