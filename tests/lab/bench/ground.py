"""A control plane with our programs on it, and what they used in a phase.

`scenario` runs phases on a `Ground`; `ledger`, `calls` and `meters` say what happened.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import attrs

from lbcf.kube.client import connected
from lbcf.kube.connection import connect
from lbcf.runtime.clock import SystemClock
from tests.e2e.stage import Stage
from tests.lab.bench import calls, meters
from tests.lab.bench.calls import Call
from tests.lab.bench.ledger import Entry, Ledger
from tests.lab.bench.meters import Usage
from tests.lab.bench.pipes import Pipes
from tests.lab.bench.pods import Batch, Pods
from tests.lab.cluster import Cluster, up


NAMESPACE: Final = "bench"
OURS: Final = ("controller", "deregistrar")
LABELS: Final = {"app": "web", "pod-template-hash": "6f5d8c9b7d"}
REPOSITORY: Final = Path(__file__).parents[3]

_LOOK: Final = 0.2
_PATIENCE: Final = 900.0


class Stuck(Exception):  # noqa: N818 - reads as what happened
    """What was waited for did not come."""


@attrs.define
class Phase:
    """What happened between two moments.

    Attributes:
        position: in the ledger, of its first request.
        began: seconds since the epoch.
        ended: the same; 0 while it goes on.
        usage: by program, CPU seconds of the phase and memory at its end.
        machine: CPU seconds of all that ran on the machine.
        entries: requests of our programs and of the users.
        calls: of the driver.
        lag: worst delay of an event loop in the last half minute, by program.
        asked: how often the programs that ran at its end called drivers about members; a
            batch is one call.
    """

    position: int
    began: float
    ended: float = 0.0
    usage: dict[str, Usage] = attrs.Factory(dict)
    machine: float = 0.0
    entries: list[Entry] = attrs.Factory(list)
    calls: list[Call] = attrs.Factory(list)
    lag: dict[str, float] = attrs.Factory(dict)
    asked: int = 0


class Ground:
    """Where a scenario runs.

    Attributes:
        cluster: the control plane.
        stage: starts our programs and makes objects.
        pods: of the stage's namespace.
        ledger: of what was asked of the API server.
    """

    def __init__(
        self, cluster: Cluster, stage: Stage, pods: Pods, profile: Path | None
    ) -> None:
        self.cluster = cluster
        self.stage = stage
        self.pods = pods
        self.users = {name: stage.user(name) for name in (*OURS, "pods", "floor")}
        self.ledger = Ledger(cluster.audit_log, self.users.values())
        self._profile = profile
        self._next_address = 1

    def batch(self, prefix: str, count: int) -> Batch:
        """Name pods with addresses that no other batch has."""
        batch = Batch(prefix, self._next_address, count)
        self._next_address += count
        return batch

    async def start_ours(self) -> None:
        """Start the controller and the deregistrar, and wait until both work."""
        flags = ("--log-level", "info", "--log-format", "json")
        unlimited = ("--max-records-per-namespace", "0")
        await self.stage.start("controller", *flags, *unlimited)
        await self.stage.start("deregistrar", *flags)
        await self.until(lambda: all(map(self._works, OURS)), "both work")

    async def stop_ours(self) -> None:
        """End both as Kubernetes would, and wait."""
        ends = (self.stage.processes[n].end(signal.SIGTERM) for n in OURS)
        await asyncio.gather(*ends)

    def _works(self, name: str) -> bool:
        """Tell whether a program has begun its work since it was started last."""
        program = self.stage.processes[name]
        begun = len(program.events("work.started"))
        return begun > len(program.events("process.ended"))

    def pids(self) -> dict[str, int]:
        """Return the pids of all programs that run, by name."""
        own = {
            name: program.pid
            for name, program in self.stage.processes.items()
            if program.runs
        }
        return {**own, **self.cluster.services(), "users": os.getpid()}

    @contextlib.asynccontextmanager
    async def phase(self, name: str) -> AsyncIterator[Phase]:
        """Measure what happens in a block."""
        asked = await self._asked()
        before = {pid: meters.usage(pid).cpu for pid in self.pids().values()}
        for pid in before:
            meters.forget_peak(pid)
        phase = Phase(self.ledger.read(), time.time())
        machine = meters.machine()
        async with self._sampled(name):
            yield phase
            phase.ended = time.time()
        phase.machine = meters.machine() - machine
        phase.usage = {
            name: meters.usage(pid).since(before.get(pid, 0.0))
            for name, pid in self.pids().items()
        }
        self.ledger.read()
        phase.entries = self.ledger.since(phase.position)
        running = [name for name in OURS if name in self.pids()]
        phase.asked = sum(
            count - asked.get(pid, 0) for pid, count in (await self._asked()).items()
        )
        phase.lag = {name: await self._lag(name) for name in running}
        known = await calls.history(self.stage.driver_url)
        phase.calls = [c for c in known if c.began.timestamp() >= phase.began]

    @contextlib.asynccontextmanager
    async def _sampled(self, name: str) -> AsyncIterator[None]:
        """Sample our programs' stacks during a block, if that was asked for."""
        samplers = []
        sampler_path = str(Path(sys.executable).with_name("py-spy"))
        pids = self.pids() if self._profile else {}
        for program in (n for n in OURS if n in pids):
            target = f"{self._profile}/{name}-{program}.txt"
            flags = ("--rate", "200", "--format", "raw", "--output", target)
            argv = (sampler_path, "record", "--pid", str(pids[program]), *flags)
            quiet = asyncio.subprocess.DEVNULL
            samplers.append(
                await asyncio.create_subprocess_exec(*argv, stdout=quiet, stderr=quiet)
            )
        try:
            yield
        finally:
            for sampler in samplers:
                with contextlib.suppress(ProcessLookupError):
                    sampler.send_signal(signal.SIGINT)
                await sampler.wait()

    async def _lag(self, name: str) -> float:
        """Ask one of our programs for the delay of its loop."""
        return await meters.loop_lag(self._metrics_of(name))

    async def _asked(self) -> dict[int, int]:
        """Ask our programs that run how often they called drivers about members, by pid."""
        pids = self.pids()
        return {
            pids[name]: await meters.member_calls(self._metrics_of(name))
            for name in OURS
            if name in pids
        }

    def _metrics_of(self, name: str) -> str:
        """Return where one of our programs serves its metrics."""
        argv = self.stage.processes[name].argv
        return argv[argv.index("--metrics-bind-address") + 1]

    async def until(self, check: Callable[[], bool], told: str) -> None:
        """Wait until a check of the ledger, or of logs, says yes.

        Raises:
            Stuck: it never did.
        """
        end = time.monotonic() + _PATIENCE
        while not check():
            if time.monotonic() > end:
                raise Stuck(f"not within {_PATIENCE:g} s: {told}\n{self.stage.story()}")
            await asyncio.sleep(_LOOK)

    async def until_written(self, position: int, user: str, what: str, n: int) -> None:
        """Wait until a program has written something of so many objects.

        Raises:
            Stuck: it never did.
        """
        name = self.users[user]

        def written() -> bool:
            """Count, reading what is new."""
            self.ledger.read()
            entries = self.ledger.since(position)
            good = (e for e in entries if e.user == name and e.code < 300)
            return len({e.name for e in good if e.what == what}) >= n

        await self.until(written, f"{n} times {what} by {user}")

    async def floor(self, phase: str, namespace: str, owner: str, count: int) -> "Bare":
        """Start the bare loop; it waits to be told to go."""
        argv = [
            *(sys.executable, "-m", "tests.lab.bench.floor", phase),
            *("--kubeconfig", str(self.cluster.kubeconfig_for(self.users["floor"]))),
            *("--namespace", namespace, "--owner", owner, "--count", str(count)),
        ]
        pipe = asyncio.subprocess.PIPE
        loop = await asyncio.create_subprocess_exec(
            *argv, cwd=REPOSITORY, stdin=pipe, stdout=pipe, start_new_session=True
        )
        assert loop.stdout is not None
        await loop.stdout.readline()
        return Bare(loop)


class Bare:
    """The bare loop, ready to go."""

    def __init__(self, loop: asyncio.subprocess.Process) -> None:
        self._loop = loop

    async def go(self) -> float:
        """Let it write everything; returns the CPU seconds that it used.

        Raises:
            Stuck: it failed.
        """
        answer, _ = await self._loop.communicate(b"go\n")
        if self._loop.returncode:
            raise Stuck(f"the bare loop ended with status {self._loop.returncode}")
        return float(json.loads(answer)["cpu"])


@contextlib.asynccontextmanager
async def prepared(folder: Path, profile: Path | None = None) -> AsyncIterator[Ground]:
    """Give a new control plane with our kinds of objects and a driver on it."""
    folder.mkdir(parents=True)  # noqa: ASYNC240 - before anything runs
    cluster = await asyncio.to_thread(up, folder / "cluster", nodes=0)
    try:
        await asyncio.to_thread(_define, cluster)
        connection = await connect(str(cluster.kubeconfig))
        user = await connect(str(cluster.kubeconfig_for(f"pods.{NAMESPACE}")))
        async with (
            connected(connection, SystemClock(), user_agent="bench") as client,
            Pipes(user) as pipes,
        ):
            stage = Stage(cluster, NAMESPACE, client, folder)
            pods = Pods(pipes, NAMESPACE, LABELS)
            try:
                await stage.start_driver()
                yield Ground(cluster, stage, pods, profile)
            finally:
                for program in stage.processes.values():
                    if program.runs:
                        await program.end(signal.SIGKILL)
    finally:
        await asyncio.to_thread(cluster.down)


def _define(cluster: Cluster) -> None:
    """Define our kinds of objects and make the namespaces."""
    cluster.kubectl("apply", "-f", REPOSITORY / "manifests" / "crds")
    established = "--for=condition=Established"
    cluster.kubectl("wait", established, "crd", "--all", "--timeout=20s")
    for namespace in (NAMESPACE, f"{NAMESPACE}-floor"):
        cluster.kubectl("create", "namespace", namespace)
        account = ("serviceaccount/default", "--timeout=20s")
        cluster.kubectl("wait", "--for=create", *account, "--namespace", namespace)
