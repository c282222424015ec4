"""Control groups of nodes, on a machine with cgroup v1.

Each node gets a group of its own in every hierarchy, below the group that the
cluster itself runs in, and sees it as the root: `nodes` makes them before a node
starts, `node` mounts them, `remove_groups` cleans up after the last process.
"""

import contextlib
import os
import time

from collections.abc import Iterable
from pathlib import Path

import attrs

from tests.lab.cluster.errors import MissingError
from tests.lab.cluster.layout import Layout
from tests.patience import PATIENCE


# What the kubelet wants; `name=systemd` too, whether systemd runs or not.
NEEDED = {"blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"}


@attrs.frozen
class Hierarchy:
    """One mounted v1 hierarchy.

    Attributes:
        controllers: Its controllers as the kernel writes them: `cpu,cpuacct`.
        mount: Where it is mounted.
        own: The group of this process, relative to the mount.
    """

    controllers: str
    mount: Path
    own: str

    @property
    def folder(self) -> str:
        """The usual name of its mount point."""
        return self.controllers.removeprefix("name=")

    @property
    def option(self) -> str:
        """The mount option that names it."""
        named = self.controllers.startswith("name=")
        return f"none,{self.controllers}" if named else self.controllers


def hierarchies() -> list[Hierarchy]:
    """The v1 hierarchies that are in use on this machine."""
    mounts = _mounts()
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        mount = mounts.get(frozenset(controllers.split(",")))
        if controllers and mount is not None:
            found.append(Hierarchy(controllers, mount, own.strip("/")))
    return found


def _mounts() -> dict[frozenset[str], Path]:
    """Mount points of v1 hierarchies by their controllers."""
    found: dict[frozenset[str], Path] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ", 1)
        kind, _, options = right.split(" ", 2)
        if kind == "cgroup":
            controllers = frozenset(options.split(",")) - {"rw", "ro", "xattr"}
            found.setdefault(controllers, Path(left.split()[4]))
    return found


def check_groups(found: Iterable[Hierarchy]) -> None:
    """See whether nodes can have their control groups in these hierarchies.

    Raises:
        MissingError: They cannot.
    """
    have = {name for each in found for name in each.controllers.split(",")}
    if lacking := sorted(NEEDED - have):
        raise MissingError(
            f"real nodes need cgroup v1, and {', '.join(lacking)} are not there: boot "
            "with systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_"
            "controller, or use a control plane alone (--nodes 0)"
        )


def make_groups(layout: Layout, name: str) -> list[Path]:
    """Make a group of this name in every hierarchy; returns their folders."""
    made = []
    for each in hierarchies():
        group = each.mount / each.own / name
        group.mkdir(exist_ok=True)
        if "cpuset" in each.controllers.split(","):
            # A new group has neither cores nor memory, and takes no process then.
            for file in ("cpuset.cpus", "cpuset.mems"):
                (group / file).write_text((group.parent / file).read_text())
        made.append(group)
    with _list(layout).open("a") as stream:
        stream.writelines(f"{group}\n" for group in made)
    return made


def _list(layout: Layout) -> Path:
    """The file that names every group made for a cluster."""
    return layout.root / "cgroups"


def remove_groups(layout: Layout) -> list[Path]:
    """Remove every group made for a cluster; returns those that would not go."""
    if not _list(layout).exists():
        return []
    groups = [Path(line) for line in set(_list(layout).read_text().splitlines())]
    end = time.monotonic() + PATIENCE
    for group in groups:
        while group.exists() and time.monotonic() < end:
            _remove(group)
            time.sleep(0.02)
    left = [group for group in groups if group.exists()]
    if not left:
        _list(layout).unlink()
    return left


def _remove(group: Path) -> None:
    """Remove a group and those below it, as far as no process is in them."""
    for folder, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
