"""How long a process waits before it begins anew, having lost its Lease.

The first time it begins at once: whoever lost the lead by an outage is to be the standby of
whoever has it, soon. Where that happens again and again the API server is slow, and each
beginning asks it for lists of everything.
"""

from datetime import timedelta
from typing import Final

from lbcf.core import backoff
from lbcf.runtime.clock import Clock


SOON: Final = timedelta(minutes=10)
"""A loss counts with the one before it, if that was no longer ago."""
LONGEST: Final = timedelta(seconds=30)
"""Nobody may lead meanwhile: two replicas that pause at once are no rarity then."""


class Losses:
    """Counts losses of the Lease in a row.

    Args:
        clock: the time, and chance.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = 0
        self._last = 0.0

    def pause_after(self) -> timedelta:
        """Take in a loss; return how long to wait before the next beginning."""
        now = self._clock.monotonic()
        if now - self._last > SOON.total_seconds():
            self._count = 0
        self._count, self._last = self._count + 1, now
        if self._count == 1:
            return timedelta(0)
        return backoff.delay_for(self._count - 1, self._clock.jitter(), cap=LONGEST)
