"""A lane for each driver, so that one that is slow or dead keeps nobody else waiting.

Between a `queue` and the reconcile function of a process. Its workers are shared by
all drivers. A record whose driver has as many turns under way as it bears calls, and as
many again waiting, leaves its worker at once and comes back when a turn of that driver
ends. Where some of a turn may wait while other records begin theirs, it has a lane of
its own.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

import attrs

from lbcf.core.values import ObjectKey
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.result import Done, Result


K = TypeVar("K", bound=Hashable)


class Lanes(Generic[K]):
    """Counts turns by driver, and keeps the keys that have to wait, in order.

    Args:
        queue: where keys come back to.
    """

    def __init__(self, queue: WorkQueue[K]) -> None:
        self._queue = queue
        self._under_way: defaultdict[Hashable, int] = defaultdict(int)
        self._parked: defaultdict[Hashable, OrderedDict[K, None]]
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
        return await self.turn_from(Lane(driver, bears), record, lambda _place: visit())

    async def turn_from(
        self, lane: "Lane", record: K, visit: Callable[["Place"], Awaitable[Result]]
    ) -> Result:
        """Visit a record as `turn` does; the visit may change to another lane.

        Args:
            lane: where the turn begins.
            record: what is visited.
            visit: the turn itself.
        """
        if not self.enter(lane):
            self._parked[lane.key][record] = None
            return Done()
        place = Place(self, lane)
        try:
            return await visit(place)
        finally:
            place.leave()

    def enter(self, lane: "Lane") -> bool:
        """Count a turn in a lane, if that has room."""
        if not self._has_room(lane):
            return False
        self._under_way[lane.key] += 1
        return True

    def _has_room(self, lane: "Lane") -> bool:
        """Tell whether one more turn may be under way."""
        return self._under_way.get(lane.key, 0) < 2 * lane.bears

    def leave(self, lane: "Lane") -> None:
        """Count a turn no more and let parked records come back.

        One takes the place of one. After the last turn all come back: a record that has
        gone in the meantime begins no turn, and would let those behind it lie.
        """
        key = lane.key
        self._under_way[key] -= 1
        if self._under_way[key]:
            parked = self._parked.get(key)
            if parked:
                self._queue.add(parked.popitem(last=False)[0])
            return
        del self._under_way[key]
        for record in self._parked.pop(key, ()):
            self._queue.add(record)


@attrs.frozen
class Lane:
    """One of the lanes.

    Attributes:
        key: whose lane, or of what.
        bears: how much of it is done at a time; as many turns again may wait in it.
    """

    key: Hashable
    bears: int


class Place:
    """Where a turn is counted, if anywhere."""

    def __init__(self, lanes: Lanes[Any], lane: Lane) -> None:
        self._lanes = lanes
        self._lane: Lane | None = lane

    def leave(self) -> None:
        """Go on outside all lanes: what is left to do needs nothing that is scarce."""
        left, self._lane = self._lane, None
        if left is not None:
            self._lanes.leave(left)

    def change_to(self, lane: Lane) -> bool:
        """Go on in a lane, if that has room; else the turn is to end here."""
        if self._lane is not None and self._lane.key == lane.key:
            return True
        if not self._lanes.enter(lane):
            return False
        self.leave()
        self._lane = lane
        return True
