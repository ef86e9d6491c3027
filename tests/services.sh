#!/usr/bin/env bash
# What the tests need beside Rust, from Debian's packages: installs what is missing, or says it in one line.
set -euo pipefail
wanted=()
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || wanted+=(postgresql)
command -v prometheus >/dev/null || wanted+=(prometheus)
command -v openssl >/dev/null || wanted+=(openssl)
command -v setpriv >/dev/null || wanted+=(util-linux)
command -v node >/dev/null || wanted+=(nodejs)
command -v npm >/dev/null || wanted+=(npm)
python3 -c 'import ensurepip' 2>/dev/null || wanted+=(python3-venv)
if [ ${#wanted[@]} -eq 0 ]; then exec "$(dirname "$0")/interop/install.sh"; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "the tests need these packages: ${wanted[*]}" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >/dev/null
apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null
exec "$(dirname "$0")/interop/install.sh"
