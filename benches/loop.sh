#!/usr/bin/env bash
# `make bench-loop`: what a step of the loop costs us (our time, not the model's), and what a run takes of memory. With INQUEST_BASELINE, a folder with a
# harness of the same name of flags (bench.sh --extra, a LangGraph agent, a mock model and tools), beside those in one run; INQUEST_BASELINE_ARGS are
# its own arguments. Without, against a mock model of our own and one tool in the process, which is less work: the figures are not comparable.
. "$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests/cluster" && pwd)/lib.sh"
cd "$root"
target=$(uname -m)-unknown-linux-gnu
RUSTFLAGS="-C target-feature=+crt-static" cargo bench --quiet --locked --target "$target" --bench loop --no-run
loop=$(find "$root/target/$target/release/deps" -name 'loop-*' -type f -executable -printf '%T@ %p\n' | sort -n | tail -1 | cut -d' ' -f2)
if [ -n "${INQUEST_BASELINE:-}" ]; then
  mkdir -p "$root/.work"
  extra=$root/.work/extra.json
  printf '{"agents":[{"name":"inquest","checkpoints":["memory","postgres"],"ms_per_step":0.5,"cmd":["%s","--n","{n}","--concurrency","{c}","--checkpoint","{checkpoint}","--llm-url","{llm}","--mcp-url","{mcp}","--token","{token}","--pg-dsn","{dsn}"]}]}' "$loop" >"$extra"
  read -ra more <<<"${INQUEST_BASELINE_ARGS:-}"
  exec "$INQUEST_BASELINE/bench.sh" --extra "$extra" "${more[@]}"
fi
trap 'kill $(jobs -p) 2>/dev/null' EXIT
"$loop" --mock 18101 & "$loop" --mock 18102 --latency-ms 1000 &
sleep 0.5
say "one after the other, the model answers at once"
"$loop" --n 200 --concurrency 1 --llm-url http://127.0.0.1:18101/v1
say "fifty at once"
"$loop" --n 1000 --concurrency 50 --llm-url http://127.0.0.1:18101/v1
say "five hundred at once, the model takes a second"
"$loop" --n 500 --concurrency 500 --llm-url http://127.0.0.1:18102/v1
