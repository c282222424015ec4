"""Somebody who watches a rollout from outside, and for whom it waits.

The rollouts of `tests.f5` and `tests.netscaler` ask a witness before they go on. In the
tests of a driver that is `Nobody`; in `tests.interop` a client of other people.
"""

import enum

from typing import Protocol


class Stage(enum.StrEnum):
    """What a member is, to whoever looks at its load balancer."""

    SERVING = "serving"
    DRAINING = "draining"
    """Out of service for new clients, with connections."""
    IDLE = "idle"
    """The same without."""
    OFFLINE = "offline"
    """Out of service for everybody, connections or not."""
    GONE = "gone"


class Witness(Protocol):
    """Who has to have seen a member in a stage before it may leave it."""

    async def until(self, address: str, stage: Stage) -> None:
        """Return once the member was seen so."""


class Nobody:
    """Nobody watches, nothing waits."""

    async def until(self, address: str, stage: Stage) -> None:
        """Return at once."""
