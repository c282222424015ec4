"""Locks for records that LBCF in Go wrote, before anybody else can have their addresses.

They are taken before the controller's workers start. LBCF knew no locks: a record that it
wrote, and that lives or is on its way out, has its address without one, and its end takes
that address out of the load balancer whoever has it by then. Where a lock cannot be had for
long, because one Lease always fails, everybody else goes on, and the address alone waits.
"""

import asyncio

from collections.abc import Iterable
from datetime import timedelta

import structlog

from lbcf.controller.view import View
from lbcf.core.lifecycle.steps import LockHeld, LockTaken, TakeLock
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import MemberKey, ObjectKey
from lbcf.core.reasons import Explanation
from lbcf.executor.locks import AddressLocker
from lbcf.kube.errors import KubeError, Unavailable
from lbcf.runtime.clock import Clock


_AT_ONCE = 32
_TRY_AGAIN = timedelta(seconds=1)
_PATIENCE = timedelta(seconds=10)
"""How long everything waits for all locks."""

_log = structlog.get_logger(__name__)


class LegacyLocks:
    """Takes the locks that LBCF in Go did not take."""

    def __init__(self, view: View, locker: AddressLocker, clock: Clock) -> None:
        self._view = view
        self._locker = locker
        self._clock = clock
        self._left: list[BackendRecord] = []

    async def take_locks(self, stop: asyncio.Event) -> None:
        """Take the lock of every such record; nothing is registered before that is done.

        Goes on until the API server has answered for each, or until told to stop, but
        not for longer than all others can wait.
        """
        self._left = [r for r in self._view.records.values() if self._needs_lock(r)]
        if self._left:
            _log.info("records.inherited", count=len(self._left))
        until = self._clock.monotonic() + _PATIENCE.total_seconds()
        while self._left and not stop.is_set() and self._clock.monotonic() < until:
            await self._try_all()
        if self._left:
            _log.warning("locks.awaited", count=len(self._left))

    async def take_the_rest(self) -> None:
        """Go on with those that could not be had in time, until all are."""
        while self._left:
            await self._try_all()

    async def _try_all(self) -> None:
        self._left = await self._round(self._left)
        if self._left:
            await self._clock.sleep(_TRY_AGAIN)

    async def take(self, step: TakeLock) -> LockTaken | LockHeld:
        """Take a lock for another record, unless its address waits for an inherited one.

        Its spelling alone is compared: one that waits needlessly harms nobody. Nor is one
        taken where the key of its load balancer is unknown: under the name of its driver
        alone, or the key of what was made in its place, others with the same members would
        not see it.

        Raises:
            KubeError: the API server could not be asked, or the address is not free yet.
        """
        if self._view.lacks_lock_key(step.record):
            load_balancer = step.record.load_balancer_key
            text = (
                f"the lock key of the record's load balancer {load_balancer} is unknown"
            )
            raise Unavailable(text, sent=False)
        for record in self._left:
            if (
                record.address == step.address
                and record.meta.uid != step.record.meta.uid
            ):
                text = f"the lock on {step.address} is awaited for {record.meta.key}"
                raise Unavailable(text, sent=False)
        return await self._locker.take(step)

    def _needs_lock(self, record: BackendRecord) -> bool:
        """Return whether a record has an address that only a lock keeps for it.

        Where the driver is missing nobody knows; a lock too many harms nobody.
        """
        driver = self._view.driver(record.driver_key)
        by_record = (
            not isinstance(driver, Explanation)
            and driver.member_key is MemberKey.RECORD
        )
        return record.is_legacy and not by_record

    async def take_also(self, load_balancer: ObjectKey, key: str) -> bool:
        """Take the locks of a load balancer's records under a further key of it.

        False: for some the API server gave no answer. Who is not Registered by way of
        an address yet takes its lock when it gets one.
        """
        records = self._view.records_at(load_balancer)
        held = [record for record in records if record.address]
        return not await self._round(held, key)

    async def _round(
        self, records: Iterable[BackendRecord], key: str = ""
    ) -> list[BackendRecord]:
        """Try each record once; returns those for which nothing is known yet."""
        slots = asyncio.Semaphore(_AT_ONCE)

        async def tried(record: BackendRecord) -> BackendRecord | None:
            async with slots:
                return None if await self._take(record, key) else record

        async with asyncio.TaskGroup() as tries:
            results = [tries.create_task(tried(record)) for record in records]
        return [record for one in results if (record := one.result()) is not None]

    async def _take(self, record: BackendRecord, key: str) -> bool:
        """Take one lock; False: the API server gave no answer."""
        name = str(record.meta.key)
        try:
            holder = await self._locker.inherit(record, key)
        except KubeError as error:
            _log.warning("lock.unanswered", record=name, error=str(error))
            return False
        if holder is not None:
            # LBCF let two records have one address: the end of one takes it from both.
            _log.warning(
                "record.address_shared",
                record=name,
                address=record.address,
                load_balancer=record.spec.load_balancer,
                other=holder,
            )
        return True
