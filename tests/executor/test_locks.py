"""Locks on addresses: who has one, when it changes hands, when it is swept."""

import asyncio

from collections.abc import Awaitable, Callable
from datetime import timedelta

import attrs
import pytest

from lbcf.core.lifecycle.steps import CoverEnd, LockHeld, LockTaken, TakeLock
from lbcf.core.model.resources import BackendRecord, Waiting
from lbcf.core.model.values import BootTime, ObjectKey
from lbcf.executor.locks import AddressLocker, EndCover
from lbcf.kube.address_locks import AddressLocks
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import UnreadableAnswer
from lbcf.kube.kinds import RECORDS
from lbcf.kube.leases import LEASES
from tests.builders import a_driver
from tests.fakes.clock import VirtualClock
from tests.kube.tiny_api import TinyApi


QUARANTINE = timedelta(seconds=25)
ADDRESS = "10.0.0.1:80"
TAKEN = LockTaken(QUARANTINE)


class Locksmith:
    """A locker on an API server in memory, and the records that want locks."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.api = TinyApi()
        self.client = KubeClient(self.api)
        self.locks = AddressLocks(self.client, "kube-system", self.clock)
        self.keys: dict[str, tuple[str, ...]] = {}
        self.before_create: Callable[[], Awaitable[None]] | None = None
        self.locker = AddressLocker(
            self.client,
            self.locks,
            self.clock,
            lambda load_balancer: self.keys.get(load_balancer.name, ()),
        )

    async def record(
        self, name: str, lb: str = "front", address: str = ""
    ) -> BackendRecord:
        """Create a record that wants 10.0.0.1:80, or has an address."""
        spec = {
            "lbName": lb,
            "lbDriver": "memory",
            "lbInfo": {"name": lb},
            "staticAddr": ADDRESS,
            "backendAddr": address,
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
        """Take the lock for a record; something may come in between, once."""
        between, self.before_create = self.before_create, None
        if between is None:
            return await self.locker.take(wish(record, address))
        taking = asyncio.ensure_future(self.locker.take(wish(record, address)))
        await between()
        return await taking


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

    assert TAKEN == await smith.take(first)
    assert TAKEN == await smith.take(first)


async def test_second_is_told_who_has_it(smith: Locksmith) -> None:
    """As long as the holder exists, for ever."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    smith.clock.advance(timedelta(days=1))

    held = await smith.take(second)

    assert isinstance(held, LockHeld)
    assert (first.meta.key, first.meta.uid) == (held.holder, held.uid)
    assert None is held.gone_at


async def test_holder_that_is_gone_is_outwaited(smith: Locksmith) -> None:
    """Not a moment before none of its calls can arrive any more."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    await smith.gone(first)

    held = await smith.take(second)
    assert isinstance(held, LockHeld)
    assert (first.meta.uid, QUARANTINE) == (held.uid, held.again_after)
    assert held.gone_at is not None
    smith.clock.advance(QUARANTINE - timedelta(seconds=1))
    assert isinstance(await smith.take(second), LockHeld)
    smith.clock.advance(timedelta(seconds=1))
    assert TAKEN == await smith.take(second)


async def test_holder_that_ended_long_ago_is_not_waited_for(smith: Locksmith) -> None:
    """It was seen to end when nobody came for its address yet."""
    first, second = (
        await smith.record("first"),
        await smith.record("second", address=ADDRESS),
    )
    await smith.take(first)
    await smith.gone(first)
    smith.locker.record_changed(_at_its_address(first), None)
    smith.clock.advance(QUARANTINE - timedelta(seconds=5))

    held = await smith.take(second)

    assert isinstance(held, LockHeld)
    rest = held.again_after.total_seconds()
    assert 5.0 == pytest.approx(rest, abs=0.01)
    smith.clock.advance(timedelta(seconds=5))
    assert TAKEN == await smith.take(second)


async def test_holder_that_exists_after_all_is_waited_for_from_its_end(
    smith: Locksmith,
) -> None:
    """What a watch has told of its end was wrong."""
    first, second = (
        await smith.record("first", address=ADDRESS),
        await smith.record("second"),
    )
    await smith.take(first)
    smith.locker.record_changed(first, None)
    smith.clock.advance(QUARANTINE)
    assert isinstance(await smith.take(second), LockHeld)
    await smith.gone(first)

    held = await smith.take(second)

    assert isinstance(held, LockHeld)
    assert QUARANTINE == held.again_after


async def test_holder_that_has_ended_well_is_not_waited_for(smith: Locksmith) -> None:
    """Its deregistrar has written that no call for its end can arrive any more."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    told = attrs.evolve(wish(second), waiting=Waiting(first.meta.uid, is_over=True))
    assert isinstance(await smith.locker.take(told), LockHeld), "it exists still"
    await smith.gone(first)

    assert TAKEN == await smith.locker.take(told)


@pytest.mark.parametrize(
    ("boot", "before", "counts"),
    [
        pytest.param("boot", 10.0, True, id="of this boot"),
        pytest.param("another", 10.0, False, id="of another machine"),
        pytest.param("boot", -3600.0, False, id="of a machine that was set back"),
    ],
)
async def test_wait_for_a_holder_that_is_gone_goes_on_in_another_process(
    smith: Locksmith, boot: str, before: float, *, counts: bool
) -> None:
    """From the moment that is written in the record, where its machine did not boot anew."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    await smith.gone(first)
    written = BootTime(boot, smith.clock.monotonic() - before)

    waiting = Waiting(first.meta.uid, gone_at=written)
    held = await smith.locker.take(attrs.evolve(wish(second), waiting=waiting))

    assert isinstance(held, LockHeld)
    assert counts == (held.gone_at == written)
    assert counts == (held.again_after < QUARANTINE)


async def test_what_is_told_of_another_record_frees_no_lock(smith: Locksmith) -> None:
    """The address may have changed hands since."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    await smith.gone(first)

    told = attrs.evolve(wish(second), waiting=Waiting(second.meta.uid, is_over=True))
    held = await smith.locker.take(told)

    assert isinstance(held, LockHeld)
    assert held.gone_at is not None


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
    edited = held_key(await smith.take(second))
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
    with pytest.raises(UnreadableAnswer):
        await smith.client.create(RECORDS, "shop", {"metadata": {"name": "second"}})
    await smith.locker.sweep()
    smith.clock.advance(timedelta(hours=2))

    assert 2 == await smith.locker.sweep()


@pytest.mark.parametrize(
    ("before", "now"), [(QUARANTINE, timedelta(0)), (timedelta(0), QUARANTINE)]
)
async def test_holder_is_outwaited_by_its_driver_as_it_was_and_as_it_is(
    smith: Locksmith, before: timedelta, now: timedelta
) -> None:
    """The Lease says for how long its calls may arrive, should the driver be edited."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.locker.take(attrs.evolve(wish(first), takeover_after=before))
    await smith.gone(first)
    shorter = attrs.evolve(wish(second), takeover_after=now)

    held = await smith.locker.take(shorter)

    assert isinstance(held, LockHeld)
    assert QUARANTINE == held.again_after
    smith.clock.advance(QUARANTINE)
    assert LockTaken(now) == await smith.locker.take(shorter)


@pytest.mark.parametrize("announced", [(60, 80), (80, 60)])
async def test_calls_announced_for_an_end_are_outwaited(
    smith: Locksmith, announced: tuple[int, ...]
) -> None:
    """A driver may have been slower for a while than it was before, and is now."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    for seconds in announced:
        step = CoverEnd(first, timedelta(seconds=seconds))
        covered = await EndCover(smith.locks).cover(step)
        assert step.settling == covered.settling
    await smith.gone(first)
    await smith.take(second)
    smith.clock.advance(QUARANTINE)

    held = await smith.take(second)

    assert isinstance(held, LockHeld)
    assert 80 - 25 == round(held.again_after.total_seconds())
    smith.clock.advance(timedelta(seconds=80) - QUARANTINE)
    assert TAKEN == await smith.take(second)


async def test_announced_calls_that_are_over_are_not_waited_for(
    smith: Locksmith,
) -> None:
    """Whoever sent them has said so."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    await EndCover(smith.locks).cover(CoverEnd(first, timedelta(hours=1)))
    await smith.gone(first)
    told = attrs.evolve(wish(second), waiting=Waiting(first.meta.uid, is_over=True))

    assert TAKEN == await smith.locker.take(told)


async def test_lock_of_an_earlier_try_says_what_it_said_then(smith: Locksmith) -> None:
    """The process that took it ended before it wrote the address down."""
    first = await smith.record("first")
    await smith.take(first)
    longer = attrs.evolve(wish(first), takeover_after=2 * QUARANTINE)

    assert TAKEN == await smith.locker.take(longer)


async def test_lock_that_is_known_to_be_there_is_not_created_in_vain(
    smith: Locksmith,
) -> None:
    """Once a record has waited for it, or has ended that had it: a refused write is dear."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    await smith.take(second)
    assert 2 == _creations(smith)

    await smith.gone(first)
    smith.locker.record_changed(_at_its_address(first), None)
    smith.clock.advance(QUARANTINE)
    assert TAKEN == await smith.take(second)
    await smith.gone(second)
    smith.locker.record_changed(_at_its_address(second), None)
    smith.clock.advance(QUARANTINE)

    assert TAKEN == await smith.take(await smith.record("third"))
    assert 2 == _creations(smith)


async def test_lock_that_was_swept_meanwhile_is_created(smith: Locksmith) -> None:
    """That it was there is no more than a guess."""
    first = await smith.record("first")
    await smith.take(first)
    await smith.gone(first)
    smith.locker.record_changed(_at_its_address(first), None)
    [lease] = await smith.locks.list()
    assert await smith.locks.sweep(lease)

    assert TAKEN == await smith.take(await smith.record("second"))


def _creations(smith: Locksmith) -> int:
    """Count the requests that create a lock, whether or not it was there."""
    return sum("POST" in one and "leases" in one for one in smith.api.requests)


def _at_its_address(record: BackendRecord) -> BackendRecord:
    """Return a record with the address in its status that was registered."""
    return attrs.evolve(record, status=attrs.evolve(record.status, address=ADDRESS))


async def test_namesake_of_the_holder_is_not_the_holder(smith: Locksmith) -> None:
    """A record of the same name with another uid keeps no lock."""
    first, second = await smith.record("first"), await smith.record("second")
    await smith.take(first)
    await smith.gone(first)
    await smith.record("first")
    await smith.take(second)
    smith.clock.advance(QUARANTINE)

    assert TAKEN == await smith.take(second)


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
    assert TAKEN == await smith.take(second)


def held_key(held: LockTaken | LockHeld) -> ObjectKey:
    """Say where the lock is that somebody else has."""
    assert isinstance(held, LockHeld)
    return held.lock


def holder_of(held: LockTaken | LockHeld) -> str | None:
    """Return the uid of the record that has the lock."""
    assert isinstance(held, LockHeld)
    return held.uid


async def test_one_address_at_two_load_balancers_is_two_locks(
    smith: Locksmith,
) -> None:
    """So are two addresses at one."""
    first = await smith.record("first")
    elsewhere = await smith.record("second", lb="back")

    assert TAKEN == await smith.take(first)
    assert TAKEN == await smith.take(elsewhere)
    assert TAKEN == await smith.take(elsewhere, "10.0.0.1:81")
    assert 3 == len(await smith.locks.list())


async def test_load_balancers_with_one_key_share_their_locks(smith: Locksmith) -> None:
    """However they are spelled, and whichever driver they name."""
    smith.keys = {"front": ("key:pool-7",), "back": ("key:pool-7",)}
    first, second = await smith.record("first"), await smith.record("second", lb="back")
    await smith.take(first)

    held = await smith.take(second)

    assert first.meta.uid == holder_of(held)
    assert 1 == len(await smith.locks.list()), "one write each"


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(((), ("key:pool-7",)), id="a first key"),
        pytest.param((("url:1",), ("key:pool-7", "url:1")), id="another key"),
        pytest.param((("url:1",), ("url:3", "url:2", "url:1")), id="several since"),
    ],
)
async def test_a_lock_under_an_older_key_holds(
    smith: Locksmith, keys: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    """Also that of a controller of an earlier version, which knew no keys."""
    first, second = await smith.record("first"), await smith.record("second")
    smith.keys = {"front": keys[0]}
    await smith.take(first)
    smith.keys = {"front": keys[1]}

    held = await smith.take(second)
    assert first.meta.uid == holder_of(held)
    await smith.gone(first)
    assert isinstance(await smith.take(second), LockHeld)
    smith.clock.advance(QUARANTINE)

    assert TAKEN == await smith.take(second)


async def test_a_key_that_changes_while_a_lock_is_taken_counts(
    smith: Locksmith,
) -> None:
    """The other one has looked under the older key before there was a lock."""
    first, second = await smith.record("first"), await smith.record("second")
    smith.keys = {"front": ("url:1",)}

    async def overtaken() -> None:
        """Let the key change, and the second one take its lock, in the middle."""
        smith.keys = {"front": ("url:2", "url:1")}
        assert TAKEN == await smith.take(second)

    smith.before_create = overtaken
    held = await smith.take(first)

    assert second.meta.uid == holder_of(held)


async def test_who_has_a_newer_key_is_seen_by_who_has_an_older_one_alone(
    smith: Locksmith,
) -> None:
    """One of two load balancers with the same members hears of the newer key later."""
    smith.keys = {"front": ("url:2", "url:1"), "back": ("url:1",)}
    first, second = await smith.record("first"), await smith.record("second", lb="back")
    assert TAKEN == await smith.take(first)

    held = await smith.take(second)

    assert first.meta.uid == holder_of(held)


async def test_who_waits_under_an_older_key_keeps_nobody_from_a_newer_one(
    smith: Locksmith,
) -> None:
    """The holder is about to have its lock under that one, too."""
    smith.keys = {"front": ("url:1",), "back": ("url:2", "url:1")}
    first, second = await smith.record("first"), await smith.record("second", lb="back")
    has_it = attrs.evolve(first, status=attrs.evolve(first.status, address=ADDRESS))
    await smith.take(first)

    assert isinstance(await smith.take(second), LockHeld)

    assert None is await smith.locker.inherit(has_it, "url:2")


async def test_a_further_lock_of_a_holder_that_is_gone_is_taken_over(
    smith: Locksmith,
) -> None:
    """The record has had the older one from it: who sees the newer one alone waits."""
    smith.keys = {
        "front": ("url:2", "url:1"),
        "back": ("url:1",),
        "late": ("url:2",),
    }
    gone = await smith.record("gone")
    heir = await smith.record("heir", lb="back")
    late = await smith.record("late", lb="late")
    await smith.take(gone)
    await smith.gone(gone)
    await smith.take(heir)
    smith.clock.advance(QUARANTINE)
    assert TAKEN == await smith.take(heir)
    has_it = attrs.evolve(heir, status=attrs.evolve(heir.status, address=ADDRESS))

    assert None is await smith.locker.inherit(has_it, "url:2")

    smith.clock.advance(QUARANTINE)
    held = await smith.take(late)
    assert isinstance(held, LockHeld)
    assert heir.meta.uid == held.uid


async def test_a_record_says_what_the_shortest_of_its_locks_says(
    smith: Locksmith,
) -> None:
    """Its driver was slower when one was taken than when another was."""
    smith.keys = {"front": ("url:1",)}
    first = await smith.record("first")
    await smith.take(first)
    smith.keys = {"front": ("url:2", "url:1")}
    longer = attrs.evolve(wish(first), takeover_after=2 * QUARANTINE)

    assert TAKEN == await smith.locker.take(longer)


async def test_a_further_lock_says_what_the_record_says(smith: Locksmith) -> None:
    """A holder whose driver was slower is outwaited by whoever sees that lock alone."""
    first = await smith.record("first")
    status = attrs.evolve(first.status, address=ADDRESS, lock_settling=2 * QUARANTINE)
    await smith.locker.inherit(attrs.evolve(first, status=status), "key:pool-7")
    smith.keys = {"back": ("key:pool-7",)}
    other = await smith.record("other", lb="back")
    await smith.gone(first)

    held = await smith.take(other)

    assert isinstance(held, LockHeld)
    assert 2 * QUARANTINE == held.again_after


async def test_a_record_takes_its_lock_under_a_further_key(smith: Locksmith) -> None:
    """Who has its address already keeps it from others by that key as well."""
    first = await smith.record("first", address="10.0.0.1:80")
    other = await smith.record("other", lb="back")
    assert None is await smith.locker.inherit(first, "key:pool-7")
    smith.keys = {"back": ("key:pool-7",)}

    assert isinstance(await smith.take(other), LockHeld)
