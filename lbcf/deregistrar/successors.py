"""Writes into records that wait for an address that its holder has left no call out.

That is so where each call for its end, all of them this process's own, had a definite
answer, or is over by its own time: none can take effect any more. Whoever waits for that
record's end has it in its status then (`waitingFor.ended`), and its registrar takes the
lock over at once. Until then it says since when the latest call is out
(`waitingFor.goneAt`), for a registrar of this machine to count from there. A crash forgets
who has ended; what was not written by then is waited for as long as if the holder had
called until its end.
"""

import math

from collections.abc import Iterator, Mapping
from datetime import timedelta

import attrs
import structlog

from lbcf.core.lifecycle.deregistration import LateCalls
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, LoadBalancerDriver, Waiting
from lbcf.core.model.values import BootTime, ObjectKey, Uid
from lbcf.core.reasons import Explanation
from lbcf.deregistrar.noted_calls import NotedCalls, NotedEnd
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import Conflict, NotFound
from lbcf.kube.store import Store
from lbcf.runtime.clock import Clock
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, RequeueAfter, Result
from lbcf.wire.records import render_status_update


_MOST_REMEMBERED = 100_000
"""Ends; with more in an hour the oldest are forgotten, and their locks time out."""
_ANEW = timedelta(seconds=1)

_log = structlog.get_logger(__name__)


def holder_of(record: BackendRecord) -> Iterator[Uid]:
    """Index records by the one whose end they wait for and have not been told of."""
    waiting = record.status.waiting
    if waiting is not None and not waiting.is_over:
        yield waiting.holder


def is_waiting(record: BackendRecord) -> bool:
    """Return whether a record is to be told of another one's end."""
    return not record.is_deleting and any(holder_of(record))


class Successors:
    """Remembers who has ended, and writes down for those who wait that no call is out.

    Args:
        records: with those that wait, by index `holder`.
        queue: of keys of records that are to be told.
        writer: writes records.
        clock: says how long an end is of interest.
        noted: keeps ends for the next run in our place.
    """

    def __init__(
        self,
        records: Store[BackendRecord],
        queue: WorkQueue[ObjectKey],
        writer: ObjectWriter[BackendRecord],
        clock: Clock,
        noted: NotedCalls,
    ) -> None:
        self._noted = noted
        self._records = records
        self._queue = queue
        self._writer = writer
        self._clock = clock
        self._ended: dict[Uid, NotedEnd] = {}

    def recall(self, ends: Mapping[Uid, NotedEnd]) -> None:
        """Take up the ends that the run before us has noted."""
        for holder, end in ends.items():
            self._remember(holder, end)

    def ended(
        self,
        holder: Uid,
        driver: LoadBalancerDriver | Explanation,
        late: LateCalls | None = None,
    ) -> None:
        """Note that a record has ended, and that no call for its end is out but late ones."""
        now = self._clock.monotonic()
        longest = _longest(driver).total_seconds()
        over_at = now if late is None else late.over_at(longest)
        since = now if late is None else late.since_for(longest)
        last = min(max(over_at, now), now + longest)
        self._remember(holder, NotedEnd(since, over_at, last + longest))
        while len(self._ended) > _MOST_REMEMBERED or self._is_over(now):
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            self._noted.ended(oldest, None)

    def _remember(self, holder: Uid, end: NotedEnd) -> None:
        self._ended[holder] = end
        self._noted.ended(holder, end)
        for record in self._records.by_index("holder", holder):
            self._queue.add(record.meta.key)

    def _is_over(self, now: float) -> bool:
        first = next(iter(self._ended.values()), None)
        return first is not None and first.forget_at < now

    def record_changed(
        self, _old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Look at a record that has begun to wait."""
        if new is not None and is_waiting(new) and self._knows(new):
            self._queue.add(new.meta.key)

    def _knows(self, record: BackendRecord) -> bool:
        return self._end_of(record) is not None

    def _end_of(self, record: BackendRecord) -> NotedEnd | None:
        ends = (self._ended.get(holder) for holder in holder_of(record))
        return next((end for end in ends if end is not None), None)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Write down for one record what may be out of the one before, or that nothing is."""
        record = self._records.get(key)
        waiting = None if record is None else record.status.waiting
        if record is None or waiting is None or not is_waiting(record):
            return Done()
        end = self._end_of(record)
        if end is None:
            return Done()
        left = end.over_at - self._clock.monotonic()
        # In microseconds, as the queue waits: a rest of less would be no wait, and not over.
        rest = None if math.isinf(left) else timedelta(seconds=left)
        if rest is not None and rest <= timedelta(0):
            return await self._tell(record, attrs.evolve(waiting, is_over=True))
        since = BootTime(self._clock.boot, math.ceil(end.since))
        if since.boot and _is_earlier(since, waiting.gone_at):
            return await self._tell(record, attrs.evolve(waiting, gone_at=since))
        return Done() if rest is None else RequeueAfter(rest)

    async def _tell(self, record: BackendRecord, waiting: Waiting) -> Result:
        """Write into a record what is known of the one that it waits for."""
        status = attrs.evolve(record.status, waiting=waiting)
        body = render_status_update(record, status)
        try:
            await self._writer.patch(record.meta, body, "status")
        except NotFound:
            return Done()
        except Conflict:
            return RequeueAfter(_ANEW)  # the watch is about to bring another version
        if not waiting.is_over:
            return RequeueAfter(timedelta(0))
        key = str(record.meta.key)
        _log.debug("record.address_free", record=key, address_of=waiting.holder)
        return Done()


def _is_earlier(since: BootTime, known: BootTime | None) -> bool:
    """Return whether a moment is earlier than one that is written."""
    if known is None:
        return True
    # A registrar of another machine would write its own over ours, again and again.
    return known.boot == since.boot and known.seconds > since.seconds


def _longest(driver: LoadBalancerDriver | Explanation) -> timedelta:
    """Return for how long a call for an end may take effect."""
    if isinstance(driver, Explanation):
        return timedelta(0)
    return max(
        driver.settling(Operation.DEREGISTER_BACKEND),
        driver.settling(Operation.DRAIN_BACKEND),
    )
