#!/usr/bin/env bash
# `make bench-tools`: calls a second, latency, memory and cold start of a tool server of ours, beside a FastMCP server and
# kubernetes-mcp-server, in one run. Each answers tools/call with a small result from memory: ours verifies a token and writes an audit line for
# each call, the other two do neither. Needs wrk and what tests/services.sh installs.
. "$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests/cluster" && pwd)/lib.sh"
command -v wrk >/dev/null || { say "wrk is missing: apt-get install wrk"; exit 1; }
"$root/tests/services.sh"
cd "$root"
target=$(uname -m)-unknown-linux-gnu
RUSTFLAGS="-C target-feature=+crt-static" cargo build --quiet --release --locked --target "$target"
exec python3 benches/tools.py "target/$target/release/inquest" "$interop"
