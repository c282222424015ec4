"""What was seen last, told again for a while: for listings, which come again and again.

Controllers list each load balancer every two seconds; a device has few workers. Drivers
look anew after each change of their own, and for a while after it as long as a member is
down: readiness gates wait for it. What others change is seen a while later.
"""

import asyncio
import math

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Generic, TypeVar

import attrs

from lbcf.sdk import Clock


LOOK_PERIOD = timedelta(seconds=10)
"""A device is asked for all members of a load balancer at most so often, unless they were
changed."""

FIRST_CHECKS = timedelta(seconds=30)
"""For so long after a change of the driver's own, members may wait for their first checks."""

_T = TypeVar("_T")


@attrs.define(eq=False)
class Looks(Generic[_T]):
    """The last look at one thing."""

    _changes: int = attrs.field(default=0, init=False)
    _known: int = attrs.field(default=0, init=False)
    _last: tuple[_T, float] | None = attrs.field(default=None, init=False)
    _checked_by: float = attrs.field(default=-math.inf, init=False)
    _turn: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)

    def note_change(self) -> None:
        """Note that the driver is about to change something, or has."""
        self._changes += 1

    async def lately(
        self,
        look: Callable[[], Awaitable[_T]],
        clock: Clock,
        period: timedelta,
        *,
        has_down: Callable[[_T], bool],
    ) -> _T:
        """Return what was seen within the period, unless something was changed since.

        For `FIRST_CHECKS` after a change, no look is told again either at which a member was
        down: it may be a new one, which is soon to be up.

        Who asks while another one looks waits for that.

        Args:
            look: looks anew.
            clock: for the period.
            period: from the beginning of a look.
            has_down: tells of a look whether a member is down there.

        Raises:
            Exception: whatever `look` raised.
        """
        async with self._turn:
            now, changes = clock.monotonic(), self._changes
            if changes != self._known:
                self._checked_by = now + FIRST_CHECKS.total_seconds()
            elif self._last is not None and now < self._last[1]:
                return self._last[0]
            seen = await look()
            is_checked = now < self._checked_by and has_down(seen)
            until = now if is_checked else now + period.total_seconds()
            # What was changed meanwhile may not be in it.
            self._known, self._last = changes, (seen, until)
            return seen
