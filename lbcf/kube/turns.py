"""Who goes next where more is to be asked of the API server than it answers at a time.

`transport` asks here before each request but watches. The order follows what users
feel: ends first, and what is read to allow them; then what completes work under way;
what begins new work comes last, so that nothing is begun faster than it is completed.
"""

import asyncio
import contextlib
import heapq
import itertools

from collections.abc import AsyncIterator, Mapping
from typing import Final

from lbcf.kube.exchange import Method, Request


_RANKS: Final[Mapping[Method, int]] = {"DELETE": 0, "GET": 0, "PATCH": 1, "POST": 2}


class Turns:
    """A number of places, given to the most urgent of those who wait.

    Args:
        places: requests at a time.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._arrivals = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @contextlib.asynccontextmanager
    async def of(self, request: Request) -> AsyncIterator[None]:
        """Hold a place inside the block."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(_RANKS[request.method])
        try:
            yield
        finally:
            self._pass_on()

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
        """Give a place to the next one who still waits."""
        while self._waiting:
            place = heapq.heappop(self._waiting)[2]
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
