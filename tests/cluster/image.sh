#!/usr/bin/env bash
# Builds the images from the Dockerfile and writes them as docker archives: image.sh FOLDER writes FOLDER/inquest.tar and
# FOLDER/inquest-workspace.tar. The binary is compiled here, static, and copied into an empty image, since no builder stage can be pulled on a
# machine without a registry.
. "$(dirname "$0")/lib.sh"
out=$(cd "$1" && pwd)
target=$(uname -m)-unknown-linux-gnu
cd "$root"
compile() { RUSTFLAGS="-C target-feature=+crt-static" cargo build --quiet --release --locked --target "$target"; }
programs() {
  local busybox name
  busybox=$(command -v busybox) || { say "busybox is missing: the workspace image holds it (apt-get install busybox-static)"; exit 1; }
  rm -rf dist/bin && mkdir -p dist/bin && cp "$busybox" dist/bin/busybox
  for name in ls cat head tail wc grep find du stat sort uniq date; do ln -s busybox "dist/bin/$name"; done
}
pack() { # Dockerfile target, image, archive
  rm -f "$3"
  if docker info >/dev/null 2>&1; then
    docker build --quiet --target "$1" -t "$2" . >/dev/null
    docker save -o "$3" "$2"
  else
    buildah --storage-driver vfs bud --quiet --isolation chroot --target "$1" -t "$2" . >/dev/null
    buildah --storage-driver vfs push --quiet "$2" "docker-archive:$3:$2"
  fi
  say "  image: $(du -h "$3" | cut -f1) ($2)"
}
timed "compile the binary" compile
mkdir -p dist
cp "target/$target/release/inquest" dist/inquest
programs
timed "pack the image" pack prebuilt ghcr.io/inquest-dev/inquest:0.1.0 "$out/inquest.tar"
timed "pack the workspace image" pack prebuilt-workspace ghcr.io/inquest-dev/inquest-workspace:0.1.0 "$out/inquest-workspace.tar"
