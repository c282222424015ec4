"""The cluster's own network and its nodes, seen from the cluster's namespaces.

`supervisor` sets the network up when there are nodes, and runs each node as one
more service: `node` in namespaces of its own. A node that is held is powered off.

    machine
     └ the cluster's namespaces   bridge 198.18.0.1: etcd, API server, controllers
        ├ node n1                 eth0 198.18.0.11, pods 198.19.1.0/24
        └ node n2                 eth0 198.18.0.12, pods 198.19.2.0/24

The cluster's network has no uplink: nothing in it reaches anything outside.
"""

import hashlib
import socket
import sys

from functools import partial
from pathlib import Path

from tests.lab.cluster.cgroups import hierarchies, make_groups
from tests.lab.cluster.commands import mount_tmpfs, run, set_kernel, succeeds
from tests.lab.cluster.layout import (
    CONTROL_PLANE_ADDRESS,
    Layout,
    Plan,
    node_address,
    node_pods,
)
from tests.lab.cluster.services import Service


BRIDGE = "cluster0"
# Moves itself into the groups before `--`, then becomes what follows: the control
# group namespace made next has these groups for its roots.
ENTER = (
    'while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs"; shift; done; shift; exec "$@"'
)


def make_network() -> None:
    """Set up the cluster's namespaces: private mounts, a bridge, forwarding."""
    run("mount", "--make-rprivate", "/")
    mount_tmpfs(Path("/run"))
    Path("/run/netns").mkdir()
    socket.sethostname("cluster")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "addr", "add", f"{CONTROL_PLANE_ADDRESS}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    set_kernel("net/ipv4/ip_forward", 1)
    # The bridge is to be a plain switch; the parameter belongs to the namespace.
    set_kernel("net/bridge/bridge-nf-call-iptables", 0)


def group_name(layout: Layout, number: int) -> str:
    """The name of a node's control groups: unique to the cluster's folder."""
    mark = hashlib.sha256(str(layout.root).encode()).hexdigest()[:8]
    return f"lbcf-{mark}-n{number}"


def node_services(layout: Layout, plan: Plan) -> list[Service]:
    """All nodes as services."""
    return [
        _node_service(layout, number) for number in range(1, plan.options.nodes + 1)
    ]


def _node_service(layout: Layout, number: int) -> Service:
    """One node as a service."""
    name = f"n{number}"
    own = group_name(layout, number)
    groups = [str(each.mount / each.own / own) for each in hierarchies()]
    spaces = ["--mount", "--pid", "--uts", "--ipc", "--cgroup", "--mount-proc"]
    argv = ["sh", "-c", ENTER, "sh", *groups, "--"]
    argv += ["nsenter", f"--net=/run/netns/{name}", "--"]
    argv += ["unshare", *spaces, "--fork", "--kill-child", "--"]
    argv += [
        sys.executable,
        "-m",
        "tests.lab.cluster.node",
        str(layout.root),
        str(number),
    ]
    return Service(name, tuple(argv), partial(_prepare, layout, number))


def _prepare(layout: Layout, number: int) -> None:
    """Make a node's control groups and network, anew at each power-on."""
    make_groups(layout, group_name(layout, number))
    name, link = f"n{number}", link_name(number)
    forget_services(layout, number)
    succeeds("ip", "link", "delete", link)
    succeeds("ip", "netns", "delete", name)
    run("ip", "netns", "add", name)
    run("ip", "link", "add", link, "type", "veth", "peer", "eth0", "netns", name)
    run("ip", "link", "set", link, "master", BRIDGE, "up")
    run(*route_to(number))


def forget_services(layout: Layout, number: int) -> None:
    """Remove what the services of a node that went off left in `pids/`."""
    for path in layout.pids.glob(f"*-n{number}"):
        path.unlink(missing_ok=True)


def link_name(number: int) -> str:
    """The cluster's end of the cable to a node."""
    return f"veth-n{number}"


def route_to(number: int) -> list[str]:
    """The command that makes a node's pods reachable; a link down forgets it."""
    through = node_address(number)
    return ["ip", "route", "replace", node_pods(number), "via", through]
