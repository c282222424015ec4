"""PID 1 of one node: `python -m tests.lab.cluster.node DIR NUMBER`.

`nodes` starts it in namespaces of its own (processes, mounts, network, control
groups). It makes these look like a machine of its own, then keeps containerd, the
kubelet and kube-proxy running. All that they write is in memory and goes with them.
"""

import socket
import sys

from itertools import chain
from pathlib import Path

from tests.lab.cluster import node_files
from tests.lab.cluster.cgroups import Hierarchy, hierarchies
from tests.lab.cluster.commands import mount_tmpfs, run, set_kernel, succeeds
from tests.lab.cluster.layout import (
    CONTROL_PLANE_ADDRESS,
    Layout,
    Plan,
    node_address,
    node_pods,
)
from tests.lab.cluster.services import Service, Supervisor
from tests.lab.cluster.supervisor import api_ready


# Parameters of the whole machine that the kubelet would set: it is shown the
# settings it wants instead, by files mounted over them.
SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
SYSTEMD = Hierarchy("name=systemd", Path(), "")


def main() -> None:
    """Run a node until it is killed."""
    layout, number = Layout(Path(sys.argv[1])), int(sys.argv[2])
    plan = Plan.load(layout)
    socket.sethostname(f"n{number}")
    _mount_all()
    _connect(plan, number)
    node_files.write_files(layout, plan, number)
    supervisor = Supervisor(layout)
    containerd, *others = _services(layout, plan, number)
    supervisor.add(containerd)
    supervisor.run_until(lambda: succeeds("ctr", "version"))
    _import_images(layout, plan)
    supervisor.run_until(lambda: api_ready(layout, plan))
    for service in others:
        supervisor.add(service)
    supervisor.run()


def _mount_all() -> None:
    """Give the node its own /sys, control groups, /run, /var/lib and /var/log."""
    used = hierarchies()  # read before the machine's mounts are covered
    # Shared among the node's containers, as on a machine; the cluster's mounts
    # above are private, so nothing leaves.
    run("mount", "--make-rshared", "/")
    run("mount", "-t", "sysfs", "sysfs", "/sys")
    _mount_groups(used)
    mount_tmpfs(Path("/run"))
    mount_tmpfs(Path("/var/lib"), size="8g")
    mount_tmpfs(Path("/var/log"))
    for path in ("/run/netns", "/var/lib/kubelet", "/var/log/pods"):
        Path(path).mkdir()
    node_files.HOME.mkdir()
    for name, setting in SYSCTLS.items():
        shown = node_files.HOME / f"sysctl.{name.replace('/', '.')}"
        shown.write_text(f"{setting}\n")
        run("mount", "--bind", shown, f"/proc/sys/{name}")


def _mount_groups(used: list[Hierarchy]) -> None:
    """Mount every hierarchy anew: its root is this node's own group."""
    root = Path("/sys/fs/cgroup")
    mount_tmpfs(root)
    # The kubelet insists on the named hierarchy too; nothing of systemd runs.
    if not any(each.controllers == SYSTEMD.controllers for each in used):
        used = [*used, SYSTEMD]
    for each in used:
        folder = root / each.folder
        folder.mkdir()
        run("mount", "-t", "cgroup", "-o", each.option, "cgroup", folder)
        for name in each.folder.split(","):
            if name != each.folder:
                (root / name).symlink_to(each.folder)


def _connect(plan: Plan, number: int) -> None:
    """Set the node's network up: address, routes, forwarding."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "addr", "add", f"{node_address(number)}/24", "dev", "eth0")
    run("ip", "link", "set", "eth0", "up")
    run("ip", "route", "add", "default", "via", CONTROL_PLANE_ADDRESS)
    for other in set(range(1, plan.options.nodes + 1)) - {number}:
        run("ip", "route", "add", node_pods(other), "via", node_address(other))
    set_kernel("net/ipv4/ip_forward", 1)
    # Or an answer between two pods of one node would miss the Service's address
    # translation.
    set_kernel("net/bridge/bridge-nf-call-iptables", 1)


def _import_images(layout: Layout, plan: Plan) -> None:
    """Bring all images to containerd, those that were loaded later too."""
    archives = chain(Path(plan.images).glob("*.tar"), layout.images.glob("*.tar"))
    for archive in sorted(archives):
        run("ctr", "-n", "k8s.io", "images", "import", archive)


def _services(layout: Layout, plan: Plan, number: int) -> list[Service]:
    """The services of a node: containerd, the kubelet and kube-proxy."""
    node = f"n{number}"
    containerd = ("containerd", "--config", str(node_files.CONTAINERD))
    kubelet = (
        plan.binary("kubelet"),
        f"--config={node_files.KUBELET}",
        f"--kubeconfig={layout.pki / f'kubelet-{node}.kubeconfig'}",
        f"--hostname-override={node}",
        f"--node-ip={node_address(number)}",
        *plan.options.kubelet_flags,
    )
    kube_proxy = (
        plan.binary("kube-proxy"),
        f"--config={node_files.KUBE_PROXY}",
        f"--hostname-override={node}",
    )
    return [
        Service(f"containerd-{node}", containerd),
        Service(f"kubelet-{node}", kubelet),
        Service(f"kube-proxy-{node}", kube_proxy),
    ]


if __name__ == "__main__":
    main()
