"""The configuration of what runs on a node, for `node` to write.

JSON is YAML, so the kubelet and kube-proxy read it as it is.
"""

import json
import resource

from pathlib import Path

from tests.lab.cluster.layout import DNS_ADDRESS, POD_RANGE, Layout, Plan, node_pods


HOME = Path("/run/cluster")  # on the node's private /run
CNI = HOME / "cni"
RESOLV = HOME / "resolv.conf"
CONTAINERD = HOME / "containerd.toml"
KUBELET = HOME / "kubelet.json"
KUBE_PROXY = HOME / "kube-proxy.json"

# oom_score_adj: the pause containers ask for -998, which takes CAP_SYS_RESOURCE;
# not every root has it.
CONTAINERD_TOML = f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "lbcf.local/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{CNI}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
"""


def write_files(layout: Layout, plan: Plan, number: int) -> None:
    """Write all of it into the node's private folder."""
    CNI.mkdir(parents=True)
    RESOLV.write_text("search cluster.local\n")  # the cluster knows no other server
    CONTAINERD.write_text(CONTAINERD_TOML)
    (CNI / "10-cluster.conflist").write_text(json.dumps(_network(number)))
    KUBELET.write_text(json.dumps(_kubelet(layout, plan, number)))
    KUBE_PROXY.write_text(json.dumps(_kube_proxy(layout, plan)))


def _network(number: int) -> dict[str, object]:
    """The pods' network: a bridge, with ports of the host for pods that ask."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": node_pods(number)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": ipam,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "cluster", "plugins": [bridge, ports]}


def _own_oom_score() -> int:
    """This process's oom_score_adj, which cannot be lowered everywhere."""
    return int(Path("/proc/self/oom_score_adj").read_text())


def _kubelet(layout: Layout, plan: Plan, number: int) -> dict[str, object]:
    """The kubelet's configuration."""
    stem = layout.pki / f"kubelet-n{number}"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{stem}.crt",
        "tlsPrivateKeyFile": f"{stem}.key",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": str(RESOLV),
        # It checks the machine's parameters (see node.SYSCTLS), never sets them.
        "protectKernelDefaults": True,
        "failSwapOn": False,
        "nodeLeaseDurationSeconds": plan.options.lease,
        "oomScoreAdj": _own_oom_score(),
        "maxOpenFiles": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "makeIPTablesUtilChains": False,
        "imageGCHighThresholdPercent": 100,
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        "evictionHard": {
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
    }


def _kube_proxy(layout: Layout, plan: Plan) -> dict[str, object]:
    """The configuration of kube-proxy."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(layout.pki / "kube-proxy.kubeconfig")},
        "mode": plan.options.proxy_mode,
        "oomScoreAdj": _own_oom_score(),
        "clusterCIDR": POD_RANGE,
        "detectLocalMode": "ClusterCIDR",
        # 0 leaves the machine's own limits alone: they are not per namespace.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
