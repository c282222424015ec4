"""The runs of one process of ours, told apart in the log that they share."""

import json

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from lbcf.core.model.shards import run_name
from tests.lab.traced.moments import second
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
            told = list(events(text[run.place : end].decode()))
            ended = None if run.ended is None else second(run.ended)
            yield from named(role, told, ended)


def named(
    role: str, told: Sequence[Mapping[str, Any]], ended: float | None
) -> Iterator[Run]:
    """Tell of those in one process: who has lost its Lease begins again by another name.

    It looks at what there is from then on, which may be seconds after the process was
    started, on a busy machine. Who leads another shard than the first has its name for that.

    Args:
        role: controller or deregistrar.
        told: the events of its log.
        ended: when it had ended; None: it was not seen to.
    """
    begun = [e for e in told if e["event"] == "process.started"]
    began = [second(datetime.fromisoformat(event["timestamp"])) for event in begun]
    shards = _shards(told)
    for number, event in enumerate(begun):
        end = began[number + 1] if event is not begun[-1] else ended
        agent = str(event["incarnation"])
        yield Run(run_name(agent, shards[number]), role, began[number], end, agent)


def _shards(told: Iterable[Mapping[str, Any]]) -> Sequence[int]:
    """Return which shard each run in a process led; none is as the first."""
    found: list[int] = []
    for event in told:
        if event["event"] == "process.started":
            found.append(0)
        elif event["event"] == "shard.taken":
            found[-1] = int(event["shard"])
    return found


def events(text: str) -> Iterator[dict[str, Any]]:
    """Read the whole lines of a log that are events."""
    lines = text.splitlines()
    whole = (line for line in lines if line.startswith("{") and line.endswith("}"))
    found = (json.loads(line) for line in whole)
    return (event for event in found if "event" in event)
