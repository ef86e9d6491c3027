#!/usr/bin/env bash
# Builds what the node is made of out of the Go module proxy and Debian's packages: binaries into the cache, each under its version, and
# images. What is there is not built again.
. "$(dirname "$0")/lib.sh"
modules=$cache/mod
export CGO_ENABLED=0 GOFLAGS=-mod=mod

packages() {
  local wanted=() package
  for package in containerd runc containernetworking-plugins iptables ipset busybox-static conntrack openssl buildah iproute2 procps gcc libc6-dev python3 prometheus; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || wanted+=("$package")
  done
  command -v kubectl >/dev/null || wanted+=(kubernetes-client)
  [ ${#wanted[@]} -eq 0 ] && return
  [ "$(id -u)" = 0 ] || { say "the node needs root, and the Debian packages: ${wanted[*]}"; exit 1; }
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >/dev/null
  apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null
}

# Runs a command in a folder; what it prints is shown only when it fails.
quietly() { # folder, command...
  local folder=$1; shift
  (cd "$folder" && "$@" >get.log 2>&1) || { cat "$folder/get.log" >&2; exit 1; }
}
# A module of its own for each project, so that their dependencies do not meet.
module() { # folder, go version
  mkdir -p "$modules/$1"
  [ -f "$modules/$1/go.mod" ] || printf 'module localhost/%s\n\ngo %s\n' "$1" "$2" >"$modules/$1/go.mod"
}
build() { # folder, output, version, package, ldflags
  local out=$bin/$2-$3
  if [ ! -x "$out" ]; then
    (cd "$modules/$1" && go build -trimpath -ldflags "-s -w ${5:-}" -o "$out.part" "$4")
    mv "$out.part" "$out"
  fi
  ln -sf "$2-$3" "$bin/$2"
}
get() { # folder, output, version, package, go version
  [ -x "$bin/$2-$3" ] && { ln -sf "$2-$3" "$bin/$2"; return; }
  module "$1" "$5"
  quietly "$modules/$1" go get -tool "$4@v$3"
  build "$1" "$2" "$3" "$4"
}

kubernetes() {
  local version=k8s.io/component-base/version command missing=0
  for command in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy; do
    [ -x "$bin/$command-$kubernetes" ] || missing=1
  done
  if [ $missing = 1 ] && [ ! -f "$modules/kubernetes/go.mod" ]; then
    local source
    source=$(cd "$cache" && go mod download -json "k8s.io/kubernetes@v$kubernetes" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
    mkdir -p "$modules/kubernetes"
    {
      # k8s.io/kubernetes replaces each staging module by a folder; here each is replaced by what was published of it.
      printf 'module localhost/kubernetes\n\ngo 1.25.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$kubernetes"
      grep -oE 'k8s.io/[a-z-]+ => ./staging' "$source/go.mod" | awk -v v="0.${kubernetes#1.}" '{print "\t" $1 " => " $1 " v" v}'
      printf ')\n\ntool (\n'
      printf '\tk8s.io/kubernetes/cmd/%s\n' kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy
      printf ')\n'
    } >"$modules/kubernetes/go.mod.part"
    mv "$modules/kubernetes/go.mod.part" "$modules/kubernetes/go.mod"
    quietly "$modules/kubernetes" go mod tidy
  fi
  for command in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy; do
    timed "$command" build kubernetes $command $kubernetes k8s.io/kubernetes/cmd/$command \
      "-X $version.gitVersion=v$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=${kubernetes:2:2} -X $version.gitTreeState=clean"
  done
}

image() { # name, root folder, file, entrypoint...
  [ -f "$images/$3" ] || python3 "$here/mkimage.py" "$1" "$2" "$images/$3" "${@:4}"
}
base_images() {
  local roots=$images/roots
  mkdir -p "$roots"/{pause,coredns,busybox/{bin,tmp,etc}}
  if [ ! -f "$images/pause.tar" ]; then
    printf '#include <unistd.h>\nint main(void){for(;;)pause();}\n' | gcc -static -O2 -x c -o "$roots/pause/pause" -
  fi
  image localhost/pause:1 "$roots/pause" pause.tar /pause
  [ -f "$images/coredns-$coredns.tar" ] || cp "$bin/coredns-$coredns" "$roots/coredns/coredns"
  image localhost/coredns:1 "$roots/coredns" coredns-$coredns.tar /coredns
  # Debian's static busybox under the name that the manifests use, since no registry can be reached.
  if [ ! -f "$images/busybox.tar" ] || [ ! -f "$images/.named" ]; then
    rm -f "$images/busybox.tar" "$images/coredns.tar"
    cp /bin/busybox "$roots/busybox/bin/"
    for applet in $(/bin/busybox --list); do [ "$applet" = busybox ] || ln -sf busybox "$roots/busybox/bin/$applet"; done
    touch "$images/.named"
  fi
  image docker.io/library/busybox:1.36 "$roots/busybox" busybox.tar sh
  if [ ! -f "$images/prometheus.tar" ]; then
    # Debian's Prometheus, with the libraries that it is linked to.
    mkdir -p "$roots/prometheus/tmp"
    { echo /usr/bin/prometheus; ldd /usr/bin/prometheus | grep -o '/[^ ]*'; } | while read -r file; do cp -L --parents "$file" "$roots/prometheus"; done
  fi
  image localhost/prometheus:1 "$roots/prometheus" prometheus.tar /usr/bin/prometheus
}

say "building the node's parts (only what is missing)"
timed packages packages
kubernetes
timed etcd get etcd etcd $etcd go.etcd.io/etcd/server/v3 1.25.0
timed coredns get coredns coredns $coredns github.com/coredns/coredns 1.25.0
timed kube-router get router kube-router $router github.com/cloudnativelabs/kube-router/v2/cmd/kube-router 1.25.0
timed helm get helm helm $helm helm.sh/helm/v4/cmd/helm 1.26.0
timed images base_images
