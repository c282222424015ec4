"""Our real processes, each behind a gateway of its own, and started again when they end.

What starts them again is in the place of the kubelet. A failpoint is for the first run
of a process alone: its successor lives without.
"""

import asyncio
import contextlib
import os
import signal
import sys

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lbcf.runtime import failpoints
from tests.drivers.servers import ALLOW_BESIDE_US
from tests.lab.traced.runs import Runs, events


RESTART_DELAY = 0.1
ROOT = Path(__file__).parents[3]


class Replica:
    """One process of a role.

    Attributes:
        role: `controller` or `deregistrar`.
        runs: all of its runs.
    """

    def __init__(
        self,
        role: str,
        kubeconfig: Path,
        log: Path,
        flags: Sequence[str],
    ) -> None:
        self.role = role
        self.runs = Runs(log)
        self.log = log
        self._argv = [
            *("setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "lbcf", role),
            *("--kubeconfig", str(kubeconfig), "--metrics-bind-address", "0"),
            *("--health-probe-bind-address", "0", *ALLOW_BESIDE_US),
            # As the volume of its pod: each run finds what the one before it has left.
            *("--journal", str(log.with_suffix(".journal")), *flags),
        ]
        self._child: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    def keep_running(self, failpoint: str = "") -> None:
        """Start it, and again whenever it ends."""
        self._keeper = asyncio.create_task(self._keep(failpoint))

    async def _keep(self, failpoint: str) -> None:
        """Run it again and again."""
        while True:
            await self._start(failpoint)
            failpoint = ""
            assert self._child is not None
            await self._child.wait()
            self.runs.end()
            await asyncio.sleep(RESTART_DELAY)

    async def _start(self, failpoint: str) -> None:
        """Start it; its output is appended to its log."""
        env = {**os.environ, failpoints.VARIABLE: failpoint}
        self.runs.begin()
        with self.log.open("ab") as out:
            self._child = await asyncio.create_subprocess_exec(
                *self._argv, cwd=ROOT, env=env, stdout=out, stderr=out
            )

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self._child is not None and self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._child.send_signal(number)

    async def end(self) -> None:
        """End it for good."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._child is not None:
            self.send(signal.SIGKILL)
            await self._child.wait()

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log events of a name, in order; of all its runs."""
        text = self.log.read_text() if self.log.exists() else ""
        return [event for event in events(text) if event["event"] == name]

    @property
    def works(self) -> bool:
        """Whether some run of it has begun to work."""
        return bool(self.events("work.started"))

    @property
    def works_again(self) -> bool:
        """Whether its latest run has begun to work."""
        return len(self.events("work.started")) >= len(self.runs.started)

    @property
    def leads(self) -> bool:
        """Whether some run of it was elected."""
        return bool(self.events("leader.elected"))
