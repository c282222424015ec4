"""A lane for each driver, so that one that is slow or dead keeps nobody else waiting.

Between a `queue` and the reconcile function of a process. Its workers are shared by
all drivers. A record whose driver has as many turns under way as it bears calls, and as
many again waiting, leaves its worker at once and comes back when a turn of that driver
ends.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from lbcf.core.values import ObjectKey
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.result import Done, Result


K = TypeVar("K", bound=Hashable)
Leave = Callable[[], None]
"""Gives the place in the lane to the next record."""


class Lanes(Generic[K]):
    """Counts turns by driver, and keeps the keys that have to wait, in order.

    Args:
        queue: where keys come back to.
    """

    def __init__(self, queue: WorkQueue[K]) -> None:
        self._queue = queue
        self._under_way: defaultdict[ObjectKey, int] = defaultdict(int)
        self._parked: defaultdict[ObjectKey, OrderedDict[K, None]]
        self._parked = defaultdict(OrderedDict)

    async def turn(
        self,
        driver: ObjectKey,
        bears: int,
        record: K,
        visit: Callable[[], Awaitable[Result]],
    ) -> Result:
        """Visit a record if its driver's lane has room, else park it.

        Args:
            driver: whose lane.
            bears: how many calls the driver bears at a time.
            record: what is visited.
            visit: the turn itself.
        """
        return await self.turn_until(driver, bears, record, lambda _leave: visit())

    async def turn_until(
        self,
        driver: ObjectKey,
        bears: int,
        record: K,
        visit: Callable[[Leave], Awaitable[Result]],
    ) -> Result:
        """Visit a record as `turn` does; the visit may leave the lane before its end.

        Args:
            driver: whose lane.
            bears: how many calls the driver bears at a time.
            record: what is visited.
            visit: the turn itself; it calls its argument once the driver has done all
                that was asked of it, so that what is left to do keeps nobody waiting.
        """
        if self._under_way[driver] >= 2 * bears:
            self._parked[driver][record] = None
            return Done()
        self._under_way[driver] += 1
        staying = [driver]

        def leave() -> None:
            """Leave the lane, once."""
            if staying:
                self._leave(staying.pop())

        try:
            return await visit(leave)
        finally:
            leave()

    def _leave(self, driver: ObjectKey) -> None:
        """End a turn and let parked records come back.

        One takes the place of one. After the last turn all come back: a record that has
        gone in the meantime begins no turn, and would let those behind it lie.
        """
        self._under_way[driver] -= 1
        if self._under_way[driver]:
            parked = self._parked.get(driver)
            if parked:
                self._queue.add(parked.popitem(last=False)[0])
            return
        del self._under_way[driver]
        for record in self._parked.pop(driver, ()):
            self._queue.add(record)
