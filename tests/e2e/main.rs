//! What only a cluster can prove. `make e2e` starts a real node, installs the chart and runs these one after the other.
//! The cluster is the one that KUBECONFIG names; the namespaces are those that `tests/cluster/e2e.sh` gave the chart as tenants.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test ends at the first surprise, and says what it saw")]

mod kubectl;
mod lifecycle;
mod models;
mod quota;
mod rights;
mod scenarios;
mod servers;
mod validation;
