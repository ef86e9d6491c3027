#!/usr/bin/env bash
# The tests on a cluster: starts the local node (or uses INQUEST_E2E_CONTEXT, or k3d), installs the chart, runs tests/e2e, and stops
# the node again if it was not running before.
. "$(dirname "$0")/lib.sh"
was_running=0
if "$here/node.sh" running; then was_running=1; fi
stop() { [ $was_running = 1 ] || [ -n "${INQUEST_E2E_CONTEXT:-}" ] || "$here/node.sh" down; }
trap stop EXIT

tenants=(demo sc-cross)
for scenario in "$root"/tests/scenarios/*/; do tenants+=("sc-$(basename "$scenario")"); done
# The test binary is linked while the cores are free, before the pods crash.
timed "compile the tests" cargo test --quiet --locked --features e2e --test e2e --no-run
# A third party's server, as its makers publish it.
"$here/../services.sh"
mkdir -p "$images/roots/kubernetes-mcp-server"
cp "$interop"/node_modules/kubernetes-mcp-server-linux-*/bin/kubernetes-mcp-server-linux-* "$images/roots/kubernetes-mcp-server/kubernetes-mcp-server"
python3 "$here/mkimage.py" localhost/kubernetes-mcp-server:1 "$images/roots/kubernetes-mcp-server" "$images/kubernetes-mcp-server.tar" /kubernetes-mcp-server
INQUEST_HELM_ARGS="-f $here/e2e-values.yaml" INQUEST_MANIFESTS=$here/e2e.yaml "$root/k3d/bootstrap.sh" "${tenants[@]}"
. "$root/.work/env"
for tenant in "${tenants[@]}"; do
  # Left over from a run before: the pods' events would be old.
  kubectl -n "$tenant" delete investigations,deployments,jobs,services,pvc,resourcequotas,pods --all --wait=false >/dev/null
done
# A pod of the release before may still answer, and takes its log with it.
until [ -z "$(kubectl -n inquest-system get pods -o jsonpath='{.items[*].metadata.deletionTimestamp}')" ]; do sleep 1; done
for tenant in "${tenants[@]}"; do kubectl -n "$tenant" wait pods --all --for=delete --timeout=60s >/dev/null 2>&1 || true; done
cargo test --quiet --locked --features e2e --test e2e -- --test-threads=1 --nocapture
