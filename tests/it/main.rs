//! Tests through the widest seams that need no cluster.

mod chart;
mod playbooks;
mod purity;
mod served_tools;
