"""When it is told that something is well or not that was read again and again.

One failed reading says nothing yet. What is well one moment and not the next one (flaps)
is told less and less often: that it is not well always soon, that it is well again only
after it has been for a while, which is longer after each fall.
"""

from datetime import timedelta

import attrs

from lbcf.core.backoff import delay_for


READINGS = 2
"""Readings in a row that must have said that something is not well."""
LASTING = timedelta(seconds=5)
"""How long after the first of them the last one must have been."""
CALM = timedelta(minutes=10)
"""After so long without a fall the next one is the first again."""
_BASE = timedelta(seconds=15)
_CAP = timedelta(minutes=10)
"""Twice the longest time for which it must have been well: jitter is 0."""


@attrs.frozen
class Steadiness:
    """What was read of something, and what is to be told of it.

    Attributes:
        is_well: what is told.
        readings: how many in a row have said otherwise.
        since: monotonic seconds of the first of these.
        falls: how often it was told not to be well, in a row without calm.
        fell_at: monotonic seconds of the last time.
    """

    is_well: bool = True
    readings: int = 0
    since: float = 0.0
    falls: int = 0
    fell_at: float = 0.0

    def read(self, now: float, *, is_well: bool) -> "Steadiness":
        """Return the state after one more reading."""
        if is_well is self.is_well:
            return attrs.evolve(self, readings=0, since=0.0)
        since = self.since if self.readings else now
        readings = self.readings + 1
        needed = 1 if is_well else READINGS
        if readings < needed or timedelta(seconds=now - since) < self._lasting():
            return attrs.evolve(self, readings=readings, since=since)
        if is_well:
            return Steadiness(True, falls=self.falls, fell_at=self.fell_at)
        is_calm = timedelta(seconds=now - self.fell_at) >= CALM
        return Steadiness(False, falls=1 if is_calm else self.falls + 1, fell_at=now)

    def _lasting(self) -> timedelta:
        """Return how long readings must have said the other thing."""
        if self.is_well:
            return LASTING
        if self.falls <= 1:
            return timedelta(0)
        return delay_for(self.falls - 1, 0.0, base=_BASE, cap=_CAP)
