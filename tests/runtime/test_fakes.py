"""The virtual loop and clock that the other tests stand on."""

import asyncio

from datetime import timedelta

import pytest

from lbcf.runtime.clock import Clock, SystemClock
from tests.fakes.clock import EPOCH, VirtualClock
from tests.fakes.loop import StalledError, run_virtual


DAY = timedelta(days=1)


def test_virtual_sleep_takes_exactly_its_delay() -> None:
    """A day of sleep moves the clock by a day, and nothing else does."""
    clock = VirtualClock()

    async def sleeper() -> None:
        """Sleep for a day."""
        await clock.sleep(DAY)
        assert EPOCH + DAY == clock.now()

    run_virtual(sleeper())


def test_virtual_timers_fire_in_the_order_of_their_moments() -> None:
    """Sleepers wake at their moments, whatever the order in which they lay down."""
    woken: list[float] = []

    async def sleeper(seconds: int) -> None:
        """Sleep, then tell."""
        await asyncio.sleep(seconds)
        woken.append(asyncio.get_running_loop().time())

    async def all_of_them() -> None:
        """Start them in another order."""
        await asyncio.gather(*(sleeper(seconds) for seconds in (5, 1, 100_000, 3)))

    run_virtual(all_of_them())

    assert [1, 3, 5, 100_000] == woken


def test_hang_is_found_at_once() -> None:
    """A wait that nothing can end raises instead of hanging the test run."""
    with pytest.raises(StalledError, match="every task waits"):
        run_virtual(_forever())


async def _forever() -> None:
    """Wait for nothing."""
    await asyncio.Event().wait()


def test_clock_of_the_same_seed_gives_the_same_chance() -> None:
    """A run can be repeated from its seed."""
    one, other = VirtualClock(seed=7), VirtualClock(seed=7)

    assert [one.jitter(), one.new_id()] == [other.jitter(), other.new_id()]


def test_clock_moves_by_hand_without_a_loop() -> None:
    """Code that runs in no loop can be aged."""
    clock = VirtualClock()

    clock.advance(DAY)

    assert (EPOCH + DAY, DAY.total_seconds()) == (clock.now(), clock.monotonic())


@pytest.mark.parametrize(
    "clock", [SystemClock(), VirtualClock()], ids=["system", "virtual"]
)
class TestEveryClock:
    """What holds for the machine's clock and for the virtual one."""

    def test_moments_are_in_utc(self, clock: Clock) -> None:
        """A moment names its zone, and the zone is UTC."""
        assert timedelta(0) == clock.now().utcoffset()

    def test_jitter_lies_below_one(self, clock: Clock) -> None:
        """Chance is at least 0 and less than 1."""
        assert all(0 <= clock.jitter() < 1 for _ in range(1000))

    def test_ids_are_uuids_and_differ(self, clock: Clock) -> None:
        """Each id is the text of a UUID of its own."""
        ids = {clock.new_id() for _ in range(100)}

        assert (100, {36}) == (len(ids), {len(one) for one in ids})

    async def test_sleep_moves_the_monotonic_clock(self, clock: Clock) -> None:
        """A sleep is not cut short; half of it leaves room for the timers' grain."""
        before = clock.monotonic()
        await clock.sleep(timedelta(milliseconds=20))

        assert 0.01 < clock.monotonic() - before
