"""Our real processes, each behind a gateway of its own, and started again when they end.

What starts them again is in the place of the kubelet. A failpoint is for the first run
of a process alone: its successor lives without.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from lbcf.runtime import failpoints
from tests.drivers.servers import ALLOW_BESIDE_US


RESTART_DELAY = 0.1
ROOT = Path(__file__).parents[3]


@attrs.define
class Run:
    """One run of a process.

    Attributes:
        number: from 1.
        place: in the log where what it tells begins.
        began: when it was started, by the wall clock.
        ended: when it was seen to have ended; None: it was not.
    """

    number: int
    place: int
    began: datetime
    ended: datetime | None = None


class Replica:
    """One process of a role.

    Attributes:
        role: `controller` or `deregistrar`.
        starts: how often it was started.
        runs: all of them.
    """

    def __init__(
        self,
        role: str,
        kubeconfig: Path,
        log: Path,
        flags: Sequence[str],
    ) -> None:
        self.role = role
        self.starts = 0
        self.runs: list[Run] = []
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
            self.runs[-1].ended = datetime.now(UTC)
            await asyncio.sleep(RESTART_DELAY)

    async def _start(self, failpoint: str) -> None:
        """Start it; its output is appended to its log."""
        env = {**os.environ, failpoints.VARIABLE: failpoint}
        began, number = datetime.now(UTC), self.starts + 1
        with self.log.open("ab") as out:
            place = out.tell()
            self._child = await asyncio.create_subprocess_exec(
                *self._argv, cwd=ROOT, env=env, stdout=out, stderr=out
            )
        self.starts = number
        self.runs.append(Run(number, place, began))

    def incarnation(self, run: Run) -> str:
        """Return the name that a run has given itself; empty: none."""
        text = self.log.read_bytes()
        later = [other.place for other in self.runs if other.number == run.number + 1]
        own = text[run.place : later[0] if later else len(text)].decode()
        started = [e for e in _events(own) if e.get("event") == "process.started"]
        return str(started[0]["incarnation"]) if started else ""

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
        return [event for event in _events(text) if event.get("event") == name]

    @property
    def works(self) -> bool:
        """Whether some run of it has begun to work."""
        return bool(self.events("work.started"))

    @property
    def works_again(self) -> bool:
        """Whether its latest run has begun to work."""
        return len(self.events("work.started")) >= self.starts

    @property
    def leads(self) -> bool:
        """Whether some run of it was elected."""
        return bool(self.events("leader.elected"))


def _events(text: str) -> list[dict[str, Any]]:
    """Read the whole lines of a log that are events."""
    lines = text.splitlines()
    whole = [line for line in lines if line.startswith("{") and line.endswith("}")]
    return [json.loads(line) for line in whole]
