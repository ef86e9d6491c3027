# Shared by the scripts of tests/cluster, tests/interop and benches. Sourced, not run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
# Built once a machine: a fresh clone finds the binaries here.
cache=${INQUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/inquest}
interop=$cache/interop cache=$cache/node
bin=$cache/bin images=$cache/images run=$cache/run
mkdir -p "$bin" "$images"
export PATH=$bin:$PATH

kubernetes=1.34.3 etcd=3.6.6 coredns=1.15.0 router=2.1.0 helm=4.3.1

say() { printf '%s\n' "$*" >&2; }
# Runs a command and says how long it took: timed "what" command...
timed() {
  local what=$1 from=$SECONDS; shift
  "$@"
  say "  $what: $((SECONDS - from)) s"
}
