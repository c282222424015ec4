"""Where the demo runs: its own cluster, or the one that KUBECONFIG names.

All other modules see a `Ground` and do not care which of the two it is. With an own
cluster everything runs in the cluster's network namespace, each process of ours with a
user of its own, and the audit log counts what they write. With a foreign one everything
runs on this machine, from where the pods' addresses must be reachable, with the rights
of KUBECONFIG; writes are not counted, as its audit log is out of reach.
"""

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs

from images.waiter import build_waiter
from tests.lab.cluster import Cluster, up
from tests.lab.cluster.layout import Options as ClusterOptions
from tests.lab.demo.errors import DemoError
from tests.lab.demo.options import Options


ROOT = Path(__file__).absolute().parents[3]
CONTROLLER = "demo-controller"
DEREGISTRAR = "demo-deregistrar"
GROUP = "lbcf.tkestack.io"


@attrs.frozen
class Ground:
    """A place to run programs at, and a cluster to run them against.

    Attributes:
        folder: the run's folder: logs, configuration, sockets.
        root: the repository.
        environment: of every program; names the administrator's kubeconfig.
        entry: what goes before a command line to run it in the cluster's network.
        kubeconfigs: whose kubeconfig, by user.
        nodes: names of the nodes that may be drained.
        audit_log: the API server's audit log, if it can be read.
        foreign: the cluster is not ours.
        cluster: the own one; None where it is foreign.
    """

    folder: Path
    root: Path
    environment: Mapping[str, str]
    entry: tuple[str, ...]
    kubeconfigs: Mapping[str, Path]
    nodes: tuple[str, ...]
    audit_log: Path | None
    foreign: bool
    cluster: Cluster | None = None

    def command(self, *argv: str) -> list[str]:
        """A command line that runs `argv` in the cluster's network."""
        return [*self.entry, *argv]

    async def kubectl(self, *words: str, stdin: str = "") -> str:
        """What kubectl prints, as the administrator.

        Raises:
            DemoError: it ended with another exit code than 0.
        """
        child = await asyncio.create_subprocess_exec(
            *self.command("kubectl", *words),
            env=dict(self.environment),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, trouble = await child.communicate(stdin.encode())
        finally:
            if child.returncode is None:
                child.kill()
        if child.returncode:
            line = trouble.decode(errors="replace").strip()
            raise DemoError(f"kubectl {' '.join(words)}: {line}")
        return out.decode()


def start_cluster(
    options: Options, folder: Path, say: Callable[[str], None]
) -> Cluster:
    """Start the demo's own cluster; blocks for some ten seconds.

    Raises:
        tests.lab.cluster.ClusterError: it cannot be started; the message says why.
    """
    asked = ClusterOptions(audit_bodies=True)
    cluster = up(folder / "cluster", nodes=options.nodes, options=asked, say=say)
    if options.gates:
        cluster.load(build_waiter(folder))
    return cluster


@contextlib.contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """Stop the cluster of this folder also if this program is killed meanwhile.

    A shell waits for the end of a pipe that only this program holds open.
    """
    words = [sys.executable, "-m", "tests.lab.cluster", "down", "--dir"]
    stop = shlex.join([*words, str(folder / "cluster")])
    guard = subprocess.Popen(
        ["sh", "-c", f"cat; exec {stop}"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        # Killed before the pipe is closed: there is nothing left to stop.
        guard.kill()
        guard.communicate()


def own_ground(cluster: Cluster, folder: Path, options: Options) -> Ground:
    """The ground that an own cluster is."""
    users = (CONTROLLER, DEREGISTRAR)
    return Ground(
        folder=folder,
        root=ROOT,
        environment=_environment(cluster.environment()),
        entry=tuple(cluster.command()),
        kubeconfigs={user: cluster.kubeconfig_for(user) for user in users},
        nodes=tuple(f"n{number}" for number in range(1, options.nodes + 1)),
        audit_log=cluster.audit_log,
        foreign=False,
        cluster=cluster,
    )


def foreign_ground(folder: Path, options: Options) -> Ground:
    """The ground that the cluster of KUBECONFIG is.

    Raises:
        DemoError: KUBECONFIG names no file, or kubectl or HAProxy is missing.
    """
    path = Path(os.environ.get("KUBECONFIG", "")).absolute()
    if not path.is_file():
        raise DemoError(
            "--use-kubeconfig: set KUBECONFIG to the kubeconfig file of the cluster"
        )
    for program in ("kubectl", "haproxy"):
        if shutil.which(program) is None:
            raise DemoError(f"{program} is not on PATH: install it and try again")
    return Ground(
        folder=folder,
        root=ROOT,
        environment=_environment(os.environ),
        entry=(),
        kubeconfigs={CONTROLLER: path, DEREGISTRAR: path},
        nodes=options.drain_nodes,
        audit_log=None,
        foreign=True,
    )


async def refuse_strangers(ground: Ground) -> None:
    """See that nobody uses the load balancer kinds in a foreign cluster.

    The demo's controller works on all namespaces; beside another one, or over objects
    of other people, it must not run.

    Raises:
        DemoError: there are such objects, or the cluster does not answer.
    """
    resources = await ground.kubectl("api-resources", f"--api-group={GROUP}", "-oname")
    for resource in resources.split():
        text = await ground.kubectl("get", resource, "-A", "-ojson")
        if json.loads(text)["items"]:
            raise DemoError(
                f"the cluster has objects of the kind {resource} already; the demo "
                "would work on them too: use a cluster without them"
            )


def _environment(base: Mapping[str, str]) -> dict[str, str]:
    """The environment of the demo's programs."""
    return {**base, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
