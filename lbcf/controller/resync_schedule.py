"""When each load balancer's members are read: by period, fairly, and not all at once.

`member_resync` says whose are read and what that means. Each reading is a task of its
own: one that hangs delays no other one, and of one driver's in one namespace only so many
are under way. Where more are due than may begin, namespaces take turns, and in each of
them drivers.
"""

import asyncio

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any

import structlog

from lbcf.core.model.values import ObjectKey
from lbcf.runtime.clock import Clock
from lbcf.runtime.queue import Delays
from lbcf.runtime.tasks import end_tasks


AT_ONCE = 16
"""Readings of one driver's load balancers in one namespace that it has not answered."""
PER_SECOND = 100
"""Readings that begin in a second: with more load balancers than that in a period, each
is read less often, so that the rest of the process is not kept from its work."""

_SAVED = 1.0
"""Seconds of which the share that was not used may be used at once."""
_GRAIN = 0.05
"""Seconds after which a few begin together, where more are due than may begin."""

_GRAINS = 8
"""How many moments of a period there are at which readings begin."""

Lane = tuple[str, ObjectKey]
"""A namespace of load balancers, and their driver."""

_log = structlog.get_logger(__name__)


class ResyncSchedule:
    """Has load balancers read.

    Args:
        read: reads one.
        period: from the end of a reading to the next one of the same.
        clock: measures.
    """

    def __init__(
        self,
        read: Callable[[ObjectKey], Coroutine[Any, Any, None]],
        *,
        period: timedelta,
        clock: Clock,
    ) -> None:
        self._read = read
        self._period = period.total_seconds()
        self._clock = clock
        self._lanes: dict[ObjectKey, Lane] = {}
        self._due: Delays[ObjectKey] = Delays()
        self._waiting: dict[Lane, deque[ObjectKey]] = {}
        # Whose turn it is: those of which something waits that may begin.
        self._turns: OrderedDict[str, OrderedDict[Lane, None]] = OrderedDict()
        self._busy: Counter[Lane] = Counter()
        self._under_way: dict[ObjectKey, asyncio.Task[None]] = {}
        self._calling: dict[ObjectKey, Lane] = {}
        self._free_at = clock.monotonic()
        self._news = asyncio.Event()

    def follow(self, key: ObjectKey, driver: ObjectKey) -> None:
        """Read a load balancer from now on; the first time at once."""
        is_new = key not in self._lanes
        self._lanes[key] = (key.namespace, driver)
        if is_new:
            self._due.set(key, self._clock.monotonic(), urgent=False)
            self._news.set()

    def follows(self, key: ObjectKey) -> bool:
        """Return whether a load balancer is to be read."""
        return key in self._lanes

    def forget(self, key: ObjectKey) -> None:
        """Read a load balancer no more; a reading under way ends by itself."""
        self._lanes.pop(key, None)
        self._due.forget(key)

    async def run(self) -> None:
        """Have all of them read until cancelled."""
        try:
            while True:
                self._news.clear()
                for key, _ in self._due.take_until(self._clock.monotonic()):
                    self._line_up(key)
                await self._rest(self._begin())
        finally:
            await end_tasks(self._under_way.values())

    async def _rest(self, until: float | None) -> None:
        """Wait for a moment, in monotonic seconds, or for news."""
        delay = None if until is None else until - self._clock.monotonic()
        try:
            async with asyncio.timeout(delay):
                await self._news.wait()
        except TimeoutError:
            pass

    def _line_up(self, key: ObjectKey) -> None:
        lane = self._lanes[key]
        self._waiting.setdefault(lane, deque()).append(key)
        self._offer(lane)

    def _offer(self, lane: Lane) -> None:
        if lane in self._waiting and self._busy[lane] < AT_ONCE:
            self._turns.setdefault(lane[0], OrderedDict())[lane] = None

    def _begin(self) -> float | None:
        """Begin what may begin; return when to look again, None: when there is news."""
        now = self._clock.monotonic()
        self._free_at = max(self._free_at, now - _SAVED)
        while self._turns and self._free_at <= now:
            self._begin_next()
        return self._free_at + _GRAIN if self._turns else self._due.earliest()

    def _begin_next(self) -> None:
        """Begin one reading of the lane whose turn it is."""
        namespace, lanes = self._turns.popitem(last=False)
        lane, _ = lanes.popitem(last=False)
        if lanes:
            self._turns[namespace] = lanes
        waiting = self._waiting[lane]
        key = waiting.popleft()
        if not waiting:
            del self._waiting[lane]
        # It may have been given up since, or taken up again while it is being read.
        if key in self._lanes and key not in self._under_way:
            self._free_at += 1 / PER_SECOND
            self._busy[lane] += 1
            self._calling[key] = lane
            reading = asyncio.create_task(self._read(key))
            self._under_way[key] = reading
            reading.add_done_callback(partial(self._ended, key))
        self._offer(lane)

    def leave(self, key: ObjectKey) -> None:
        """Let the next one of a driver begin: the rest of a reading needs no call."""
        lane = self._calling.pop(key, None)
        if lane is None:
            return
        self._busy[lane] -= 1
        if not self._busy[lane]:
            del self._busy[lane]
        self._offer(lane)
        if self._turns and self._free_at <= self._clock.monotonic():
            self._news.set()

    def _ended(self, key: ObjectKey, reading: "asyncio.Task[None]") -> None:
        """Make room for the next one, and come back in a period."""
        # A call that is cut off ends its own reading, never the others.
        if reading.cancelled() or reading.exception() is not None:
            why = "cut off" if reading.cancelled() else repr(reading.exception())
            _log.warning("survey.unread", load_balancer=str(key), error=why)
        del self._under_way[key]
        self.leave(key)
        if key in self._lanes and self._due.set(key, self._next_due(), urgent=False):
            self._news.set()

    def _next_due(self) -> float:
        """Return when one whose reading ends now is read again.

        Those that end about together come back together: to wake for each of a hundred
        costs ten times as much as to wake for all of them.
        """
        grain = self._period / _GRAINS
        return (self._clock.monotonic() + self._period) // grain * grain
