"""Locks on addresses: who has one, when it changes hands, when it is swept."""

from datetime import timedelta

import attrs
import pytest

from lbcf.core.resources import BackendRecord
from lbcf.core.steps import LockHeld, LockTaken, TakeLock
from lbcf.core.values import ObjectKey
from lbcf.interpreter.locks import AddressLocker, lock_name
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import BadAnswer
from lbcf.kube.kinds import RECORDS
from lbcf.kube.leases import LEASES
from lbcf.kube.locks import AddressLocks
from tests.builders import a_driver
from tests.fakes.clock import VirtualClock
from tests.kube.tiny_api import TinyApi


QUARANTINE = timedelta(seconds=25)
ADDRESS = "10.0.0.1:80"


class Locksmith:
    """A locker on an API server in memory, and the records that want locks."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.client = KubeClient(TinyApi())
        self.locks = AddressLocks(self.client, "kube-system", self.clock)
        self.locker = AddressLocker(self.client, self.locks, self.clock)

    async def record(self, name: str) -> BackendRecord:
        """Create a record that wants 10.0.0.1:80."""
        spec = {
            "lbName": "front",
            "lbDriver": "memory",
            "lbInfo": {"name": "front"},
            "staticAddr": "10.0.0.1:80",
        }
        return await self.client.create(
            RECORDS, "shop", {"metadata": {"name": name}, "spec": spec}
        )

    async def gone(self, record: BackendRecord) -> None:
        """End a record."""
        await self.client.delete(RECORDS, record.meta.key)

    async def take(
        self, record: BackendRecord, address: str = ADDRESS
    ) -> LockTaken | LockHeld:
        """Take the lock for a record."""
        return await self.locker.take(wish(record, address))


def wish(record: BackendRecord, address: str = ADDRESS) -> TakeLock:
    """Ask for the one address that everybody wants here, or another."""
    return TakeLock(a_driver(), record, address, QUARANTINE)


@pytest.fixture(name="smith")
def _smith() -> Locksmith:
    """Nothing is locked."""
    return Locksmith()


async def test_first_has_it_and_may_ask_again(smith: Locksmith) -> None:
    """Taking a lock twice is taking it once."""
    first = await smith.record("first")

    assert LockTaken() == await smith.take(first)
    assert LockTaken() == await smith.take(first)


async def test_second_is_told_who_has_it(smith: Locksmith) -> None:
    """As long as the holder exists, for ever."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    smith.clock.advance(timedelta(days=1))

    held = await smith.take(second)

    assert isinstance(held, LockHeld)
    assert (first.meta.key, first.meta.uid) == (held.holder, held.uid)
    assert not held.is_gone


async def test_holder_that_is_gone_is_outwaited(smith: Locksmith) -> None:
    """Not a moment before none of its calls can arrive any more."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    await smith.gone(first)

    held = await smith.take(second)
    assert isinstance(held, LockHeld)
    assert (first.meta.uid, QUARANTINE) == (held.uid, held.again_after)
    assert held.is_gone
    smith.clock.advance(QUARANTINE - timedelta(seconds=1))
    assert isinstance(await smith.take(second), LockHeld)
    smith.clock.advance(timedelta(seconds=1))
    assert LockTaken() == await smith.take(second)


async def test_holder_that_has_ended_well_is_not_waited_for(smith: Locksmith) -> None:
    """Its deregistrar has written that no call for its end can arrive any more."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    told = attrs.evolve(wish(second), ended=first.meta.uid)
    assert isinstance(await smith.locker.take(told), LockHeld), "it exists still"
    await smith.gone(first)

    assert LockTaken() == await smith.locker.take(told)


async def test_what_is_told_of_another_record_frees_no_lock(smith: Locksmith) -> None:
    """The address may have changed hands since."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    await smith.gone(first)

    held = await smith.locker.take(attrs.evolve(wish(second), ended=second.meta.uid))

    assert isinstance(held, LockHeld)
    assert held.is_gone


@pytest.mark.parametrize("holder", ["somebody", "a/b", "a/b/c/d", "//", "shop/first/"])
async def test_lock_that_somebody_has_edited_stays_and_is_named(
    smith: Locksmith, holder: str
) -> None:
    """It is nobody's to take; all others are swept as ever."""
    stale = await smith.record("stale")
    await smith.take(stale, "10.0.0.2:80")
    await smith.gone(stale)
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    edited = ObjectKey("kube-system", lock_name(wish(first)))
    await smith.client.patch(LEASES, edited, {"spec": {"holderIdentity": holder}})

    held = await smith.take(second)
    await smith.locker.sweep()
    smith.clock.advance(timedelta(hours=2))

    assert isinstance(held, LockHeld)
    assert (edited, None) == (held.lock, held.holder)
    assert 1 == await smith.locker.sweep()
    assert [edited] == [lease.meta.key for lease in await smith.locks.list()]


async def test_record_that_cannot_be_read_keeps_its_lock_alone(
    smith: Locksmith,
) -> None:
    """The sweep goes on with all others."""
    names = ("first", "second", "third")
    for number, name in enumerate(names, 1):
        record = await smith.record(name)
        await smith.take(record, f"10.0.0.{number}:80")
        await smith.gone(record)
    with pytest.raises(BadAnswer):
        await smith.client.create(RECORDS, "shop", {"metadata": {"name": "second"}})
    await smith.locker.sweep()
    smith.clock.advance(timedelta(hours=2))

    assert 2 == await smith.locker.sweep()


async def test_namesake_of_the_holder_is_not_the_holder(smith: Locksmith) -> None:
    """A record of the same name with another uid keeps no lock."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    await smith.gone(first)
    await smith.record("first")
    await smith.take(second)
    smith.clock.advance(QUARANTINE)

    assert LockTaken() == await smith.take(second)


async def test_sweep_takes_what_has_been_stale_for_long(smith: Locksmith) -> None:
    """A lock in use stays, and a stale one stays as long as anybody might ask for it."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    assert 0 == await smith.locker.sweep()
    await smith.gone(first)

    assert 0 == await smith.locker.sweep()
    smith.clock.advance(timedelta(hours=1))
    assert 0 == await smith.locker.sweep()
    smith.clock.advance(timedelta(hours=1))
    assert 1 == await smith.locker.sweep()

    assert () == await smith.locks.list()
    assert LockTaken() == await smith.take(second)


async def test_lock_names_tell_load_balancers_and_addresses_apart(
    smith: Locksmith,
) -> None:
    """One address at two load balancers is two locks."""
    record = await smith.record("first")
    names = {
        lock_name(wish(record)),
        lock_name(TakeLock(a_driver("other"), record, "10.0.0.1:80", QUARANTINE)),
        lock_name(TakeLock(a_driver(), record, "10.0.0.1:81", QUARANTINE)),
    }

    assert 3 == len(names)
    assert all(name.startswith("addr-") for name in names)
