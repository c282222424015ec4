"""Keys to look at: between the triggers that name them and the workers that reconcile.

A key stands for "look at this again", so any number of adds before a worker takes
it are one. Rules:

1. A key is with at most one worker at a time.
2. A key added while it is in work is given out again after `done`, not before.
3. A key added for later and again for later comes at the earlier of the two moments;
   added for now, it comes now, and the later moment is forgotten.
4. Groups of keys, such as namespaces, take turns: thousands of keys of one keep a key of
   another waiting for one of them.
5. Within a group urgent keys go first, yet after `URGENT_IN_A_ROW` of them one other key
   has its turn.

All calls come from the one event loop; nothing here is safe between threads.
"""

import asyncio
import contextlib
import heapq
import itertools

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from datetime import timedelta
from typing import Generic, NamedTuple, TypeVar

from lbcf.core.model.values import ObjectKey
from lbcf.runtime.clock import Clock
from lbcf.runtime.fair_queue import FairQueue
from lbcf.runtime.metrics import Metrics


K = TypeVar("K", bound=Hashable)

_TOLERATED = 64
"""Outdated entries that are never worth a rebuild."""


class _Wait(NamedTuple):
    """One entry: ordered by moment, then by arrival; keys are never compared."""

    moment: float
    arrival: int
    urgent: bool


class Delays(Generic[K]):
    """Moments in monotonic seconds, one per key; `len()` counts the keys.

    A heap of moments beside a dict that says which of them still hold. Moving a key leaves
    its old entry in the heap, where it is skipped; the heap is built anew when such
    entries are the greater part.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []
        self._waits: dict[K, _Wait] = {}
        self._arrivals = itertools.count()

    def __len__(self) -> int:
        return len(self._waits)

    def set(self, key: K, moment: float, *, urgent: bool) -> bool:
        """Schedule the key for the moment, unless it comes earlier anyway.

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
        """Unschedule the key; return whether it was an urgent one."""
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
        while self._heap and not self._holds(self._heap[0]):
            heapq.heappop(self._heap)

    def _holds(self, entry: tuple[float, int, K]) -> bool:
        wait = self._waits.get(entry[2])
        return wait is not None and wait.arrival == entry[1]

    def _shrink(self) -> None:
        if len(self._heap) > 2 * len(self._waits) + _TOLERATED:
            self._heap = [entry for entry in self._heap if self._holds(entry)]
            heapq.heapify(self._heap)


URGENT_IN_A_ROW = 8
"""How many urgent keys go before one that is not."""
_URGENT, _NORMAL = 0, 1


class QueueClosed(Exception):  # noqa: N818 - an end, not an error
    """The queue gives out no more keys."""


class WorkQueue(Generic[K]):
    """A queue that merges equal keys, delays them, and keeps each with one worker.

    `len()` is the number of keys that are due and not taken.

    Args:
        name: of the queue, for metrics and logs.
        clock: the time.
        metrics: told of keys, None where nobody reads them.
        group_of: says to which group a key belongs; groups take turns.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        metrics: Metrics | None = None,
        *,
        group_of: Callable[[K], Hashable] = lambda _key: None,
    ) -> None:
        self.name = name
        self.group_of = group_of
        self._clock = clock
        self._due: FairQueue[K] = FairQueue(in_a_row=URGENT_IN_A_ROW)
        self._due_since: dict[K, float] = {}
        self._started: dict[K, float] = {}
        self._again: dict[K, bool] = {}
        self._delays: Delays[K] = Delays()
        self._timer: asyncio.TimerHandle | None = None
        self._takers: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._metrics = metrics and metrics.of_queue(
            name,
            depth=self.__len__,
            unfinished=self._unfinished_seconds,
            longest=self._longest_seconds,
        )

    def __len__(self) -> int:
        return len(self._due)

    @property
    def in_work(self) -> int:
        """Number of keys that workers have now."""
        return len(self._started)

    @property
    def delayed(self) -> int:
        """Number of keys that wait for their moment."""
        return len(self._delays)

    @property
    def idle(self) -> bool:
        """Whether no key is due, and none is in work; some may be delayed."""
        return not self._started and not len(self)

    def add(self, key: K, *, urgent: bool = False) -> None:
        """Queue the key for the next free worker; nothing happens once closed.

        Args:
            key: what to look at.
            urgent: before the keys that are not; sticks until the key is taken.
        """
        if self._closed:
            return
        urgent = self._delays.forget(key) or urgent
        if key in self._started:
            self._add_again(key, urgent=urgent)
        else:
            self._add_due(key, urgent=urgent)

    def add_after(self, key: K, delay: timedelta, *, urgent: bool = False) -> None:
        """Queue the key after the delay; an earlier moment that is set already holds.

        Needs a running loop, whose timer it uses.
        """
        if self._closed:
            return
        if delay <= timedelta(0):
            self.add(key, urgent=urgent)
            return
        if self._metrics:
            self._metrics.retries.inc()
        if self._is_due(key):
            self.add(key, urgent=urgent)
            return
        moment = self._clock.monotonic() + delay.total_seconds()
        if self._delays.set(key, moment, urgent=urgent):
            self._wind_timer()

    async def get(self) -> K:
        """Wait for a key and take it; give it back with `done`.

        A call that is cancelled has taken none.

        Raises:
            QueueClosed: `shutdown` was called, before or while waiting.
        """
        while not self._closed and not len(self):
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                self._pass_on(taker)
                raise
        if self._closed:
            raise QueueClosed(f"queue {self.name} gives out no more keys")
        return self._take()

    def done(self, key: K) -> None:
        """Note that the worker is through with a key that it got.

        Raises:
            KeyError: no worker has that key.
        """
        seconds = self._clock.monotonic() - self._started.pop(key)
        if self._metrics:
            self._metrics.worked.observe(seconds)
        if key in self._again:
            self._put(key, urgent=self._again.pop(key))

    def is_in_work(self, key: K) -> bool:
        """Return whether a worker has the key."""
        return key in self._started

    def shutdown(self) -> None:
        """Close the queue; keys in work may still be `done`."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
        while self._takers:
            self._wake_taker()

    def _is_due(self, key: K) -> bool:
        return key in self._due or key in self._again

    def _add_again(self, key: K, *, urgent: bool) -> None:
        if key not in self._again and self._metrics:
            self._metrics.adds.inc()
        self._again[key] = urgent or self._again.get(key, False)

    def _add_due(self, key: K, *, urgent: bool) -> None:
        """Queue a key; one that waits already may become urgent."""
        if key in self._due:
            self._due.add(key, self.group_of(key), _URGENT if urgent else _NORMAL)
            return
        if self._metrics:
            self._metrics.adds.inc()
        self._put(key, urgent=urgent)

    def _put(self, key: K, *, urgent: bool) -> None:
        self._due.add(key, self.group_of(key), _URGENT if urgent else _NORMAL)
        self._due_since[key] = self._clock.monotonic()
        self._wake_taker()

    def _take(self) -> K:
        """Move the next key into work."""
        key = self._due.pop()
        assert key is not None  # noqa: S101 - tells mypy that one is due
        now = self._clock.monotonic()
        self._started[key] = now
        due = self._due_since.pop(key)
        if self._metrics:
            self._metrics.queued.observe(now - due)
        return key

    def _wake_taker(self) -> None:
        """Wake the first taker that still waits."""
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _pass_on(self, taker: "asyncio.Future[None]") -> None:
        """Clean up after a cancelled taker."""
        # Woken for a key and cancelled before it ran: without this, the key would
        # lie there while the other takers sleep.
        if taker.done() and not taker.cancelled():
            self._wake_taker()
            return
        # An add between the cancellation and now may have thrown it out already.
        with contextlib.suppress(ValueError):
            self._takers.remove(taker)

    def _wind_timer(self) -> None:
        """Set the one timer to the earliest moment, unless it stands there already."""
        moment = self._delays.earliest()
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if moment is not None:
            delay = moment - self._clock.monotonic()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(delay, 0.0), self._release)

    def _release(self) -> None:
        self._timer = None
        for key, urgent in self._delays.take_until(self._clock.monotonic()):
            self.add(key, urgent=urgent)
        self._wind_timer()

    def _unfinished_seconds(self) -> float:
        now = self._clock.monotonic()
        return sum(now - started for started in self._started.values())

    def _longest_seconds(self) -> float:
        # A dict keeps its order, so the first is the oldest.
        oldest = next(iter(self._started.values()), None)
        return 0.0 if oldest is None else self._clock.monotonic() - oldest


class ReconnectNotifier:
    """Requeues records when a driver that they could not reach can be reached again.

    A record whose driver cannot be reached comes back after a pause that grows to minutes;
    the first call that gets through, of whichever record, ends that pause for all that
    wait for the same driver.

    Args:
        queue: where keys come back to.
        on_end: takes what is to be told of records that are gone: they are forgotten, though
            their driver may be gone as well, and never reached.
    """

    def __init__(
        self,
        queue: WorkQueue[ObjectKey],
        on_end: Callable[[Callable[[ObjectKey], None]], None],
    ) -> None:
        on_end(self._forget)
        self._queue = queue
        self._waiting: defaultdict[ObjectKey, dict[ObjectKey, None]] = defaultdict(dict)

    def __len__(self) -> int:
        """Return for how many drivers somebody waits."""
        return len(self._waiting)

    def missed(self, driver: ObjectKey, record: ObjectKey) -> None:
        """Note that nothing reached the driver."""
        self._waiting[driver][record] = None

    def reached(self, driver: ObjectKey, record: ObjectKey) -> None:
        """Bring back all that wait for a driver, but the one that has just reached it."""
        waiting = self._waiting.pop(driver, {})
        waiting.pop(record, None)
        for key in waiting:
            self._queue.add(key)

    def _forget(self, record: ObjectKey) -> None:
        # Few drivers are waited for at a time.
        for driver, waiting in tuple(self._waiting.items()):
            waiting.pop(record, None)
            if not waiting:
                del self._waiting[driver]
