#!/usr/bin/env bash
# Builds the image from the Dockerfile and writes it as a docker archive: image.sh FILE. The binary is compiled here, static, and copied
# into an empty image, since no builder stage can be pulled on a machine without a registry.
. "$(dirname "$0")/lib.sh"
out=$1
target=$(uname -m)-unknown-linux-gnu
cd "$root"
compile() { RUSTFLAGS="-C target-feature=+crt-static" cargo build --quiet --release --locked --target "$target"; }
pack() {
  mkdir -p dist
  cp "target/$target/release/inquest" dist/inquest
  rm -f "$out"
  if docker info >/dev/null 2>&1; then
    docker build --quiet --target prebuilt -t ghcr.io/inquest-dev/inquest:0.1.0 . >/dev/null
    docker save -o "$out" ghcr.io/inquest-dev/inquest:0.1.0
  else
    buildah --storage-driver vfs bud --quiet --isolation chroot --target prebuilt -t ghcr.io/inquest-dev/inquest:0.1.0 . >/dev/null
    buildah --storage-driver vfs push --quiet ghcr.io/inquest-dev/inquest:0.1.0 "docker-archive:$out:ghcr.io/inquest-dev/inquest:0.1.0"
  fi
}
timed "compile the binary" compile
timed "pack the image" pack
say "  image: $(du -h "$out" | cut -f1) ($out)"
