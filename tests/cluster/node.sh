#!/usr/bin/env bash
# node.sh up|down|running|env|load FILE...: a real one-node Kubernetes on this machine, without docker and without a registry. Its whole state
# is under the cache folder; it starts and stops only what it started itself, by recorded process id. Nothing of it leaves the machine.
. "$(dirname "$0")/lib.sh"
action=${1:-}
address=10.113.0.1 pods=10.113.0.0/16 services=10.112.0.0/16 bridge=inq0
socket=$run/containerd/containerd.sock

# A process id comes round again: with the time of its start it is this process and no other. One that ended and was not waited for is none.
started() { awk '$3 != "Z" {print $22}' "/proc/$1/stat" 2>/dev/null || true; }
alive() { # name
  local pid at
  [ -f "$run/pids/$1" ] && read -r pid at <"$run/pids/$1" && [ -n "$at" ] && [ "$(started "$pid")" = "$at" ]
}
start() { # name, command...
  local name=$1; shift
  alive "$name" && return
  setsid nohup "$@" >"$run/log/$name.log" 2>&1 </dev/null &
  printf '%s %s\n' $! "$(started $!)" >"$run/pids/$name"
}
until_ok() { # seconds, command...
  local end=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { echo "gave up waiting for: $*; logs are in $run/log" >&2; exit 1; }
    sleep 0.3
  done
}
certificate() { # name, subject, subjectAltName
  openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2" 2>/dev/null
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -out "$1.crt" \
    -extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth' "$3") 2>/dev/null
}
kubeconfig() { # name
  kubectl config --kubeconfig="$1.conf" set-cluster node --server=https://$address:6443 --certificate-authority=ca.crt --embed-certs
  kubectl config --kubeconfig="$1.conf" set-credentials "$1" --client-certificate="$1.crt" --client-key="$1.key" --embed-certs
  kubectl config --kubeconfig="$1.conf" set-context node --cluster=node --user="$1"
  kubectl config --kubeconfig="$1.conf" use-context node
}

load() { # docker-archive files
  local image
  for image in "$@"; do ctr -a "$socket" -n k8s.io images import "$image" >/dev/null; done
}

up() {
  local from=$SECONDS
  # A node that was cut off leaves its bridge, mounts and pods behind: each start begins with none.
  alive apiserver || { down; rm -rf "$run"/{etcd,cni,containerd,kubelet,pids}; }
  mkdir -p "$run"/{pki,log,etcd,cni/net.d,containerd,kubelet,pids}
  ip link show $bridge >/dev/null 2>&1 || ip link add $bridge type bridge
  ip addr replace $address/16 dev $bridge
  ip link set $bridge up
  # Nothing of this cluster leaves the machine: Service addresses stay on the bridge, pods reach no outside address.
  ip route replace $services dev $bridge
  iptables -C FORWARD -i $bridge ! -o $bridge -j REJECT 2>/dev/null || iptables -I FORWARD 1 -i $bridge ! -o $bridge -j REJECT
  sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1 2>/dev/null || true
  cd "$run/pki"
  if [ ! -f kubelet.conf ]; then
    openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 365 -subj /CN=node-ca 2>/dev/null
    certificate apiserver /CN=kube-apiserver "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,DNS:localhost,IP:127.0.0.1,IP:$address,IP:10.112.0.1"
    certificate admin /O=system:masters/CN=admin DNS:admin
    certificate controller-manager /CN=system:kube-controller-manager DNS:controller-manager
    certificate scheduler /CN=system:kube-scheduler DNS:scheduler
    certificate proxy /CN=system:kube-proxy DNS:proxy
    certificate kubelet /O=system:nodes/CN=system:node:node-1 "DNS:node-1,IP:$address"
    openssl genrsa -out sa.key 2048 2>/dev/null && openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
    for user in admin controller-manager scheduler proxy kubelet; do kubeconfig $user >/dev/null; done
  fi
  cd "$run"
  start etcd "$bin/etcd" --data-dir "$run/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls http://127.0.0.1:23790 --advertise-client-urls http://127.0.0.1:23790 \
    --listen-peer-urls http://127.0.0.1:23800 --initial-advertise-peer-urls http://127.0.0.1:23800 --initial-cluster default=http://127.0.0.1:23800
  start apiserver "$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:23790 --bind-address=$address --advertise-address=$address --secure-port=6443 \
    --tls-cert-file=pki/apiserver.crt --tls-private-key-file=pki/apiserver.key --client-ca-file=pki/ca.crt \
    --kubelet-client-certificate=pki/admin.crt --kubelet-client-key=pki/admin.key --kubelet-certificate-authority=pki/ca.crt \
    --kubelet-preferred-address-types=InternalIP \
    --service-account-key-file=pki/sa.pub --service-account-signing-key-file=pki/sa.key \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local --service-cluster-ip-range=$services \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true --endpoint-reconciler-type=lease
  until_ok 60 kubectl --kubeconfig pki/admin.conf get --raw /readyz
  start controller-manager "$bin/kube-controller-manager" --kubeconfig=pki/controller-manager.conf --use-service-account-credentials \
    --service-account-private-key-file=pki/sa.key --root-ca-file=pki/ca.crt \
    --cluster-signing-cert-file=pki/ca.crt --cluster-signing-key-file=pki/ca.key --leader-elect=false --bind-address=127.0.0.1
  start scheduler "$bin/kube-scheduler" --kubeconfig=pki/scheduler.conf --leader-elect=false --bind-address=127.0.0.1
  cat >cni/net.d/10-bridge.conflist <<CNI
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "$bridge", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$run/cni/data", "ranges": [[{"subnet": "$pods"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
CNI
  cat >containerd/config.toml <<TOML
version = 2
root = "$run/containerd/root"
state = "$run/containerd/state"
[grpc]
  address = "$socket"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$run/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
TOML
  start containerd containerd -c containerd/config.toml
  until_ok 30 ctr -a "$socket" version
  load "$images"/*.tar
  cat >kubelet/config.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $address
readOnlyPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $run/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $run/pki/kubelet.crt
tlsPrivateKeyFile: $run/pki/kubelet.key
cgroupDriver: cgroupfs
failSwapOn: false
containerRuntimeEndpoint: unix://$socket
clusterDNS: [10.112.0.10]
clusterDomain: cluster.local
resolvConf: ""
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi}
syncFrequency: 10s
YAML
  # Its cAdvisor asks containerd for the names of containers, by a flag of its own.
  start kubelet "$bin/kubelet" --config=kubelet/config.yaml --kubeconfig=pki/kubelet.conf --hostname-override=node-1 \
    --node-ip=$address --root-dir="$run/kubelet/root" --cert-dir="$run/kubelet/pki" --containerd="$socket"
  start kube-proxy "$bin/kube-proxy" --kubeconfig=pki/proxy.conf --hostname-override=node-1 --cluster-cidr=$pods --proxy-mode=iptables \
    --conntrack-max-per-core=0 --healthz-bind-address=127.0.0.1:10256 --metrics-bind-address=127.0.0.1:10249
  start kube-router "$bin/kube-router" --kubeconfig=pki/admin.conf --run-firewall=true --run-router=false --run-service-proxy=false \
    --hostname-override=node-1 --service-cluster-ip-range=$services --health-port=0 --iptables-sync-period=30s
  export KUBECONFIG=$run/pki/admin.conf
  until_ok 60 kubectl wait --for=condition=Ready node/node-1 --timeout=5s
  kubectl apply -f "$here/coredns.yaml" >/dev/null
  kubectl -n kube-system rollout status deployment/coredns --timeout=60s >/dev/null
  say "  node ready: $((SECONDS - from)) s"
}

down() {
  stop() { # name: ask, wait for ten seconds, then kill
    if alive "$1"; then
      local pid; read -r pid _ <"$run/pids/$1"
      kill "$pid" 2>/dev/null || true
      for _ in $(seq 50); do alive "$1" || break; sleep 0.2; done
      if alive "$1"; then kill -9 "$pid"; fi
    fi
    rm -f "$run/pids/$1"
  }
  stop kubelet; stop kube-proxy; stop kube-router
  for task in $(ctr -a "$socket" -n k8s.io tasks ls -q 2>/dev/null); do
    ctr -a "$socket" -n k8s.io tasks kill -s SIGKILL "$task" 2>/dev/null || true
  done
  sleep 1
  for task in $(ctr -a "$socket" -n k8s.io containers ls -q 2>/dev/null); do
    ctr -a "$socket" -n k8s.io tasks delete "$task" >/dev/null 2>&1 || true
    ctr -a "$socket" -n k8s.io containers delete "$task" 2>/dev/null || true
  done
  stop scheduler; stop controller-manager; stop apiserver; stop etcd; stop containerd
  pkill -9 -f "containerd-shim.* -address $socket" || true
  sleep 1
  { grep -o " $run/[^ ]*" /proc/mounts || true; } | sort -r | while read -r mount; do umount "$mount" 2>/dev/null || true; done
  iptables -D FORWARD -i $bridge ! -o $bridge -j REJECT 2>/dev/null || true
  ip link del $bridge 2>/dev/null || true
  for table in nat filter mangle; do
    iptables-save -t $table 2>/dev/null | grep -vE 'KUBE-|CNI-' | iptables-restore -T $table 2>/dev/null || true
  done
}

case $action in
  up) "$here/build.sh"; up ;;
  down) timed "node down" down ;;
  load) shift; load "$@" ;;
  running) alive apiserver ;;
  env) echo "$run/pki/admin.conf" ;;
  *) say "usage: node.sh up|down|running|env|load FILE..."; exit 2 ;;
esac
