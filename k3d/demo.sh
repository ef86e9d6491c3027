#!/usr/bin/env bash
# `make demo`: a cluster, Inquest in it, a broken shop, and the question why. First the playbooks, then three questions to a model: the one that
# INQUEST_MODEL_BASE_URL, INQUEST_MODEL and INQUEST_MODEL_API_KEY name (with INQUEST_MODEL_INPUT_PRICE and INQUEST_MODEL_OUTPUT_PRICE, US
# dollars for a million tokens; 0 for one that costs nothing), or recorded conversations, which cost nothing.
. "$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests/cluster" && pwd)/lib.sh"
scenarios=(cluster-health runbook-lookup guardrail)
if [ -n "${INQUEST_MODEL_BASE_URL:-}" ]; then
  for name in INQUEST_MODEL INQUEST_MODEL_INPUT_PRICE INQUEST_MODEL_OUTPUT_PRICE; do
    [ -n "${!name:-}" ] || { say "INQUEST_MODEL_BASE_URL is set: set $name, too"; exit 1; }
  done
  port=$(sed -E 's#^https://[^/:]+(/.*)?$#443#; s#^http://[^/:]+(/.*)?$#80#; s#^https?://[^/]*:([0-9]+)(/.*)?$#\1#' <<<"$INQUEST_MODEL_BASE_URL")
fi
export INQUEST_HELM_ARGS="--set models.secrets={inquest-model-key} --set models.configMaps={inquest-scripts} ${port:+--set operator.egress[0].ports[0].port=$port}"
"$root/k3d/bootstrap.sh" demo
. "$root/.work/env"

say "a broken shop in namespace demo"
kubectl apply -f "$root/k3d/manifests" >/dev/null
until kubectl -n demo get pods -l app=payments-api -o jsonpath='{.items[*].status.containerStatuses[*].state.waiting.reason}' | grep -q CrashLoopBackOff; do sleep 0.5; done
kubectl -n demo delete investigations --all >/dev/null
say "the question, to the playbooks"
kubectl apply -f "$root/k3d/investigation.yaml"
kubectl -n demo wait investigation/payments-api-down --for=condition=Complete --timeout=60s >/dev/null
echo
kubectl -n demo get pods
echo
kubectl -n demo get investigations
echo
kubectl -n demo get investigation payments-api-down -o jsonpath='{.status.postmortem.markdown}'

# The Model of a scenario: the given one, or a recorded conversation.
model() {
  local spec
  if [ -n "${INQUEST_MODEL_BASE_URL:-}" ]; then
    spec="{provider: ${INQUEST_MODEL_PROVIDER:-OpenAI}, model: '$INQUEST_MODEL', baseURL: '$INQUEST_MODEL_BASE_URL', protocol: ${INQUEST_MODEL_PROTOCOL:-Tools},
      maxOutputTokens: ${INQUEST_MODEL_MAX_OUTPUT_TOKENS:-4096}, contextTokens: ${INQUEST_MODEL_CONTEXT_TOKENS:-128000}, timeout: ${INQUEST_MODEL_TIMEOUT:-60s},
      price: {inputPerMillionUSD: '$INQUEST_MODEL_INPUT_PRICE', outputPerMillionUSD: '$INQUEST_MODEL_OUTPUT_PRICE'},
      ${INQUEST_MODEL_API_KEY:+apiKeySecretRef: {name: inquest-model-key, key: token\},} allowedNamespaces: {from: All}}"
  else
    spec="{provider: Script, model: recorded, scriptRef: {name: inquest-scripts, key: $1}, fallback: None, price: {inputPerMillionUSD: '0', outputPerMillionUSD: '0'}, allowedNamespaces: {from: All}}"
  fi
  printf 'apiVersion: inquest.dev/v1alpha1\nkind: Model\nmetadata: {name: demo-%s, namespace: inquest-system}\nspec: %s\n' "$1" "$spec" | kubectl apply -f - >/dev/null
}
echo
if [ -n "${INQUEST_MODEL_BASE_URL:-}" ]; then say "three questions, to the model $INQUEST_MODEL"; else say "three questions, to recorded conversations"; fi
keys=()
for name in "${scenarios[@]}"; do keys+=("--from-file=$name=$root/k3d/scenarios/scripts/$name.yaml"); done
kubectl -n inquest-system create configmap inquest-scripts "${keys[@]}" --dry-run=client -o yaml | kubectl apply -f - >/dev/null
if [ -n "${INQUEST_MODEL_API_KEY:-}" ]; then
  # From the environment into the Secret: an argument would be seen by everybody on the machine.
  printf '{"apiVersion":"v1","kind":"Secret","metadata":{"name":"inquest-model-key","namespace":"inquest-system"},"data":{"token":"%s"}}' \
    "$(printf %s "$INQUEST_MODEL_API_KEY" | base64 -w0)" | kubectl apply -f - >/dev/null
fi
for name in "${scenarios[@]}"; do model "$name"; done
kubectl apply -f "$root/k3d/scenarios/investigations.yaml" >/dev/null
for name in "${scenarios[@]}"; do
  kubectl -n demo wait "investigation/$name" --for=condition=Complete --timeout=600s >/dev/null
done
echo
kubectl -n demo get investigations -o wide
for name in "${scenarios[@]}"; do
  echo
  kubectl -n demo get investigation "$name" -o jsonpath='{.status.postmortem.markdown}'
done
echo
kubectl -n demo get events --field-selector involvedObject.name=guardrail -o custom-columns=REASON:.reason,MESSAGE:.message
cat <<END

Try next (KUBECONFIG is in .work/env: source it):

  kubectl -n demo describe investigation payments-api-down
  kubectl -n demo create configmap redis-settings --from-literal=MAXMEMORY=64mb   # and watch the shop recover
END
