"""The load generator seen from the demo: its start, its figures, its failures.

`load` runs as a program of its own in the cluster's network; this module reads the
lines that it writes. The failures are judged later, with the journal: those sent while
the load balancer was reloaded or restarted are counted apart.
"""

import asyncio
import json
import sys

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tests.lab.demo import children
from tests.lab.demo.answer import Failure
from tests.lab.demo.errors import DemoError
from tests.lab.demo.exchange import Protocol
from tests.lab.demo.ground import Ground
from tests.lab.demo.journal import Journal


KEPT = 50_000
END_LIMIT = 40.0


@attrs.frozen
class FailedRequest:
    """A request that failed; see `load` for the fields.

    Attributes:
        sent: moment of sending.
        took_ms: milliseconds until the failure.
        path: what was asked for.
        connection: `new` or `kept`.
        kind: how it failed.
        status: status of the answer, or 0.
        pod: the member of HAProxy that the answer names, if any.
        protocol: what it was sent in.
    """

    sent: float
    took_ms: float
    path: str
    connection: str
    kind: str
    status: int
    pod: str
    protocol: str = Protocol.HTTP1


@attrs.frozen
class Figures:
    """The load generator's figures at some moment; see `load`.

    Attributes:
        protocols: requests by what they were sent in.
    """

    requests: int = 0
    failed: int = 0
    in_flight: int = 0
    held_back: int = 0
    idle_closed: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    protocols: Mapping[str, int] = {}


class Traffic:
    """The running load generator.

    Attributes:
        figures: the last ones heard.
        failures: the failed requests, at most `KEPT` of them.
    """

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child
        self.figures = Figures()
        self.failures: list[FailedRequest] = []
        self._ended = asyncio.Event()

    @classmethod
    async def start(
        cls,
        ground: Ground,
        address: str,
        rate: float,
        seconds: float,
        *,
        http2: bool = False,
    ) -> "Traffic":
        """Start sending, a share of it over HTTP/2 or none."""
        argv = [
            *(sys.executable, "-m", "tests.lab.demo.load", "--address", address),
            *("--rate", str(rate), "--seconds", str(seconds)),
            *("--record", str(record_path(ground))),
            *(["--http2"] if http2 else []),
        ]
        log = ground.folder / "load.log"
        return cls(await children.start(ground, log, argv, piped=True))

    async def read(self) -> None:
        """Take in what it writes, until it ends.

        Raises:
            DemoError: it ended without its last words.
        """
        lines = self._child.stdout
        if lines is None:
            raise DemoError("the load generator was started without a pipe")
        async for line in lines:
            self.hear(json.loads(line))
        if not self._ended.is_set():
            raise DemoError("the load generator ended too early: see load.log")

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take in one line."""
        if failure := message.get("failure"):
            if len(self.failures) < KEPT:
                self.failures.append(FailedRequest(**failure))
            return
        if "final" in message:
            self._ended.set()
        found = message.get("final") or message["progress"]
        names = {field.name for field in attrs.fields(Figures)}
        self.figures = Figures(**{name: found[name] for name in names})

    async def stop(self) -> None:
        """Let it finish the requests under way, until `read` has its last figures.

        Raises:
            DemoError: it does not end.
        """
        if self._child.returncode is None:
            self._child.terminate()
        try:
            await asyncio.wait_for(self._ended.wait(), END_LIMIT)
        except TimeoutError as error:
            raise DemoError("the load generator does not end: see load.log") from error

    async def kill(self) -> None:
        """End it without further ado."""
        await children.end(self._child)


def record_path(ground: Ground) -> Path:
    """Where each request is written down."""
    return ground.folder / "requests.csv"


def outside_gaps(
    failures: Sequence[FailedRequest], journal: Journal
) -> list[FailedRequest]:
    """The failures that no reload or restart excuses."""
    return [
        failure
        for failure in failures
        if not journal.in_gap(
            failure.sent,
            failure.sent + failure.took_ms / 1000,
            cut=failure.kind in {Failure.RESET, Failure.TRUNCATED},
        )
    ]
