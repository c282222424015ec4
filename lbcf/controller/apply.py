"""Writes what a plan creates and updates; `removals` deletes what it removes.

The registrar goes on with each record that was written, with the write as its permission.

Leases make two leaders rare, not impossible, and one of them may have an older view of a
group. It writes a record's spec back, the other one writes it again, and so on, with calls of
the driver each time (sweeps counted a thousand in half a minute). A person may delete a record
as often as it is created. Nothing is lost by that; whoever finds an own write undone waits
longer and longer before it repeats it. Deletions never wait: what is to leave leaves, and
without a new record there is nothing to delete.
"""

import asyncio

from collections import OrderedDict
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from typing import Protocol

import attrs
import structlog

from lbcf.core.backoff import delay_for
from lbcf.core.lifecycle.steps import Permission
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.shards import WHOLE, Shard, record_labels
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.selection.desired import DesiredRecord, Identity, identity_of
from lbcf.core.selection.legacy import signed
from lbcf.core.selection.plan import Create, Plan, Removal, Update
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import (
    AlreadyExists,
    Conflict,
    KubeError,
    NotFound,
    Unavailable,
)
from lbcf.runtime.clock import Clock
from lbcf.runtime.semaphore import PrioritySemaphore
from lbcf.wire.records import (
    NO_LABELS,
    render_new_record,
    render_spec_update,
    render_status_update,
)


_log = structlog.get_logger(__name__)


@attrs.frozen
class Written:
    """A record as a create or an update of ours returned it.

    Attributes:
        before: the version that was updated, None for a new record.
    """

    permission: Permission
    before: BackendRecord | None = None


class TakesUp(Protocol):
    """Whoever goes on with what was created or updated: the registrar."""

    def expecting(self, key: ObjectKey) -> AbstractContextManager[None]:
        """Leave a record alone while it is being written."""

    def take_up(self, written: Written) -> None:
        """Go on with a record, with the write as the permission."""


class Applier:
    """Writes records that are to be registered.

    Args:
        records: writes records.
        clock: times the permissions.
        successor: goes on with each record that was created or updated.
        shard: with others, new records are labelled for the one that ends them.
        at_once: how many records may be under way; namespaces that wait take turns. Few, so
            that they are registered as fast as they are made: a write is a permission to call
            the driver for seconds only.
    """

    def __init__(
        self,
        records: ObjectWriter[BackendRecord],
        clock: Clock,
        successor: TakesUp,
        *,
        shard: Shard = WHOLE,
        at_once: int = 16,
    ) -> None:
        self._shard = shard
        self._records = records
        self._clock = clock
        self._successor = successor
        self._places = PrioritySemaphore(at_once)
        self._backoff = WriteBackoff(clock)
        records.store.on_change(self._backoff.record_changed)

    async def apply(self, plan: Plan) -> timedelta | None:
        """Write what a plan creates and updates, each write beside the others.

        Returns:
            When to come again for writes that must wait because somebody else has
            undone them before; None: all is written.

        Raises:
            ExceptionGroup: of KubeError; all other writes have been tried.
        """
        backoff = self._backoff
        updates = [
            (backoff.rest(u.record), partial(self._update, u)) for u in plan.updates
        ]
        creates = [
            (backoff.rest_before(c.desired), partial(self._create, c))
            for c in plan.creates
        ]
        writes = [*updates, *creates]
        await self._all([write() for rest, write in writes if rest is None])
        return min((rest for rest, _ in writes if rest is not None), default=None)

    def withdraw(self, removals: Iterable[Removal]) -> None:
        """Take in what is to be deleted: these ends are nobody else's doing."""
        self._backoff.withdrawn(removal.record for removal in removals)

    async def _all(self, writes: list[Awaitable[None]]) -> None:
        """Do all of it, then tell what failed."""
        results = await asyncio.gather(*writes, return_exceptions=True)
        failed = [_told(r) for r in results if isinstance(r, BaseException)]
        if failed:
            raise ExceptionGroup(
                f"{len(failed)} of {len(writes)} writes failed", failed
            )

    async def _create(self, create: Create) -> None:
        """Write a new record; one of that name is looked at, not overwritten."""
        group = create.desired.group.meta.key
        key = ObjectKey(group.namespace, create.name)
        body = render_new_record(create.desired, create.name, self._labels(create, key))
        async with self._places.held(group=key.namespace):
            with self._successor.expecting(key):
                began = self._clock.monotonic()
                try:
                    record = await self._records.create(group.namespace, body)
                except AlreadyExists:
                    await self._records.refresh(key)
                    return
                self._backoff.created(create.desired, record)
                self._records.observe(record)
                self._successor.take_up(Written(Permission(record, began)))
        _log.info(
            "record.created",
            record=str(record.meta.key),
            group=str(group),
            load_balancer=record.spec.load_balancer,
            address=create.desired.address,
        )

    def _labels(self, create: Create, key: ObjectKey) -> Mapping[str, str]:
        if self._shard.is_whole:
            return NO_LABELS
        return record_labels(key, create.desired.address)

    async def _update(self, update: Update) -> None:
        """Write what changed of a live record."""
        meta = update.record.meta
        async with self._places.held(group=meta.key.namespace):
            with self._successor.expecting(meta.key):
                try:
                    before = await self._signed(update.record)
                    began = self._clock.monotonic()
                    body = render_spec_update(before, update.spec)
                    # Noted as our own before anybody is told of it.
                    record = await self._records.patch(before.meta, body, observe=False)
                except (Conflict, NotFound):
                    await self._records.refresh(meta.key)
                    raise
                self._backoff.wrote(before, record)
                self._records.observe(record)
                permission = Permission(record, began)
                self._successor.take_up(Written(permission, before=before))
        _log.info(
            "record.updated", record=str(meta.key), generation=record.meta.generation
        )

    async def _signed(self, record: BackendRecord) -> BackendRecord:
        """Have a record that LBCF in Go registered say for which generation it was."""
        if not (record.is_legacy and record.is_registered):
            return record
        status = signed(record, self._clock.now())
        body = render_status_update(record, status)
        return await self._records.patch(record.meta, body, "status", observe=False)


def _told(error: BaseException) -> Exception:
    # Cut off below us, not by us: the write may be done or not.
    if isinstance(error, Exception):
        return error
    return Unavailable("a write was cut off", sent=None)


def worst_of(group: ExceptionGroup[Exception]) -> Exception:
    """Choose the error of a group to tell of: one that is a defect goes first."""
    defects = [e for e in group.exceptions if not isinstance(e, KubeError)]
    return (defects or list(group.exceptions))[0]


_LONGEST = timedelta(seconds=30)


@attrs.frozen
class _Write:
    """A write of this process that somebody else may undo.

    Attributes:
        result: the generation of the spec that came of it, or the uid of the new record.
        undone: how often in a row somebody else had undone the one before.
        until: monotonic seconds before which it is not to be repeated.
    """

    result: int | Uid
    undone: int
    until: float


class WriteBackoff:
    """Remembers one's own writes, to notice that somebody else undoes them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changes: dict[Uid, _Write] = {}
        # By group and what the record is about; the first was created longest ago.
        self._creates: OrderedDict[tuple[Uid, Identity], _Write] = OrderedDict()
        self._withdrawn: set[Uid] = set()

    def rest(self, record: BackendRecord) -> timedelta | None:
        """Return how long not to change a record's spec yet; None: change it."""
        write = self._changes.get(record.meta.uid)
        if write is None or write.result == record.meta.generation:
            return None
        return self._left(write)

    def rest_before(self, desired: DesiredRecord) -> timedelta | None:
        """Return how long not to create a record again yet; None: create it.

        A record that is to be created does not exist, or is being deleted. If this
        process created one and has not `withdrawn` it, somebody else deleted it.
        """
        write = self._creates.get(_subject(desired))
        return None if write is None else self._left(write)

    def _left(self, write: _Write) -> timedelta | None:
        rest = timedelta(seconds=write.until - self._clock.monotonic())
        return rest if rest > timedelta(0) else None

    def wrote(self, before: BackendRecord, after: BackendRecord) -> None:
        """Note an own change."""
        write = self._changes.get(before.meta.uid)
        is_undone = write is not None and write.result != before.meta.generation
        undone = write.undone + 1 if write is not None and is_undone else 0
        self._changes[after.meta.uid] = _Write(
            after.meta.generation, undone, self._until(undone)
        )

    def created(self, desired: DesiredRecord, record: BackendRecord) -> None:
        """Note an own create.

        One that is undone is repeated at once the first time: a user may have deleted
        the record.
        """
        self._forget_old()
        subject = _subject(desired)
        # Taken out, so that it moves to the end.
        write = self._creates.pop(subject, None)
        if record.meta.uid in self._withdrawn:
            return  # the watch was faster than the answer, and its backend has left
        undone = 0 if write is None else write.undone + 1
        until = self._until(undone) if undone else self._clock.monotonic()
        self._creates[subject] = _Write(record.meta.uid, undone, until)
        if undone:
            name = str(record.meta.key)
            _log.warning("record.created_again", record=name, deleted_by_others=undone)

    def _until(self, undone: int) -> float:
        pause = delay_for(undone, self._clock.jitter(), cap=_LONGEST)
        return self._clock.monotonic() + pause.total_seconds()

    def withdrawn(self, records: Iterable[BackendRecord]) -> None:
        """Note which records this process itself wants deleted."""
        for record in records:
            subject = (record.group_uid, identity_of(record))
            write = self._creates.get(subject)
            if write is not None and write.result == record.meta.uid:
                del self._creates[subject]
            self._withdrawn.add(record.meta.uid)

    def record_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Forget the changes of a record that has gone, or is going."""
        self._forget_old()
        if old is not None and (new is None or new.is_deleting):
            self._changes.pop(old.meta.uid, None)
        if old is not None and new is None:
            self._withdrawn.discard(old.meta.uid)

    def _forget_old(self) -> None:
        # Nobody has undone these for long; memory would grow with them.
        before = self._clock.monotonic() - _LONGEST.total_seconds()
        while self._creates and next(iter(self._creates.values())).until <= before:
            self._creates.popitem(last=False)


def _subject(desired: DesiredRecord) -> tuple[Uid, Identity]:
    return (desired.group.meta.uid, desired.identity)
