"""What a plan creates and updates becomes API writes; `removals` has the rest of it.

Before it: `lbcf.core.selection.guards`. After it: the registrar takes up what was created or
updated, with the write itself as its permission.
"""

import asyncio

from collections.abc import Awaitable, Iterable
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from typing import Protocol

import attrs
import structlog

from lbcf.controller.rivals import Rivals
from lbcf.core.lifecycle.steps import Permission
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.core.selection.inheritance import signed
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
from lbcf.wire.records import (
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
        at_once: how many records may be under way. Few, so that they are registered as
            fast as they are made: a write is a permission to call the driver for seconds
            only.
    """

    def __init__(
        self,
        records: ObjectWriter[BackendRecord],
        clock: Clock,
        successor: TakesUp,
        *,
        at_once: int = 16,
    ) -> None:
        self._records = records
        self._clock = clock
        self._successor = successor
        self._slots = asyncio.Semaphore(at_once)
        self._rivals = Rivals(clock)
        records.store.on_change(self._rivals.record_changed)

    async def apply(self, plan: Plan) -> timedelta | None:
        """Write what a plan creates and updates, each write beside the others.

        Returns:
            When to come again for writes that must wait because somebody else has
            undone them before; None: all is written.

        Raises:
            ExceptionGroup: of KubeError; all other writes have been tried.
        """
        rivals = self._rivals
        updates = [
            (rivals.rest(u.record), partial(self._update, u)) for u in plan.updates
        ]
        creates = [
            (rivals.rest_before(c.desired), partial(self._create, c))
            for c in plan.creates
        ]
        writes = [*updates, *creates]
        await self._all([write() for rest, write in writes if rest is None])
        return min((rest for rest, _ in writes if rest is not None), default=None)

    def withdraw(self, removals: Iterable[Removal]) -> None:
        """Take in what is to be deleted: these ends are nobody else's doing."""
        self._rivals.withdrawn(removal.record for removal in removals)

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
        body = render_new_record(create.desired, create.name)
        key = ObjectKey(group.namespace, create.name)
        async with self._slots:
            with self._successor.expecting(key):
                began = self._clock.monotonic()
                try:
                    record = await self._records.create(group.namespace, body)
                except AlreadyExists:
                    await self._records.refresh(key)
                    return
                self._rivals.created(create.desired, record)
                self._records.observe(record)
                self._successor.take_up(Written(Permission(record, began)))
        _log.info(
            "record.created",
            record=str(record.meta.key),
            group=str(group),
            load_balancer=record.spec.load_balancer,
            address=create.desired.address,
        )

    async def _update(self, update: Update) -> None:
        """Write what changed of a live record."""
        meta = update.record.meta
        async with self._slots:
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
                self._rivals.wrote(before, record)
                self._records.observe(record)
                permission = Permission(record, began)
                self._successor.take_up(Written(permission, before=before))
        _log.info(
            "record.updated", record=str(meta.key), generation=record.meta.generation
        )

    async def _signed(self, record: BackendRecord) -> BackendRecord:
        """Have a record that LBCF in Go registered say for which generation it was."""
        if not (record.is_inherited and record.is_registered):
            return record
        status = signed(record, self._clock.now())
        body = render_status_update(record, status)
        return await self._records.patch(record.meta, body, "status", observe=False)


def _told(error: BaseException) -> Exception:
    """Make a failure of a write that was cancelled below us: it may be done or not."""
    if isinstance(error, Exception):
        return error
    return Unavailable("a write was cut off", sent=None)


def worst_of(group: ExceptionGroup[Exception]) -> Exception:
    """Choose the error of a group to tell of: one that is a defect goes first."""
    defects = [e for e in group.exceptions if not isinstance(e, KubeError)]
    return (defects or list(group.exceptions))[0]
