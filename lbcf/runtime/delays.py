"""Keys that wait for their moment: the part of `queue` that knows no event loop.

A heap of moments beside a dict that says which of them still hold. Moving a key
leaves its old entry in the heap; it is skipped when it comes up, and the heap is
built anew when such entries are the greater part.
"""

import heapq
import itertools

from collections.abc import Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar


K = TypeVar("K", bound=Hashable)

_TOLERATED = 64
"""Outdated entries that are never worth a rebuild."""


class _Wait(NamedTuple):
    """One entry: ordered by moment, then by arrival; keys are never compared."""

    moment: float
    arrival: int
    urgent: bool


class Delays(Generic[K]):
    """Moments in monotonic seconds, one per key; `len()` counts the keys."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []
        self._waits: dict[K, _Wait] = {}
        self._arrivals = itertools.count()

    def __len__(self) -> int:
        return len(self._waits)

    def set(self, key: K, moment: float, *, urgent: bool) -> bool:
        """Have the key come at the moment, unless it comes earlier anyway.

        Urgency adds up. Returns whether the earliest moment of all is now this one.
        """
        known = self._waits.get(key)
        if known and known.moment <= moment:
            self._waits[key] = known._replace(urgent=known.urgent or urgent)
            return False
        urgent = urgent or (known is not None and known.urgent)
        arrival = next(self._arrivals)
        self._waits[key] = _Wait(moment, arrival, urgent)
        heapq.heappush(self._heap, (moment, arrival, key))
        self._shrink()
        return self._heap[0][1] == arrival

    def forget(self, key: K) -> bool:
        """Let the key wait no longer; return whether it was an urgent one."""
        wait = self._waits.pop(key, None)
        self._shrink()
        return wait is not None and wait.urgent

    def earliest(self) -> float | None:
        """Return the moment of the key that comes first; None when none waits."""
        self._drop_outdated()
        return self._heap[0][0] if self._heap else None

    def take_until(self, now: float) -> Iterator[tuple[K, bool]]:
        """Take out the keys that are due, in order, each with its urgency."""
        while (moment := self.earliest()) is not None and moment <= now:
            key = heapq.heappop(self._heap)[2]
            yield key, self._waits.pop(key).urgent

    def _drop_outdated(self) -> None:
        """Remove entries from the top that no longer hold."""
        while self._heap and not self._holds(self._heap[0]):
            heapq.heappop(self._heap)

    def _holds(self, entry: tuple[float, int, K]) -> bool:
        """Whether the entry is the one its key waits by."""
        wait = self._waits.get(entry[2])
        return wait is not None and wait.arrival == entry[1]

    def _shrink(self) -> None:
        """Build the heap anew when most of it is outdated."""
        if len(self._heap) > 2 * len(self._waits) + _TOLERATED:
            self._heap = [entry for entry in self._heap if self._holds(entry)]
            heapq.heapify(self._heap)
