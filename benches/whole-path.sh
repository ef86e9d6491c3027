#!/usr/bin/env bash
# `make bench`: brings up the demo and measures the whole path in it.
. "$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests/cluster" && pwd)/lib.sh"
"$root/k3d/demo.sh" >/dev/null
. "$root/.work/env"
cd "$root"
echo "image: $(du -m .work/inquest.tar | cut -f1) MB"
# The same flags and target as the image, so that nothing is compiled twice.
RUSTFLAGS="-C target-feature=+crt-static" cargo bench --quiet --locked --target "$(uname -m)-unknown-linux-gnu" --bench whole-path
