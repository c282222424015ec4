"""When load balancers are read: by period, fairly, and not all at once."""

import asyncio
import itertools

from collections import Counter
from collections.abc import Collection
from datetime import timedelta

import attrs
import pytest

from lbcf.controller.resync_schedule import AT_ONCE, PER_SECOND, ResyncSchedule
from lbcf.core.model.values import ObjectKey
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual


PERIOD = timedelta(seconds=2)
HANGS = 10.0
"""Seconds after which somebody gives up."""
DRIVER = ObjectKey("kube-system", "driver")
OTHER = ObjectKey("kube-system", "other")


@attrs.define
class Readings:
    """ResyncSchedule, and what was read when.

    Attributes:
        hanging: whose readings end only when somebody gives up.
        begun: seconds at which readings began, by load balancer.
        most: how many were under way at a time, by namespace.
    """

    hanging: Collection[ObjectKey] = ()
    begun: dict[ObjectKey, list[float]] = attrs.Factory(dict)
    most: Counter[str] = attrs.Factory(Counter)
    _under_way: Counter[str] = attrs.Factory(Counter)
    rounds: ResyncSchedule = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.rounds = ResyncSchedule(self._read, period=PERIOD, clock=VirtualClock())

    async def _read(self, key: ObjectKey) -> None:
        """Read one."""
        self.begun.setdefault(key, []).append(asyncio.get_running_loop().time())
        self._under_way[key.namespace] += 1
        now = self._under_way[key.namespace]
        self.most[key.namespace] = max(self.most[key.namespace], now)
        try:
            await asyncio.sleep(HANGS if key in self.hanging else 0.01)
        finally:
            self._under_way[key.namespace] -= 1

    async def go_on(self, seconds: float) -> None:
        """Let time pass."""
        running = asyncio.create_task(self.rounds.run())
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert not +self._under_way


def keys(namespace: str, count: int) -> list[ObjectKey]:
    """Name load balancers of a namespace."""
    return [ObjectKey(namespace, f"front-{number}") for number in range(count)]


def gaps(moments: list[float]) -> list[float]:
    """Say how long it took from each reading to the next one."""
    return [b - a for a, b in itertools.pairwise(moments)]


def test_each_is_read_by_period() -> None:
    """The first time at once."""
    readings = Readings()
    (key,) = keys("calm", 1)

    readings.rounds.follow(key, DRIVER)
    run_virtual(readings.go_on(7))

    assert 4 == len(readings.begun[key])
    assert readings.begun[key][0] == 0.0


def test_hanging_ones_delay_no_others() -> None:
    """Neither those of another namespace, nor those of another driver."""
    hanging = keys("busy", 200)
    readings = Readings(hanging)
    (calm,), (neighbour,) = keys("calm", 1), keys("busy/other", 1)
    neighbour = ObjectKey("busy", neighbour.name + "-of-another-driver")
    for key in hanging:
        readings.rounds.follow(key, DRIVER)
    readings.rounds.follow(calm, DRIVER)
    readings.rounds.follow(neighbour, OTHER)

    run_virtual(readings.go_on(60))

    for key in (calm, neighbour):
        assert max(gaps(readings.begun[key])) < 2 * PERIOD.total_seconds()
    assert AT_ONCE + 1 >= readings.most["busy"]


def test_many_are_read_less_often_and_delay_no_other_namespace() -> None:
    """So that readings never cost more than so much of the process."""
    many = keys("busy", 20 * PER_SECOND)
    readings = Readings()
    (calm,) = keys("calm", 1)
    for key in many:
        readings.rounds.follow(key, DRIVER)
    readings.rounds.follow(calm, DRIVER)

    run_virtual(readings.go_on(60))

    assert max(gaps(readings.begun[calm])) < 1.5 * PERIOD.total_seconds()
    assert sum(map(len, readings.begun.values())) <= 61 * PER_SECOND
    assert all(len(readings.begun[key]) >= 2 for key in many)


@pytest.mark.parametrize(
    "lanes",
    [[("busy", DRIVER), ("also-busy", DRIVER)], [("busy", DRIVER), ("busy", OTHER)]],
    ids=["namespaces", "drivers"],
)
def test_those_with_many_take_turns(lanes: list[tuple[str, ObjectKey]]) -> None:
    """Each has more than can be read in time: none is read at the other's cost."""
    readings = Readings()
    for namespace, driver in lanes:
        for key in keys(namespace, 10 * PER_SECOND):
            mine = ObjectKey(namespace, f"{key.name}-of-{driver.name}")
            readings.rounds.follow(mine, driver)

    run_virtual(readings.go_on(20))

    shares = [
        sum(
            len(moments)
            for key, moments in readings.begun.items()
            if key.namespace == namespace and key.name.endswith(driver.name)
        )
        for namespace, driver in lanes
    ]
    assert 20 * PER_SECOND <= sum(shares)
    assert max(shares) < 1.2 * min(shares)


def test_one_that_is_forgotten_is_read_no_more() -> None:
    """And if it is taken up again, once by period."""
    readings = Readings()
    (key,) = keys("calm", 1)

    async def play() -> None:
        readings.rounds.follow(key, DRIVER)
        await readings.go_on(1)
        readings.rounds.forget(key)
        await readings.go_on(10)
        assert 1 == len(readings.begun[key])
        readings.rounds.follow(key, DRIVER)
        readings.rounds.forget(key)
        readings.rounds.follow(key, OTHER)
        await readings.go_on(5)

    run_virtual(play())

    assert 4 == len(readings.begun[key])


def test_reading_that_breaks_is_repeated() -> None:
    """Whatever it was."""
    begun: list[ObjectKey] = []

    async def broken(key: ObjectKey) -> None:
        begun.append(key)
        if len(begun) == 1:
            raise asyncio.CancelledError
        raise RuntimeError("broken")

    rounds = ResyncSchedule(broken, period=PERIOD, clock=VirtualClock())

    async def play() -> None:
        for key in keys("calm", 1):
            rounds.follow(key, DRIVER)
        running = asyncio.create_task(rounds.run())
        await asyncio.sleep(5)
        running.cancel()

    run_virtual(play())

    assert 3 == len(begun)


def test_what_follows_an_answer_keeps_no_other_reading_waiting() -> None:
    """Load balancers that are reset together are all read before their records are."""
    begun: list[ObjectKey] = []

    async def read(key: ObjectKey) -> None:
        begun.append(key)
        await asyncio.sleep(0.01)
        rounds.leave(key)
        await asyncio.sleep(HANGS)

    rounds = ResyncSchedule(read, period=PERIOD, clock=VirtualClock())

    async def play() -> None:
        for key in keys("calm", 5 * AT_ONCE):
            rounds.follow(key, DRIVER)
        running = asyncio.create_task(rounds.run())
        await asyncio.sleep(1)
        running.cancel()

    run_virtual(play())

    assert 5 * AT_ONCE == len(begun)
