"""Holds calls back after AWS has said that they are too many.

The client asks before each call. Several are under way at a time: those that were sent
before a pause began may be refused, too, and may be answered still, and neither says
anything of what comes after it. AWS counts describing and changing calls apart, so each of
the two has a pace of its own.
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

    def check(self) -> float:
        """Let a call pass, unless it would come too soon after a refusal.

        Returns:
            Monotonic seconds of now, when it is sent.

        Raises:
            Throttled: it would; nothing was sent.
        """
        now = self.clock.monotonic()
        if self._refused is not None and now < self._until:
            raise Throttled(self._refused, timedelta(seconds=self._until - now))
        return now

    def refuse(self, answered: Answered, sent: float) -> Throttled:
        """Take in that AWS refused a call; twice as long as the last time nothing is sent.

        A call that was sent before the pause began makes it no longer than AWS asks for.
        """
        now = self.clock.monotonic()
        rest = least = answered.retry_after or timedelta()
        if sent >= self._until:
            self._delay = max(min(max(self._delay * 2, FIRST), LONGEST), least)
            rest = max(self._delay * (0.5 + self.clock.jitter() / 2), least)
        self._refused = answered
        if rest:
            self._until = max(self._until, now + rest.total_seconds())
        return Throttled(answered, timedelta(seconds=max(self._until - now, 0.0)))

    def accept(self, sent: float) -> None:
        """Take in that AWS answered a call; after a pause, the next one is a short one."""
        if sent >= self._until:
            self._delay = timedelta()
