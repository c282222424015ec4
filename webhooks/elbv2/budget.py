"""How often target groups are read at rest: all of a region share one budget, by turns.

Controllers list each load balancer every two seconds. AWS bears 10 describing calls per
second for a whole account and region, 40 at once (docs, elb-api-throttling), and others call
it, too. So a listing is told from the last reading again until its target group has
its turn; what waits for something, such as a drain, reads without one.
"""

import math

from datetime import timedelta

import attrs


SPACING = timedelta(milliseconds=200)
"""Of turns: half of what AWS bears is left to operations, and to others."""

AT_ONCE = 10
"""Turns that may come together, so that a few target groups never wait for each other."""


@attrs.define(eq=False)
class Budget:
    """The turns of all target groups of an account and region.

    A turn that nobody takes, as that of a load balancer which is deleted, is lost, and
    keeps no other waiting.
    """

    _spent: float = attrs.field(default=-math.inf, init=False)

    def turn(self, earliest: float) -> float:
        """Return when a target group has its next turn: at that moment or later.

        All in monotonic seconds.
        """
        spacing = SPACING.total_seconds()
        self._spent = max(self._spent, earliest) + spacing
        return max(earliest, self._spent - AT_ONCE * spacing)
