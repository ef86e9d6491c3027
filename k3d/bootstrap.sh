#!/usr/bin/env bash
# A cluster to play with, and Inquest in it: bootstrap.sh [TENANT...]. Idempotent. Which cluster: the context that INQUEST_E2E_CONTEXT
# names; or k3d, where docker and k3d are there; or the local node of tests/cluster. Prints which, and writes .work/env to source.
. "$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests/cluster" && pwd)/lib.sh"
work=$root/.work
mkdir -p "$work"
tenants=("$@")
[ ${#tenants[@]} -gt 0 ] || tenants=(demo)
archives=("$work/inquest.tar" "$work/inquest-workspace.tar")

if [ -n "${INQUEST_E2E_CONTEXT:-}" ]; then
  kind="the given context $INQUEST_E2E_CONTEXT"
  kubectl config view --minify --flatten --context "$INQUEST_E2E_CONTEXT" >"$work/kubeconfig"
elif command -v k3d >/dev/null && docker info >/dev/null 2>&1; then
  kind="k3d cluster inquest-demo"
  k3d cluster get inquest-demo >/dev/null 2>&1 || timed "k3d cluster" k3d cluster create inquest-demo --wait
  k3d kubeconfig get inquest-demo >"$work/kubeconfig"
else
  kind="the local node of tests/cluster (no docker with k3d here)"
  "$here/node.sh" up
  cp "$("$here/node.sh" env)" "$work/kubeconfig"
fi
say "cluster: $kind"
export KUBECONFIG=$work/kubeconfig
printf 'export KUBECONFIG=%q PATH=%q:$PATH\n' "$KUBECONFIG" "$bin" >"$work/env"
command -v helm >/dev/null || { say "helm is missing: install helm 3.14 or newer"; exit 1; }

say "image"
"$here/image.sh" "$work"
case $kind in
  k3d*) k3d image import -c inquest-demo "${archives[@]}" ;;
  "the local"*) "$here/node.sh" load "${archives[@]}" ;;
  *) say "  not loaded: the nodes of a given context must be able to pull ghcr.io/inquest-dev/inquest:0.1.0 and inquest-workspace:0.1.0, or have them" ;;
esac

say "install"
for namespace in inquest-system "${tenants[@]}"; do
  kubectl create namespace "$namespace" --dry-run=client -o yaml | kubectl apply -f - >/dev/null
done
# What must be there before the chart: the tests have a Prometheus, and files for the workspace.
[ -z "${INQUEST_MANIFESTS:-}" ] || kubectl apply -f "$INQUEST_MANIFESTS" >/dev/null
install() {
  # helm installs CRDs once and never upgrades them.
  kubectl apply --server-side --force-conflicts -f "$root/crds" >/dev/null
  # A rebuilt image keeps its tag: the annotation makes the pods start anew.
  helm upgrade --install inquest "$root/charts/inquest" -n inquest-system --skip-crds \
    --set "tenants={$(IFS=,; echo "${tenants[*]}")}" \
    --set-string "podAnnotations.inquest\.dev/image=$(sha256sum "${archives[0]}" | cut -c1-16)" "${helm_args[@]}" >"$work/helm.log" 2>&1 || { cat "$work/helm.log" >&2; exit 1; }
  kubectl -n inquest-system rollout status deployment -l app.kubernetes.io/instance=inquest --timeout=120s >/dev/null
  kubectl -n inquest-system wait toolservers -l app.kubernetes.io/instance=inquest --for=condition=Ready --timeout=60s >/dev/null
}
# More arguments for helm, as one string: the tests switch on every server.
read -ra helm_args <<<"${INQUEST_HELM_ARGS:-}"
timed "helm install" install
