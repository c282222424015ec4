"""Tells people what happened to an object: Events, as `kubectl describe` shows them.

Reconcilers call `record`, which never waits and never fails; `run` writes through the
client. The same thing happening again raises a counter; an object that floods is cut
off for a while; what does not fit is dropped and counted.
"""

import asyncio

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final, NoReturn, TypeVar

import attrs
import structlog

from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import AnyReason
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import KubeError, NotFound
from lbcf.kube.kinds import Resource
from lbcf.kube.leases import micro_time
from lbcf.runtime.clock import Clock
from lbcf.runtime.tasks import CutError, cut_is_error
from lbcf.wire.metadata import MetaOnly, parse_meta_only


K = TypeVar("K")
V = TypeVar("V")

log = structlog.get_logger(__name__)

EVENTS: Final[Resource[MetaOnly]] = Resource(
    "events.k8s.io", "v1", "events", "Event", parse_meta_only
)
NOTE_LIMIT: Final = 1024
"""Bytes that the API takes in a note."""
_NAME_ROOM = 200
_WRITE_LIMIT = timedelta(seconds=10)
_OF_THE_CLUSTER = "default"


@attrs.frozen
class Reference:
    """An object that an Event is about.

    Attributes:
        api_version: of its kind.
        kind: its kind.
        key: its namespace, empty for objects of the whole cluster, and name.
        uid: which incarnation of it.
    """

    api_version: str
    kind: str
    key: ObjectKey
    uid: Uid = Uid("")

    def render(self) -> Mapping[str, str]:
        """Write it as an ObjectReference."""
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.key.namespace,
            "name": self.key.name,
            "uid": self.uid,
        }
        return {name: value for name, value in fields.items() if value}


@attrs.frozen
class Limits:
    """How much may be written.

    Attributes:
        queue: Events waiting to be written.
        window: the same thing within that time is one Event with a counter.
        burst: writes about one object in a row.
        refill: time until one more is allowed.
    """

    queue: int = 1000
    window: timedelta = timedelta(minutes=6)
    burst: int = 25
    refill: timedelta = timedelta(minutes=5)

    @property
    def window_seconds(self) -> float:
        """Return the seconds after which a fact is a new one."""
        return self.window.total_seconds()

    @property
    def full_seconds(self) -> float:
        """Return the seconds after which the emptiest bucket is full."""
        return self.refill.total_seconds() * self.burst


@attrs.frozen
class _Fact:
    """What happened; equal facts are one series."""

    regarding: Reference
    related: Reference | None
    kind: str
    reason: AnyReason
    action: str
    note: str


@attrs.define
class _Series:
    """An Event that was written: how often its fact was told, and when last."""

    key: ObjectKey
    count: int
    last: float


@attrs.define
class _Bucket:
    """The writes that an object has left."""

    tokens: float
    filled: float


class EventRecorder:
    """Writes Events in the background.

    Args:
        client: writes them.
        clock: their times, and names.
        controller: who reports, such as `lbcf.tkestack.io/controller`.
        instance: which process of it, such as the pod's name.
        limits: how much.

    Attributes:
        dropped: how many facts were not written.
        is_silent: nothing is noted: another replica leads, sees the same and tells it.
    """

    def __init__(
        self,
        client: KubeClient,
        clock: Clock,
        *,
        controller: str,
        instance: str,
        limits: Limits | None = None,
    ) -> None:
        self.dropped = 0
        self.is_silent = False
        self._client = client
        self._clock = clock
        self._source = {
            "reportingController": controller,
            "reportingInstance": instance[:128],
        }
        self._limits = limits or Limits()
        self._waiting: deque[tuple[_Fact, datetime]] = deque()
        self._arrived = asyncio.Event()
        self._series: dict[_Fact, _Series] = {}
        self._buckets: dict[Reference, _Bucket] = {}

    def record(
        self,
        regarding: Reference,
        *,
        reason: AnyReason,
        action: str,
        note: str,
        warning: bool = False,
        related: Reference | None = None,
    ) -> None:
        """Note that something happened; it is written soon, or dropped.

        Args:
            regarding: the object it happened to.
            reason: why, one CamelCase word that does not change.
            action: what was done or tried, one CamelCase word.
            note: for people; cut at 1 kB.
            warning: it needs somebody's attention.
            related: another object that has to do with it.
        """
        if self.is_silent:
            return
        if len(self._waiting) >= self._limits.queue:
            self.dropped += 1
            return
        kind = "Warning" if warning else "Normal"
        fact = _Fact(regarding, related, kind, reason, action, _cut(note))
        self._waiting.append((fact, self._clock.now()))
        self._arrived.set()

    async def run(self) -> NoReturn:
        """Write what is recorded, until cancelled."""
        while True:
            await self._arrived.wait()
            await self.flush()

    async def flush(self) -> None:
        """Write what waits now; to be called once more at the end of a process."""
        self._arrived.clear()
        while self._waiting:
            fact, moment = self._waiting.popleft()
            await self._tell(fact, moment)

    async def _tell(self, fact: _Fact, moment: datetime) -> None:
        """Write one fact, or count it, as the limits allow."""
        self._forget_old()
        series = self._series.pop(fact, None)
        if series is not None:
            series.count += 1
            series.last = self._clock.monotonic()
            self._series[fact] = series
        if not self._is_allowed(fact.regarding):
            self.dropped += 1
            return
        try:
            with cut_is_error("an Event"):
                if series is None or not await self._raise(series, moment):
                    count = series.count if series else 1
                    self._series[fact] = await self._create(fact, moment, count)
        except (KubeError, CutError) as error:
            self.dropped += 1
            log.warning(
                "event.lost", regarding=str(fact.regarding.key), error=str(error)
            )

    async def _create(self, fact: _Fact, moment: datetime, count: int) -> _Series:
        """Write a new Event."""
        about = fact.regarding.key
        suffix = self._clock.new_id().replace("-", "")[:16]
        body: dict[str, object] = {
            "metadata": {"name": f"{about.name[:_NAME_ROOM]}.{suffix}"},
            "eventTime": micro_time(moment),
            "type": fact.kind,
            "reason": fact.reason,
            "action": fact.action,
            "note": fact.note,
            "regarding": fact.regarding.render(),
            **self._source,
        }
        if fact.related is not None:
            body["related"] = fact.related.render()
        if count > 1:
            body |= _repeated(count, moment)
        namespace = about.namespace or _OF_THE_CLUSTER
        written = await self._client.create(
            EVENTS, namespace, body, within=_WRITE_LIMIT
        )
        return _Series(written.meta.key, count, self._clock.monotonic())

    async def _raise(self, series: _Series, moment: datetime) -> bool:
        """Write the counter; False when the Event has expired meanwhile."""
        body = _repeated(series.count, moment)
        try:
            await self._client.patch(EVENTS, series.key, body, within=_WRITE_LIMIT)
        except NotFound:
            return False
        return True

    def _is_allowed(self, regarding: Reference) -> bool:
        """Take a token of the object's bucket, if there is one."""
        now = self._clock.monotonic()
        burst = self._limits.burst
        bucket = self._buckets.pop(regarding, None) or _Bucket(burst, now)
        gained = (now - bucket.filled) / self._limits.refill.total_seconds()
        bucket = _Bucket(min(burst, bucket.tokens + gained), now)
        self._buckets[regarding] = bucket
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _forget_old(self) -> None:
        """Drop series that are over, and buckets that are full again."""
        now = self._clock.monotonic()
        _drop_first(
            self._series,
            lambda series: now - series.last >= self._limits.window_seconds,
        )
        _drop_first(
            self._buckets,
            lambda bucket: now - bucket.filled >= self._limits.full_seconds,
        )


def _drop_first(entries: dict[K, V], is_over: Callable[[V], bool]) -> None:
    """Drop entries from the front, where the oldest are, as long as they are over."""
    while entries:
        oldest = next(iter(entries))
        if not is_over(entries[oldest]):
            return
        del entries[oldest]


def _repeated(count: int, moment: datetime) -> dict[str, object]:
    return {"series": {"count": count, "lastObservedTime": micro_time(moment)}}


def _cut(note: str) -> str:
    whole = note.encode()
    if len(whole) <= NOTE_LIMIT:
        return note
    return whole[: NOTE_LIMIT - 3].decode(errors="ignore") + "..."
