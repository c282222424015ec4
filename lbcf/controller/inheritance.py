"""Locks for records that LBCF in Go wrote, before anybody else can have their addresses.

Before it: everything has been read. After it: the controller's workers start. LBCF knew
no locks: a record of its hand that lives, or is on its way out, has its address without
one, and its end takes that address out of the load balancer whoever has it by then.
"""

import asyncio

from collections.abc import Iterable
from datetime import timedelta

import structlog

from lbcf.controller.view import View
from lbcf.core.resources import BackendRecord
from lbcf.core.turn import Absent
from lbcf.core.values import MemberKey
from lbcf.interpreter.locks import AddressLocker
from lbcf.kube.errors import KubeError
from lbcf.runtime.clock import Clock


_AT_ONCE = 32
_TRY_AGAIN = timedelta(seconds=1)

_log = structlog.get_logger(__name__)


class Inheritance:
    """Takes the locks that LBCF in Go did not take."""

    def __init__(self, view: View, locker: AddressLocker, clock: Clock) -> None:
        self._view = view
        self._locker = locker
        self._clock = clock

    async def take_locks(self, stop: asyncio.Event) -> None:
        """Take the lock of every such record; nothing is registered before that is done.

        Goes on until the API server has answered for each, or until told to stop.
        """
        left = [r for r in self._view.records.values() if self._needs_lock(r)]
        if left:
            _log.info("records.inherited", count=len(left))
        while left and not stop.is_set():
            left = await self._round(left)
            if left:
                await self._clock.sleep(_TRY_AGAIN)

    def _needs_lock(self, record: BackendRecord) -> bool:
        """Tell whether a record has an address that only a lock keeps for it.

        Where the driver is missing nobody knows; a lock too many harms nobody.
        """
        driver = self._view.driver(record.driver_key)
        by_record = (
            not isinstance(driver, Absent) and driver.member_key is MemberKey.RECORD
        )
        return record.is_inherited and not by_record

    async def _round(self, records: Iterable[BackendRecord]) -> list[BackendRecord]:
        """Try each record once; returns those for which nothing is known yet."""
        slots = asyncio.Semaphore(_AT_ONCE)

        async def tried(record: BackendRecord) -> BackendRecord | None:
            """Take one lock; answers the record if it must be tried again."""
            async with slots:
                return None if await self._take(record) else record

        results = await asyncio.gather(*(tried(record) for record in records))
        return [record for record in results if record is not None]

    async def _take(self, record: BackendRecord) -> bool:
        """Take one lock; False: the API server gave no answer."""
        key = str(record.meta.key)
        try:
            holder = await self._locker.inherit(record)
        except KubeError as error:
            _log.warning("lock.unanswered", record=key, error=str(error))
            return False
        if holder is not None:
            # LBCF let two records have one address: the end of one takes it from both.
            _log.warning(
                "record.address_shared",
                record=key,
                address=record.address,
                load_balancer=record.spec.load_balancer,
                other=holder,
            )
        return True
