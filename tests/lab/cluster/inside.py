"""The way from the machine into a cluster's namespaces.

`api` asks for the words that go before a command line; nothing is mounted or named
on the machine for it: the way leads through the pids of the first processes inside.
"""

from pathlib import Path

from tests.lab.cluster.errors import ClusterError
from tests.lab.cluster.layout import Layout
from tests.lab.cluster.pids import Pid, children


def entry(layout: Layout, node: int | None) -> list[str]:
    """The words that run a command in the cluster's network, or all in a node.

    Raises:
        ClusterError: The cluster or the node does not run.
    """
    if node is None:
        return ["nsenter", f"--target={cluster_init(layout).number}", "--net", "--"]
    init = node_init(layout, node)
    if init is None:
        raise ClusterError(f"node n{node} does not run (no such node, or powered off)")
    spaces = ["--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup"]
    return ["nsenter", f"--target={init.number}", *spaces, "--"]


def cluster_init(layout: Layout) -> Pid:
    """PID 1 of the cluster's namespaces, as the machine counts.

    Raises:
        ClusterError: It does not run.
    """
    unshare = Pid.read(layout.supervisor)
    if unshare is not None and unshare.alive():
        for number in children(unshare.number):
            if (init := Pid.of(number)) is not None:
                return init
    raise ClusterError(f"the cluster in {layout.root} does not run")


def node_init(layout: Layout, node: int) -> Pid | None:
    """PID 1 of a node, as the machine counts, or None when it does not run.

    Raises:
        ClusterError: The cluster does not run.
    """
    written = Pid.read(layout.pids / f"n{node}")
    if written is None:
        return None
    for unshare in children(cluster_init(layout).number):
        if _number_inside(unshare) == written.number:
            for number in children(unshare):
                return Pid.of(number)
    return None


def _number_inside(number: int) -> int | None:
    """The pid of a process as the cluster's own namespace counts."""
    try:
        status = Path(f"/proc/{number}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    (line,) = (line for line in status.splitlines() if line.startswith("NSpid:"))
    numbers = line.split()[1:]
    return int(numbers[1]) if len(numbers) > 1 else None
