"""Locks on addresses: one holder each, taken over only from what was seen."""

from datetime import timedelta
from typing import cast

import pytest

from lbcf.kube.address_locks import AddressLocks, HeldBy, Taken
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Unavailable
from lbcf.kube.leases import LEASES
from lbcf.runtime.clock import SystemClock
from tests.fakes.clock import VirtualClock
from tests.kube.tiny_api import Fault, TinyApi


@pytest.fixture(
    name="locks", params=["tiny", pytest.param("real", marks=pytest.mark.cluster)]
)
def _locks(request: pytest.FixtureRequest) -> AddressLocks:
    """Locks on either server."""
    if request.param == "tiny":
        return AddressLocks(KubeClient(TinyApi()), "shop", VirtualClock())
    client = cast("KubeClient", request.getfixturevalue("real"))
    namespace = cast("str", request.getfixturevalue("namespace"))
    return AddressLocks(client, namespace, SystemClock())


async def test_free_lock_is_taken(locks: AddressLocks) -> None:
    """It names its holder."""
    taken = await locks.take("addr-1", "shop/a/uid-a")

    assert isinstance(taken, Taken)
    assert "shop/a/uid-a" == taken.lease.holder


async def test_lock_says_for_how_long_calls_may_arrive(locks: AddressLocks) -> None:
    """That of its holder now, in whole seconds; one that does not know says nothing."""
    taken = await locks.take("addr-1", "a", timedelta(seconds=24.2))
    assert isinstance(taken, Taken)
    assert 25 == taken.lease.duration

    for holder, settling, duration in (("b", 75, 75), ("c", 0, 0)):
        seen = await locks.take("addr-1", holder)
        assert isinstance(seen, HeldBy)
        other = await locks.take_over(seen, holder, timedelta(seconds=settling))
        assert isinstance(other, Taken)
        assert duration == other.lease.duration


async def test_taking_twice_is_harmless(locks: AddressLocks) -> None:
    """Whoever has it gets it again: an answer may have been lost."""
    first = await locks.take("addr-1", "a")

    assert first == await locks.take("addr-1", "a")


async def test_second_one_is_told_who_has_it(locks: AddressLocks) -> None:
    """And in which version, which nothing changes."""
    first = await locks.take("addr-1", "a")
    assert isinstance(first, Taken)

    assert HeldBy("a", first.lease) == await locks.take("addr-1", "b")


async def test_take_over_replaces_what_was_seen(locks: AddressLocks) -> None:
    """The new holder is written, and the change is counted."""
    await locks.take("addr-1", "a")
    seen = await locks.take("addr-1", "b")
    assert isinstance(seen, HeldBy)
    taken = await locks.take_over(seen, "b")

    assert isinstance(taken, Taken)
    assert "b" == taken.lease.holder
    assert 1 == taken.lease.transitions


async def test_take_over_of_an_old_version_is_refused(locks: AddressLocks) -> None:
    """Of two who want it after the same holder one gets it, the other is told whose."""
    await locks.take("addr-1", "a")
    seen = await locks.take("addr-1", "b")
    assert isinstance(seen, HeldBy)
    await locks.take_over(seen, "b")
    late = await locks.take_over(seen, "c")

    assert isinstance(late, HeldBy)
    assert "b" == late.holder


async def test_take_over_of_a_swept_lock_takes_it(locks: AddressLocks) -> None:
    """What is gone is free."""
    first = await locks.take("addr-1", "a")
    assert isinstance(first, Taken)
    await locks.sweep(first.lease)
    taken = await locks.take_over(HeldBy("a", first.lease), "b")

    assert isinstance(taken, Taken)
    assert "b" == taken.lease.holder


async def test_sweep_deletes_only_what_was_seen(locks: AddressLocks) -> None:
    """A lock that has changed hands stays; one that is gone is done."""
    first = await locks.take("addr-1", "a")
    assert isinstance(first, Taken)
    taken = await locks.take_over(HeldBy("a", first.lease), "b")
    assert isinstance(taken, Taken)

    assert not await locks.sweep(first.lease)
    assert await locks.sweep(taken.lease)
    assert await locks.sweep(taken.lease)


@pytest.mark.cluster
async def test_list_has_the_locks_alone(real: KubeClient, namespace: str) -> None:
    """The leaders' Leases beside them are not for sweeping."""
    locks = AddressLocks(real, namespace, SystemClock())
    await locks.take("addr-1", "a")
    body = {"metadata": {"name": "lbcf-controller"}, "spec": {"holderIdentity": "x"}}
    await real.create(LEASES, namespace, body)

    assert ["addr-1"] == [lease.meta.key.name for lease in await locks.list()]


async def test_lost_answer_is_told() -> None:
    """The caller asks again, and gets what it got without knowing."""
    api = TinyApi()
    locks = AddressLocks(KubeClient(api), "shop", VirtualClock())
    api.fault = Fault.UNANSWERED
    with pytest.raises(Unavailable) as caught:
        await locks.take("addr-1", "a")
    api.fault = None

    assert caught.value.maybe_applied
    assert isinstance(await locks.take("addr-1", "a"), Taken)
