//! What only a cluster can prove. `make e2e` starts a real node, installs the chart and runs these one after the other.
//! The cluster is the one that KUBECONFIG names; the namespaces are those that `tests/cluster/e2e.sh` gave the chart as tenants.

mod kubectl;
mod lifecycle;
mod rights;
mod scenarios;
mod validation;
