//! Inquest: an operator that investigates broken workloads. See ARCHITECTURE.md for the map.

pub mod agent;
pub mod api;
pub mod cli;
pub mod database;
#[cfg(test)]
mod fuzz;
pub mod grounding;
pub mod http_client;
pub mod identity;
pub mod investigators;
pub mod mcp;
pub mod models;
pub mod operator;
pub mod report;
pub mod runner;
pub mod store;
pub mod telemetry;
mod text;
pub mod tools;
