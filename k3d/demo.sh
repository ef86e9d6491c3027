#!/usr/bin/env bash
# `make demo`: a cluster, Inquest in it, a broken shop, and the question why.
. "$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests/cluster" && pwd)/lib.sh"
"$root/k3d/bootstrap.sh" demo
. "$root/.work/env"
say "a broken shop in namespace demo"
kubectl apply -f "$root/k3d/manifests" >/dev/null
until kubectl -n demo get pods -l app=payments-api -o jsonpath='{.items[*].status.containerStatuses[*].state.waiting.reason}' | grep -q CrashLoopBackOff; do sleep 0.5; done
kubectl -n demo delete investigation payments-api-down --ignore-not-found >/dev/null
say "the question"
kubectl apply -f "$root/k3d/investigation.yaml"
kubectl -n demo wait investigation/payments-api-down --for=condition=Complete --timeout=60s >/dev/null
echo
kubectl -n demo get pods
echo
kubectl -n demo get investigations
echo
kubectl -n demo get investigation payments-api-down -o jsonpath='{.status.postmortem.markdown}'
cat <<END

Try next (KUBECONFIG is in .work/env: source it):

  kubectl -n demo describe investigation payments-api-down
  kubectl -n demo create configmap redis-settings --from-literal=MAXMEMORY=64mb   # and watch the shop recover
END
