"""A running cluster as tests and the demo see it: `Cluster`.

`lifecycle.up` returns one, `Cluster.attach` finds one that runs already.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import attrs

from tests.lab.cluster.audit import AuditEvent, read_audit
from tests.lab.cluster.cgroups import remove_groups
from tests.lab.cluster.commands import environment
from tests.lab.cluster.credentials import MASTERS, user_kubeconfig
from tests.lab.cluster.errors import ClusterError, KubectlError
from tests.lab.cluster.inside import entry, node_init
from tests.lab.cluster.layout import Layout, Plan
from tests.lab.cluster.machines import Node
from tests.lab.cluster.pids import Pid, children
from tests.lab.cluster.waiting import hold, release, running_services
from tests.patience import PATIENCE


@attrs.frozen
class Cluster:
    """A cluster that runs in the background; all calls block until they are done."""

    layout: Layout
    plan: Plan

    @classmethod
    def attach(cls, directory: Path | str) -> Self:
        """The cluster that runs in a folder.

        Raises:
            ClusterError: There is none, or it does not run.
        """
        layout = Layout(Path(directory).absolute())
        plan = Plan.load(layout)
        supervisor = Pid.read(layout.supervisor)
        if supervisor is None or not supervisor.alive():
            raise ClusterError(
                f"the cluster in {layout.root} does not run: "
                f"start it with `python -m tests.lab.cluster up --dir {layout.root}`"
            )
        return cls(layout, plan)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.layout.kubeconfig

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self.plan.server

    @property
    def audit_log(self) -> Path:
        """The audit log: a JSON event per line, one per request."""
        return self.layout.audit_log

    def kubeconfig_for(self, user: str, groups: Iterable[str] = (MASTERS,)) -> Path:
        """A new kubeconfig for a user; the audit log tells users apart."""
        return user_kubeconfig(self.layout, self.plan, user, groups)

    def audit(self, user: str | None = None) -> list[AuditEvent]:
        """The requests so far, of one user if one is named."""
        return read_audit(self.audit_log, user)

    def environment(self) -> dict[str, str]:
        """This environment with KUBECONFIG set and the binaries first on PATH."""
        own = environment()
        path = f"{self.plan.binaries}:{own['PATH']}"
        return {**own, "KUBECONFIG": str(self.kubeconfig), "PATH": path}

    def command(self, *argv: str | Path, node: int | None = None) -> list[str]:
        """A command line that runs `argv` in the cluster's network, or in a node."""
        return [*self._entry(node), *(str(word) for word in argv)]

    def _entry(self, node: int | None) -> list[str]:
        """What goes before a command line to run it where the cluster is."""
        if node is None and not self.plan.options.nodes:
            return []
        return entry(self.layout, node)

    def kubectl(
        self,
        *args: str | Path,
        stdin: str | None = None,
        kubeconfig: Path | None = None,
    ) -> str:
        """What kubectl prints.

        Args:
            args: Its arguments.
            stdin: Its input, for `apply -f -`.
            kubeconfig: Whose kubeconfig; the administrator's by default.

        Raises:
            KubectlError: It ended with an exit code other than 0.
        """
        login = {"KUBECONFIG": str(kubeconfig or self.kubeconfig)}
        done = subprocess.run(
            self.command(self.plan.binary("kubectl"), *args),
            input=stdin or "",
            env={**self.environment(), **login},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            words = " ".join(str(word) for word in args)
            raise KubectlError(f"kubectl {words}: {done.stderr.strip()}")
        return done.stdout

    @contextmanager
    def namespace(
        self, prefix: str = "test", labels: Mapping[str, str] | None = None
    ) -> Iterator[str]:
        """A new namespace that is deleted at the end, without waiting for it."""
        name = f"{prefix}-{time.monotonic_ns():x}"
        self.kubectl("create", "namespace", name)
        try:
            if labels:
                pairs = [f"{key}={label}" for key, label in labels.items()]
                self.kubectl("label", "namespace", name, *pairs)
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false")

    def node(self, number: int) -> Node:
        """One of the nodes, to power off, to cut from the network and so on.

        Raises:
            ClusterError: There are not so many.
        """
        if not 1 <= number <= self.plan.options.nodes:
            raise ClusterError(
                f"there is no node {number}: this cluster has {self.plan.options.nodes}"
            )
        return Node(self.layout, number)

    def hold(self, service: str) -> None:
        """Kill a service of the control plane and keep it down until `release`.

        Raises:
            ClusterError: There is no such service, or it does not stop.
        """
        hold(self.layout, service)

    def release(self, service: str) -> None:
        """Let a held service of the control plane start again.

        Raises:
            ClusterError: It is not held, or does not start.
        """
        release(self.layout, service)

    def load(self, archive: Path) -> None:
        """Bring an image archive to all nodes, also to those powered on later."""
        copy = self.layout.images / archive.name
        shutil.copyfile(archive, copy)
        for number in range(1, self.plan.options.nodes + 1):
            if node_init(self.layout, number) is not None:
                self.node(number).load(copy)

    def services(self) -> dict[str, int]:
        """The services that run and their pids, as their own namespace counts."""
        found = running_services(self.layout)
        return {name: pid.number for name, pid in found.items()}

    def down(self) -> None:
        """Stop the cluster; its files stay."""
        stop(self.layout)


def stop(layout: Layout) -> None:
    """End every process of a cluster, also of one that is half started.

    Raises:
        ClusterError: One of them does not end.
    """
    if (supervisor := Pid.read(layout.supervisor)) is not None:
        if Plan.load(layout).options.nodes:
            # The supervisor is the child of an `unshare`, which blocks SIGTERM.
            for number in children(supervisor.number):
                _end(Pid.of(number))
        _end(supervisor)
    if not Plan.load(layout).options.nodes:
        # Were the supervisor killed, the kernel would be about to end these.
        for service in running_services(layout).values():
            _end(service)
    if left := remove_groups(layout):
        raise ClusterError(f"control groups with processes in them: {left}")
    layout.supervisor.unlink(missing_ok=True)


def _end(pid: Pid | None) -> None:
    """End a process, gently at first."""
    if pid is None:
        return
    if not pid.end(signal.SIGTERM, PATIENCE):
        pid.end(signal.SIGKILL, PATIENCE)
    with contextlib.suppress(ChildProcessError):  # when `up` was called elsewhere
        os.waitpid(pid.number, os.WNOHANG)
