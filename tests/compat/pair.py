"""Controller and deregistrar of a whole package of tests: they serve every namespace."""

import subprocess
import sys

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs

from tests.drivers.servers import ALLOW_BESIDE_US
from tests.lab.cluster import Cluster
from tests.lab.cluster.ports import free_ports


@attrs.frozen
class Pair:
    """Both processes.

    Attributes:
        users: under whose names they are in the audit log.
        logs: what they have said.
    """

    users: frozenset[str]
    logs: tuple[Path, ...]

    def story(self) -> str:
        """What the processes said last, for a test that failed."""
        return "\n".join(
            line for log in self.logs for line in log.read_text().splitlines()[-25:]
        )


@contextmanager
def running(cluster: Cluster, folder: Path) -> Iterator[Pair]:
    """Run both; their Leases are in a namespace of their own."""
    with cluster.namespace("pair") as namespace, ExitStack() as stack:
        users, logs = [], []
        for process in ("controller", "deregistrar"):
            user, log = f"{process}.{namespace}", folder / f"{process}.log"
            probes, metrics = free_ports(2)
            argv = [
                *(sys.executable, "-m", "lbcf", process),
                *("--kubeconfig", str(cluster.kubeconfig_for(user))),
                *("--namespace", namespace),
                *ALLOW_BESIDE_US,
                *("--health-probe-bind-address", f"127.0.0.1:{probes}"),
                *("--metrics-bind-address", f"127.0.0.1:{metrics}"),
                # There is one of each: a machine too busy to renew a Lease in time
                # would end it, and nobody here starts it again.
                "--no-leader-elect",
            ]
            out = stack.enter_context(log.open("wb"))
            running = subprocess.Popen(argv, stdout=out, stderr=out)
            stack.callback(running.wait)
            stack.callback(running.kill)
            users.append(user)
            logs.append(log)
        yield Pair(frozenset(users), tuple(logs))
