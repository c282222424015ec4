"""One node of a running cluster: what may happen to a machine, done to it.

`Cluster.node` returns a `Node`.
"""

import time

from pathlib import Path

import attrs

from tests.lab.cluster.commands import run
from tests.lab.cluster.errors import ClusterError
from tests.lab.cluster.inside import entry, node_init
from tests.lab.cluster.layout import Layout
from tests.lab.cluster.nodes import forget_services, link_name, route_to
from tests.lab.cluster.waiting import await_service, hold, release
from tests.patience import PATIENCE


@attrs.frozen
class Node:
    """A node by its number, 1 for `n1`; all calls block until they are done."""

    layout: Layout
    number: int

    @property
    def name(self) -> str:
        """Its name in Kubernetes."""
        return f"n{self.number}"

    def command(self, *argv: str | Path) -> list[str]:
        """A command line that runs `argv` in all of the node's namespaces."""
        return [*entry(self.layout, self.number), *(str(word) for word in argv)]

    def run(self, *argv: str | Path) -> str:
        """Run a command in the node and return what it printed.

        Raises:
            RuntimeError: It failed.
        """
        return run(*self.command(*argv))

    def power_off(self) -> None:
        """Take the node's power: its link goes first, then every process at once."""
        init = node_init(self.layout, self.number)
        if init is None:
            raise ClusterError(f"node {self.name} does not run")
        self._outside("ip", "link", "delete", link_name(self.number))
        hold(self.layout, self.name)
        end = time.monotonic() + PATIENCE
        while init.alive():
            if time.monotonic() > end:
                raise ClusterError(f"node {self.name} did not go off in {PATIENCE} s")
            time.sleep(0.02)
        forget_services(self.layout, self.number)

    def power_on(self) -> None:
        """Give it power again: an empty machine with the same name and address.

        Returns when its kubelet starts; until that has spoken, Kubernetes may still
        hold the node for the one that went off.
        """
        release(self.layout, self.name)
        if not (self.layout.holds / f"kubelet-{self.name}").exists():
            await_service(self.layout, f"kubelet-{self.name}", running=True)

    def cut(self) -> None:
        """Pull its network cable; its pods run on."""
        self._outside("ip", "link", "set", link_name(self.number), "down")

    def join(self) -> None:
        """Put its network cable in again."""
        self._outside("ip", "link", "set", link_name(self.number), "up")
        self._outside(*route_to(self.number))

    def hold(self, service: str) -> None:
        """Kill `kubelet`, `kube-proxy` or `containerd` and keep it down."""
        hold(self.layout, f"{service}-{self.name}")

    def release(self, service: str) -> None:
        """Let a held service start again."""
        release(self.layout, f"{service}-{self.name}")

    def load(self, archive: Path) -> None:
        """Import an image archive."""
        self.run("ctr", "-n", "k8s.io", "images", "import", archive)

    def _outside(self, *argv: str) -> None:
        """Run a command in the cluster's network, outside the node."""
        try:
            run(*entry(self.layout, None), *argv)
        except RuntimeError as error:
            raise ClusterError(f"node {self.name}: {error}") from error
