"""Who goes next where more is to be asked of the API server than it answers at a time.

`transport` asks here before each request but watches. The order follows what users
feel: ends first, and what is read to allow them; then what completes work under way,
statuses before finalizers, which are in no hurry; what begins new work comes last, so
that nothing is begun faster than it is completed.
"""

import asyncio
import contextlib
import heapq
import itertools

from collections.abc import AsyncIterator, Mapping
from typing import Final

from lbcf.kube.exchange import Method, Request


_RANKS: Final[Mapping[Method, int]] = {"DELETE": 0, "GET": 0, "PATCH": 2, "POST": 3}
_STATUS: Final = 1


def _rank_of(request: Request) -> int:
    """Say how urgent a request is; the smaller, the more."""
    if request.path.endswith("/status"):
        return _STATUS
    return _RANKS[request.method]


class Turns:
    """A number of places, given to the most urgent of those who wait.

    Args:
        places: requests at a time.
        kept: places beside them for the most urgent requests alone.
    """

    def __init__(self, places: int, *, kept: int = 0) -> None:
        self._free = places + kept
        self._kept = kept
        self._arrivals = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @contextlib.asynccontextmanager
    async def of(self, request: Request) -> AsyncIterator[None]:
        """Hold a place inside the block."""
        rank = _rank_of(request)
        if self._is_room_for(rank):
            self._free -= 1
        else:
            await self._wait(rank)
        try:
            yield
        finally:
            self._pass_on()

    def _is_room_for(self, rank: int) -> bool:
        """Tell whether a request of a rank may go now."""
        return self._free > (self._kept if rank else 0)

    async def _wait(self, rank: int) -> None:
        """Wait for a place that somebody leaves."""
        place = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (rank, next(self._arrivals), place))
        try:
            await place
        except asyncio.CancelledError:
            # Cancelled in the turn of the loop in which the place was given.
            if place.done() and not place.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give a place to the next one who still waits, and may have it."""
        self._free += 1
        while self._waiting and self._is_room_for(self._waiting[0][0]):
            place = heapq.heappop(self._waiting)[2]
            if not place.done():
                self._free -= 1
                place.set_result(None)
