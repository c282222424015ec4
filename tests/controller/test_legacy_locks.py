"""Addresses of LBCF's records are nobody else's before their locks are had."""

import asyncio

from typing import cast

import attrs
import pytest

from lbcf.controller import legacy
from lbcf.controller.legacy import LegacyLocks
from lbcf.controller.view import View
from lbcf.core.lifecycle.steps import LockTaken, TakeLock
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord, RecordStatus
from lbcf.core.model.values import MemberKey
from lbcf.core.reasons import Reason
from lbcf.executor.locks import AddressLocker
from lbcf.kube.errors import Unavailable
from lbcf.kube.list_watch import Put
from tests.builders import a_driver, a_load_balancer, a_record, a_spec, seconds
from tests.fakes.clock import VirtualClock


DRIVER = a_driver(member_key=MemberKey.ADDRESS)
HELD = "10.0.0.1:80"


class Locker:
    """Takes every lock at once."""

    async def take(self, _step: TakeLock) -> LockTaken:
        """Take a lock."""
        return LockTaken()


def wanted(record: BackendRecord, address: str) -> TakeLock:
    """Ask for the lock on an address."""
    return TakeLock(DRIVER, record, address, seconds(25))


async def test_address_whose_lock_cannot_be_had_waits_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For its own record it is free, and others go on."""
    monkeypatch.setattr(legacy, "_PATIENCE", seconds(0))
    said = Condition(conditions.REGISTERED, True, Reason.REGISTERED)
    status = RecordStatus(address=HELD, conditions=(said,))
    old = a_record("old-1", spec=a_spec(address=""), status=status)
    view = View()
    view.drivers.apply(Put(DRIVER))
    view.load_balancers.apply(Put(attrs.evolve(a_load_balancer(), lock_keys=("k",))))
    view.records.apply(Put(old))
    locks = LegacyLocks(view, cast("AddressLocker", Locker()), VirtualClock())
    other = a_record("web-1", spec=a_spec(address=""))

    await locks.take_locks(asyncio.Event())

    with pytest.raises(Unavailable, match=f"the lock on {HELD} is awaited for shop/"):
        await locks.take(wanted(other, HELD))
    assert LockTaken() == await locks.take(wanted(other, "10.0.0.2:80"))
    assert LockTaken() == await locks.take(wanted(old, HELD))
