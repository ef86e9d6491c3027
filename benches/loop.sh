#!/usr/bin/env bash
# `make bench-loop`: what a step of the loop costs us (our time, not the model's), and what a run takes of memory. With INQUEST_BASELINE, a folder with a
# LangGraph agent (agent_langgraph.py, venv), a mock model, a mock tool server (bin/mock_openai, bin/mock_mcp) and a PostgreSQL (pg.sh), beside that agent, in turn,
# against the same model and tools. Without, against a mock model of our own and one tool in the process: less work, and not to be compared. ROUNDS is 3.
. "$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests/cluster" && pwd)/lib.sh"
cd "$root"
target=$(uname -m)-unknown-linux-gnu
RUSTFLAGS="-C target-feature=+crt-static" cargo bench --quiet --locked --target "$target" --bench loop --no-run
loop=$(find "$root/target/$target/release/deps" -name 'loop-*' -type f -executable -printf '%T@ %p\n' | sort -n | tail -1 | cut -d' ' -f2)
exec python3 benches/loop.py "$loop" "${INQUEST_BASELINE:-}"
