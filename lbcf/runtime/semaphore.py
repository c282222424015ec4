"""A semaphore with priorities, whose places are shared out fairly among groups.

Requests of the API server (`lbcf.kube.transport`) and calls of drivers
(`lbcf.drivers.pool`) wait for their places here, by namespace: each namespace that waits
gets a place in turn, for the most urgent of what it waits for.
"""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Hashable

from lbcf.runtime.fair_queue import FairQueue


class PrioritySemaphore:
    """A number of places.

    Args:
        places: how many there are for anybody.
        kept: places beside them for rank 0 alone.
        in_a_row: how often a group's rank 0 goes before what else the group waits for;
            None: always.

    Attributes:
        inside: how many places are taken.
    """

    def __init__(
        self, places: int, *, kept: int = 0, in_a_row: int | None = None
    ) -> None:
        self.inside = 0
        self._places = places
        self._kept = kept
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue(in_a_row=in_a_row)

    @property
    def is_idle(self) -> bool:
        """Return whether nobody is inside or waits."""
        return not self.inside and not self._waiting

    def resize(self, places: int) -> None:
        """Change the number of places; a lower one throws nobody out."""
        if places != self._places:
            self._places = places
            self._admit()

    @contextlib.asynccontextmanager
    async def held(
        self, *, group: Hashable = None, rank: int = 0
    ) -> AsyncIterator[None]:
        """Hold a place inside the block.

        Args:
            group: groups that wait get places in turn.
            rank: the smaller, the sooner within a group.
        """
        await self.acquire(group=group, rank=rank)
        try:
            yield
        finally:
            self.release()

    async def acquire(self, *, group: Hashable = None, rank: int = 0) -> None:
        """Wait for a place."""
        # Nobody waits who could have it: each place that falls free is given at once.
        if self.inside < self._open_to(rank):
            self.inside += 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.add(place, group, rank)
        try:
            await place
        except asyncio.CancelledError:
            self._waiting.discard(place)
            if place.done() and not place.cancelled():
                # Cancelled in the turn of the loop in which the place was given.
                self.release()
            raise

    def release(self) -> None:
        """Release a place."""
        self.inside -= 1
        self._admit()

    def _open_to(self, rank: int) -> int:
        return self._places + (0 if rank else self._kept)

    def _admit(self) -> None:
        """Wake the next waiters, as long as there are places for them."""
        while self.inside < self._open_to(0):
            only_first = self.inside >= self._places
            place = self._waiting.pop(first_only=only_first)
            if place is None:
                return
            # A cancelled one's task has not run since, so it stands here still.
            if not place.done():
                self.inside += 1
                place.set_result(None)


class KeyedSemaphores:
    """A semaphore for each key; those that nobody needs take no memory.

    `len()` is the number of keys that somebody holds or waits for.
    """

    def __init__(self, *, in_a_row: int | None = None) -> None:
        self._in_a_row = in_a_row
        self._semaphores: dict[Hashable, PrioritySemaphore] = {}

    def __len__(self) -> int:
        return len(self._semaphores)

    @contextlib.asynccontextmanager
    async def held(
        self, key: Hashable, places: int, *, group: Hashable = None, rank: int = 0
    ) -> AsyncIterator[None]:
        """Hold a place of a key inside the block.

        Args:
            key: whose places.
            places: how many it has from now on.
            group: groups that wait get places in turn.
            rank: the smaller, the sooner within a group.
        """
        found = self._semaphores.get(key)
        if found is None:
            found = PrioritySemaphore(places, in_a_row=self._in_a_row)
            self._semaphores[key] = found
        found.resize(places)
        try:
            await found.acquire(group=group, rank=rank)
            try:
                yield
            finally:
                found.release()
        finally:
            if found.is_idle and self._semaphores.get(key) is found:
                del self._semaphores[key]
