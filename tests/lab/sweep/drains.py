"""S4: drains, judged by `spec.drain` and by the sessions on the member at each call.

A drain begins when the first call of it leaves that may be heard. From then on it lasts
as long as its record says, in true seconds, unless the driver has found nothing left.
`oracle` calls what is here; nothing that the code asked for is taken for right, but its
word on when it stops.

Clocks of nodes differ. While the incarnation goes on that began a drain, that makes no
difference; another one has only the wall clock to go by. It may be wrong by as much as
the two differ, and by no more than one whole drain.
"""

import asyncio
import math

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from lbcf.wire import driver_requests as requests
from tests.lab.sweep.seen import Seen


if TYPE_CHECKING:
    from tests.lab.sweep.process import Process
    from tests.lab.sweep.world import World

_EARLY = 0.01
"""Seconds by which a drain may be short: the grain of clocks."""
_LATE = 3.2
"""Seconds by which it may be long: of two by which a call may be late, and rounding."""


@attrs.define
class _Asked:
    """Who began to drain.

    Attributes:
        at: when its first call left that may have been heard.
        answered: when that was over, None as long as it is not.
        ahead: by how much its wall clock was ahead meanwhile, at least and at most.
    """

    at: float
    ahead: tuple[float, float]
    answered: float | None = None


@attrs.define
class _Drain:
    """What is known of one record's drain.

    Attributes:
        askers: incarnations whose calls may have been heard.
        written: when its clock was stored.
        is_empty: the driver has said that nothing is left.
        overdue: calls of an incarnation after the end.
    """

    askers: dict[str, _Asked] = attrs.Factory(dict)
    written: float | None = None
    is_empty: bool = False
    overdue: dict[str, int] = attrs.Factory(dict)

    def asked(self, process: "Process", now: float) -> Callable[[bool], None]:
        """Note that a call leaves; returns what is to be told when it is over."""
        ahead = process.host.ahead
        if process.name in self.askers:
            return lambda _heard: None
        own = self.askers[process.name] = _Asked(now, (ahead, ahead))

        def over(heard: bool) -> None:
            """Take it back where nobody has heard it."""
            low, high = sorted((ahead, process.host.ahead))
            own.answered, own.ahead = asyncio.get_running_loop().time(), (low, high)
            if not heard:
                del self.askers[process.name]

        return over


class Drains:
    """Looks at drains, and tells the world what is wrong."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._drains: dict[str, _Drain] = {}
        self._deleted: dict[str, float] = {}

    def stored(self, before: Seen | None, seen: Seen) -> None:
        """Take in a record's new version."""
        now = self._world.second()
        if seen.is_deleting:
            self._deleted.setdefault(seen.uid, now)
        if seen.deadline is None:
            return
        drain = self._of(seen.uid)
        if drain.written is None:
            drain.written = now
            self._check_written(drain, seen)
        if before and before.deadline not in {None, seen.deadline}:
            self._world.fail(f"S4: the deadline of {seen.name} moved")

    def _check_written(self, drain: _Drain, seen: Seen) -> None:
        """Hold the clock that is written to the record, and to who wrote it."""
        seconds, length = seen.drain_seconds or 0.0, seen.drain_length or 0.0
        if not 0 <= length - seconds <= 1:
            self._world.fail(f"S4: the drain of {seen.name} is written as {length} s")
        ends = [asked.at + asked.ahead[0] + seconds for asked in drain.askers.values()]
        if (seen.deadline or 0.0) < min(ends, default=0.0) - _EARLY:
            self._world.fail(f"S4: the drain of {seen.name} is written as too short")
        ends = [
            (asked.answered or asked.at) + asked.ahead[1] + seconds
            for asked in drain.askers.values()
        ]
        if (seen.deadline or 0.0) > max(ends, default=0.0) + _LATE:
            self._world.fail(f"S4: the drain of {seen.name} is written as too long")

    def drain_sent(
        self, process: "Process", seen: Seen | None, uid: str
    ) -> Callable[[bool], None]:
        """Look at a drain call that leaves; returns what is to be told when it is over."""
        drain, now = self._of(uid), self._world.second()
        over = drain.asked(process, now)
        if seen is not None and now > self._latest(process, drain, seen):
            calls = drain.overdue[process.name] = drain.overdue.get(process.name, 0) + 1
            # The first may have been stopped on its way for any time.
            if calls > 1:
                self._world.fail(f"S4: {process.name} drains {seen.name} for too long")
        return over

    def _latest(self, process: "Process", drain: _Drain, seen: Seen) -> float:
        """Say until when an incarnation may go on to drain."""
        own = drain.askers[process.name]
        began = own.at if own.answered is None else own.answered
        end = began + (seen.drain_seconds or 0.0)
        alone = list(drain.askers) == [process.name]
        if seen.deadline is not None and drain.written is not None and not alone:
            written = self._written_end(seen) - own.ahead[0]
            is_first = own.at <= drain.written
            end = max(end, written) if is_first else min(end, written)
        return end + _LATE

    def _earliest(self, process: "Process", drain: _Drain, seen: Seen) -> float:
        """Say when it may take the drain for over."""
        began = min(asked.at for asked in drain.askers.values())
        end = began + (seen.drain_seconds or 0.0)
        if seen.deadline is not None and list(drain.askers) != [process.name]:
            own = drain.askers.get(process.name)
            ahead = process.host.ahead if own is None else own.ahead[1]
            end = min(end, self._written_end(seen) - ahead)
        return end - _EARLY

    def _written_end(self, seen: Seen) -> float:
        """Say when a drain ends by what is written, on the API server's clock.

        No drain begins before its record's deletion, by the same clock.
        """
        deleted = math.floor(self._deleted.get(seen.uid, 0.0))
        return max(seen.deadline or 0.0, deleted + (seen.drain_seconds or 0.0))

    def emptied(self, uid: str) -> None:
        """Note that a drain found nothing left."""
        self._of(uid).is_empty = True

    def deregister_sent(
        self,
        process: "Process",
        seen: Seen,
        request: requests.DeregisterBackendRequest,
    ) -> None:
        """Hold a deregistration that leaves to the drain before it."""
        drain, who = self._of(seen.uid), f"S4: {process.name} deregisters {seen.name}"
        if request.drained and not drain.is_empty:
            self._world.fail(f"{who} as drained, and it was not")
        if drain.is_empty:
            return
        if not drain.askers:
            self._world.fail(f"{who} without a drain")
        elif self._world.second() < self._earliest(process, drain, seen):
            self._world.fail(f"{who} before its drain ends")

    def cut(self, seen: Seen, sessions: int) -> None:
        """Look at sessions that end with their member, which had none for a moment."""
        drain = self._of(seen.uid)
        ends = (
            asked.at + (seen.drain_seconds or 0.0) - max(map(abs, asked.ahead))
            for asked in drain.askers.values()
        )
        if drain.is_empty and self._world.second() < min(ends, default=0.0) - _EARLY:
            self._world.fail(f"S4: {sessions} sessions of {seen.name} are cut")

    def _of(self, uid: str) -> _Drain:
        """Return what is known of a record's drain."""
        return self._drains.setdefault(uid, _Drain())
