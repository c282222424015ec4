"""What was seen last, told again for a while: for listings, which come again and again.

Controllers list each load balancer every two seconds; a device has few workers. Drivers
look anew after each change of their own, and what others change is seen a while later.
"""

import asyncio

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Generic, TypeVar

import attrs

from lbcf.sdk import Clock


LOOK_PERIOD = timedelta(seconds=10)
"""A device is asked for all members of a load balancer at most so often, unless they were
changed."""

_T = TypeVar("_T")


@attrs.define(eq=False)
class Looks(Generic[_T]):
    """The last look at one thing."""

    _changes: int = attrs.field(default=0, init=False)
    _last: tuple[_T, int, float] | None = attrs.field(default=None, init=False)
    _turn: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)

    def note_change(self) -> None:
        """Note that the driver is about to change something, or has."""
        self._changes += 1

    async def lately(
        self, look: Callable[[], Awaitable[_T]], clock: Clock, period: timedelta
    ) -> _T:
        """Return what was seen within the period, unless something was changed since.

        Who asks while another one looks waits for that.

        Args:
            look: looks anew.
            clock: for the period.
            period: from the beginning of a look.

        Raises:
            Exception: whatever `look` raised.
        """
        async with self._turn:
            now, changes = clock.monotonic(), self._changes
            if self._last is not None:
                seen, before, until = self._last
                if before == changes and now < until:
                    return seen
            seen = await look()
            # What was changed meanwhile may not be in it.
            self._last = (seen, changes, now + period.total_seconds())
            return seen
