"""The runs of one process of ours, told apart in the log that they share."""

import json

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from tests.lab.traced.audit import second
from tests.lab.traced.tape import Run


@attrs.define
class Started:
    """One run of a process.

    Attributes:
        place: in the log where what it tells begins.
        ended: when it was killed, or seen to have ended; None: it was not.
    """

    place: int
    ended: datetime | None = None


@attrs.define
class Runs:
    """All runs of a process.

    Attributes:
        log: has the output of all of them.
        started: them, in their order.
    """

    log: Path
    started: list[Started] = attrs.Factory(list)

    def begin(self) -> None:
        """Note that one is about to be started."""
        place = self.log.stat().st_size if self.log.exists() else 0
        self.started.append(Started(place))

    def end(self) -> None:
        """Note that the last one has ended, or is about to be killed."""
        last = self.started[-1]
        last.ended = last.ended or datetime.now(UTC)

    def named(self, role: str) -> Iterator[Run]:
        """Tell of those that have given themselves a name.

        Args:
            role: controller or deregistrar.
        """
        ends = [*(later.place for later in self.started[1:]), None]
        text = self.log.read_bytes() if self.log.exists() else b""
        for run, end in zip(self.started, ends, strict=True):
            told = events(text[run.place : end].decode())
            ended = None if run.ended is None else second(run.ended)
            begun = [e for e in told if e["event"] == "process.started"]
            yield from _named(role, begun, ended)


def _named(
    role: str, begun: Sequence[Mapping[str, Any]], ended: float | None
) -> Iterator[Run]:
    """Tell of those in one process: who has lost its Lease begins again by another name.

    It looks at what there is from then on, which may be seconds after the process was
    started, on a busy machine.
    """
    began = [second(datetime.fromisoformat(event["timestamp"])) for event in begun]
    for number, event in enumerate(begun):
        end = began[number + 1] if event is not begun[-1] else ended
        yield Run(str(event["incarnation"]), role, began[number], end)


def events(text: str) -> Iterator[dict[str, Any]]:
    """Read the whole lines of a log that are events."""
    lines = text.splitlines()
    whole = (line for line in lines if line.startswith("{") and line.endswith("}"))
    found = (json.loads(line) for line in whole)
    return (event for event in found if "event" in event)
