"""The loop that a run is made in: busy ones are noticed, paused processes stand still.

`run` makes it; `process` lets its process stand still in it. What belongs to a process
is known by the context of each callback.
"""

import asyncio
import contextvars
import heapq

from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from tests.fakes.loop import VirtualLoop


MOST_SPINS = 20_000
"""Turns of the loop in one moment; a run has a few hundred in all."""

_LATE = 1e-6
"""Seconds by which timers ring late; timedelta has nothing shorter."""
_IN_ORDER = 1e-12
"""Seconds between timers that ring in the same turn of the loop, one after another."""

Owns = Callable[[contextvars.Context], bool]
"""Tells whether a callback belongs to somebody, by its context."""


@attrs.define(eq=False)
class _Standstill:
    """Somebody stands still.

    Attributes:
        until: seconds of the loop.
        held: what would have run meanwhile, in order.
    """

    owns: Owns
    until: float
    held: list[asyncio.Handle] = attrs.Factory(list)


class BusyLoop(VirtualLoop):
    """Notices when everybody is busy and time stands still."""

    _ready: deque[Any]
    _scheduled: list[Any]

    def __init__(self) -> None:
        super().__init__()
        self.on_spin: Callable[[], None] = lambda: None
        self._moment = -1.0
        self._spins = 0
        self._standing: list[_Standstill] = []

    def jump(self, seconds: float) -> None:
        """Move the time on, a little too far: timers ring late, never early.

        One that rings early by the grain of a float, or by what timedelta rounds off,
        finds that it is too early, and waits for nothing, for ever: time stands still
        here until nobody is busy.
        """
        super().jump(seconds + _LATE)

    def stand_still(
        self, owns: Owns, seconds: float, then: Callable[[], None]
    ) -> Callable[[], None]:
        """Let nothing of somebody run for a while, as a stopped process does.

        A callback under way is carried through: between two awaits nothing is held. Its
        timers ring when it wakes, however long ago they should have.

        Args:
            owns: what is held.
            seconds: how long.
            then: called at the end; brings in what came meanwhile.

        Returns:
            What ends it early.
        """
        still = _Standstill(owns, self.time() + seconds)
        self._standing.append(still)

        def end() -> None:
            """Let it go on: what was ready first, its timers, then what came in."""
            if still in self._standing:
                self._standing.remove(still)
                self._ready.extendleft(reversed(still.held))
                then()

        # Whoever waits for its end must not stand still himself.
        self.call_later(seconds, end, context=contextvars.Context())
        return end

    def put_off(self, owns: Owns, seconds: float) -> None:
        """Let the timers of somebody ring later: the clock that they go by stands still."""
        for timer in self._scheduled:
            if owns(timer._context):  # noqa: SLF001 - nothing public tells it
                timer._when += seconds  # noqa: SLF001
        heapq.heapify(self._scheduled)

    def _run_once(self) -> None:
        """Run what is ready, as every loop does."""
        if self._elapsed != self._moment:
            self._moment, self._spins = self._elapsed, 0
        self._spins += 1
        if self._spins > MOST_SPINS:
            self._spins = 0
            self.on_spin()
        for still in self._standing:
            self._hold(still)
        super()._run_once()  # type: ignore[misc]

    def _hold(self, still: _Standstill) -> None:
        """Take away what is ready, and put off what is due before the end."""
        ready = list(self._ready)
        self._ready.clear()
        for handle in ready:
            held = still.owns(handle._context)  # noqa: SLF001 - nothing public tells it
            (still.held if held else self._ready).append(handle)
        early = [
            timer
            for timer in self._scheduled
            if timer.when() < still.until and still.owns(timer._context)  # noqa: SLF001
        ]
        for number, timer in enumerate(sorted(early, key=asyncio.TimerHandle.when)):
            timer._when = still.until + number * _IN_ORDER  # noqa: SLF001
        if early:
            heapq.heapify(self._scheduled)
