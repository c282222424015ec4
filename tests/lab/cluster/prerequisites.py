"""What real nodes need of the machine; a control plane alone needs nothing of it.

`lifecycle` asks before it makes a single file: one clear line for what is missing.
"""

import os
import sys

from pathlib import Path

from tests.lab.cluster.binaries import cache_folder
from tests.lab.cluster.cgroups import check_groups, hierarchies
from tests.lab.cluster.commands import find_program, succeeds
from tests.lab.cluster.errors import ClusterError, MissingError
from tests.lab.cluster.layout import Layout
from tests.lab.cluster.packages import missing_packages


BRIDGE_FILTER = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
# A node has its own in their place, so nothing that it needs may lie below them.
COVERED = ("/run", "/var/run", "/var/lib", "/var/log", "/sys", "/proc")


def check_machine(layout: Layout) -> None:
    """See whether real nodes can run here.

    Raises:
        MissingError: Something is missing; the text says how to get it.
        ClusterError: A folder lies where nodes cannot see it.
    """
    if os.geteuid():
        raise MissingError(
            "real nodes need root (namespaces, mounts, control groups): run as root, "
            "or use a control plane alone (--nodes 0)"
        )
    if missing := missing_packages():
        raise MissingError(
            f"missing: {', '.join(missing)}: install with "
            "`python -m tests.lab.cluster packages`"
        )
    check_groups(hierarchies())
    _check_kernel()
    _check_folders(layout)


def _check_kernel() -> None:
    """Load what the kernel may have as modules; ask for what stays missing."""
    if find_program("modprobe") is not None:
        succeeds("modprobe", "-a", "br_netfilter", "overlay", "nf_tables")
    if not BRIDGE_FILTER.exists():
        raise MissingError(
            "the kernel has no br_netfilter, which pods' Services need: "
            "load it with `modprobe br_netfilter`"
        )


def _check_folders(layout: Layout) -> None:
    """See that everything the nodes read lies where they can see it."""
    repository = Path(__file__).parents[3]
    for folder in (layout.root, repository, cache_folder(), Path(sys.prefix)):
        real = folder.resolve()
        for covered in COVERED:
            if real.is_relative_to(covered):
                raise ClusterError(
                    f"{real} lies below {covered}, which each node has its own of: "
                    "put it elsewhere"
                )
