"""How many calls go on at a time, for each driver and for each load balancer.

`lbcf.drivers.pool` keeps a gate per key. Calls that end traffic go ahead of the rest;
among equals, whoever came first goes first. The limit may change at any time, as the
object that holds it is edited.
"""

import asyncio
import collections
import contextlib

from collections.abc import AsyncIterator, Hashable


class Gate:
    """Lets so many through at a time: those ahead, then the others, as they came.

    Attributes:
        inside: how many are through now.
    """

    def __init__(self, limit: int) -> None:
        self.inside = 0
        self._limit = limit
        self._ahead: collections.deque[asyncio.Future[None]] = collections.deque()
        self._waiting: collections.deque[asyncio.Future[None]] = collections.deque()

    @property
    def is_idle(self) -> bool:
        """Tell whether nobody is inside or waits."""
        return not self.inside and not self._ahead and not self._waiting

    def resize(self, limit: int) -> None:
        """Change the limit; a lower one throws nobody out."""
        self._limit = limit
        self._admit()

    async def enter(self, *, ahead: bool = False) -> None:
        """Wait for a place behind all who wait already, or all who are ahead."""
        place = asyncio.get_running_loop().create_future()
        row = self._ahead if ahead else self._waiting
        row.append(place)
        self._admit()
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                with contextlib.suppress(ValueError):
                    row.remove(place)
            else:
                # Cancelled in the turn of the loop in which the place was given.
                self.leave()
            raise

    def leave(self) -> None:
        """Give the place back."""
        self.inside -= 1
        self._admit()

    def _admit(self) -> None:
        """Let the next ones in, as long as there are places."""
        while self.inside < self._limit and (row := self._ahead or self._waiting):
            place = row.popleft()
            # A cancelled one's task has not run since, so it stands here still.
            if not place.cancelled():
                self.inside += 1
                place.set_result(None)


class Gates:
    """A gate per key; those that nobody needs take no memory."""

    def __init__(self) -> None:
        self._gates: dict[Hashable, Gate] = {}

    @contextlib.asynccontextmanager
    async def through(
        self, key: Hashable, limit: int, *, ahead: bool = False
    ) -> AsyncIterator[None]:
        """Be one of at most `limit` with this key inside the block.

        Args:
            key: whose gate.
            limit: how many there may be from now on.
            ahead: go before all who wait and are not.
        """
        gate = self._gates.setdefault(key, Gate(limit))
        gate.resize(limit)
        try:
            await gate.enter(ahead=ahead)
            try:
                yield
            finally:
                gate.leave()
        finally:
            if gate.is_idle and self._gates.get(key) is gate:
                del self._gates[key]

    def __len__(self) -> int:
        """Return how many keys have somebody inside or waiting."""
        return len(self._gates)
