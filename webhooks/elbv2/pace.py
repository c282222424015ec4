"""Holds calls back after AWS has said that they are too many.

The client asks before each call. AWS counts describing and changing calls apart, so
each of the two has a pace of its own.
"""

from datetime import timedelta

import attrs

from lbcf.sdk import Clock
from webhooks.elbv2.errors import Answered, Throttled


FIRST = timedelta(seconds=1)
LONGEST = timedelta(seconds=30)


@attrs.define(eq=False)
class Pace:
    """When the next call may be made; one per account, region and kind of call.

    Attributes:
        clock: for the time, and for chance: those who wait must not come back at once.
    """

    clock: Clock
    _refused: Answered | None = attrs.field(default=None, init=False)
    _delay: timedelta = attrs.field(default=timedelta(), init=False)
    _until: float = attrs.field(default=0.0, init=False)

    def check(self) -> None:
        """Let a call pass, unless it would come too soon after a refusal.

        Raises:
            Throttled: it would; nothing was sent.
        """
        rest = self._until - self.clock.monotonic()
        if self._refused is not None and rest > 0:
            raise Throttled(self._refused, timedelta(seconds=rest))

    def refuse(self, answered: Answered) -> Throttled:
        """Take in that AWS refused; twice as long as the last time nothing is sent."""
        doubled = min(max(self._delay * 2, FIRST), LONGEST)
        self._delay = max(doubled, answered.retry_after or doubled)
        rest = self._delay * (0.5 + self.clock.jitter() / 2)
        rest = max(rest, answered.retry_after or rest)
        self._refused = answered
        self._until = self.clock.monotonic() + rest.total_seconds()
        return Throttled(answered, rest)

    def accept(self) -> None:
        """Take in that AWS answered."""
        self._refused, self._delay = None, timedelta()
