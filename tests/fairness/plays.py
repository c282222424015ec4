"""What tenants do beside each other, and what of it takes too long.

Each play returns what is late: empty where nobody is delayed. `test_tenants` plays the
whole code, `test_mutants` the code with a guard taken out.
"""

import functools

from collections.abc import Callable, Coroutine, Mapping

from lbcf.core.model import conditions
from lbcf.core.model.operations import Operation
from tests.fairness.acts import CALM, DRIVER, FRONT, act, is_true
from tests.fairness.crowds import CROWDS, ENDING, NOISY, PATIENCE
from tests.fairness.objects import Balancer, Driver, Group, Record
from tests.fairness.world import STARTED, World
from tests.fakes.loop import run_virtual


SLOWER = 2.0
"""How many times as long as alone anything may take."""
SHARING = 1.0
"""Seconds that it may take where others use the same driver at the same time."""
FILLED = 20.0
"""Seconds in which all that hangs has begun to."""
OPERATOR = "kube-system"
NEVER = 7200.0

Late = Mapping[str, float]
Crowd = Callable[[World], None]
Measure = Callable[[World], Coroutine[None, None, float]]


async def _acted(crowd: Crowd | None) -> Mapping[str, float]:
    """Let the calm tenant act beside a crowd."""
    async with World() as world:
        world.put(DRIVER, FRONT)
        if crowd is not None:
            crowd(world)
        await world.start(FILLED)
        try:
            return await act(world)
        except TimeoutError:
            return {"never done": NEVER}


@functools.cache
def _alone() -> Mapping[str, float]:
    """Return what the acts of the calm tenant take when there is nobody else."""
    took = run_virtual(_acted(None))
    assert NEVER not in took.values(), "the calm tenant cannot act at all"
    return took


def _beside(crowd: Crowd) -> Late:
    """Return which acts take more than twice as long beside a crowd."""
    alone, took = _alone(), run_virtual(_acted(crowd))
    return {
        what: seconds
        for what, seconds in took.items()
        if seconds > SLOWER * alone.get(what, 0.0)
    }


def _measured(crowd: Crowd, measure: Measure) -> float:
    """Return what something takes beside a crowd."""

    async def main() -> float:
        async with World() as world:
            crowd(world)
            await world.start(STARTED)
            try:
                return await measure(world)
            except TimeoutError:
                return NEVER

    return run_virtual(main())


def _over(limit: float, seconds: float) -> Late:
    """Return what took longer than its limit."""
    return {"it": seconds} if seconds > limit else {}


def _slower(calm: float, beside: float) -> Late:
    """Return what takes more than twice as long beside a crowd as without it."""
    assert calm < NEVER, "it is never done, even without a crowd"
    return _over(SLOWER * calm, beside)


async def _register(world: World, record: Record) -> float:
    """Make a record; wait until it is registered."""
    world.put(record)
    return await world.until(
        lambda: is_true(world.find(record), conditions.REGISTERED), NEVER
    )


# --- one driver, used by two namespaces -----------------------------------------------


def _shared(host: str, at_once: int) -> Driver:
    """Make a driver that every namespace may use."""
    operations = (Operation.ENSURE_BACKEND, Operation.DEREGISTER_BACKEND)
    timeouts = dict.fromkeys(operations, PATIENCE)
    return Driver(OPERATOR, "lbcf-shared", f"http://{host}.test", timeouts, at_once)


async def _end_one(world: World) -> float:
    """Delete a registered record of the calm tenant; wait for its end."""
    record = Record(CALM, "10.0.0.1", "front", "lbcf-shared")
    world.put(record)
    world.delete(record)
    return await world.until(lambda: world.find(record) is None, NEVER)


def _serial_deletions(world: World) -> None:
    """2,000 deletions of one tenant at a driver that does one thing at a time."""
    world.put(_shared("serial", 8))
    for number in range(2000):
        name = f"10.4.{number // 250}.{number % 250}"
        world.put(Record(NOISY, name, "front", "lbcf-shared", ENDING))


def deletions_of_another() -> Late:
    """One deletion behind 2,000 of another tenant, at the same driver."""
    return _over(SHARING, _measured(_serial_deletions, _end_one))


def _fronts(world: World, host: str) -> None:
    """Make a driver for all, and a load balancer of each tenant at it."""
    world.put(_shared(host, 32))
    for namespace in (CALM, NOISY):
        world.put(Balancer(namespace, "front", "lbcf-shared"))


def _half(world: World) -> None:
    """Make a driver that serves one tenant well."""
    _fronts(world, "half")


def _whole(world: World) -> None:
    """Make a driver that serves all."""
    _fronts(world, "whole")


async def _register_one(world: World) -> float:
    """Make a record of the calm tenant at the shared driver."""
    return await _register(
        world, Record(CALM, "10.0.0.1", "front", "lbcf-shared", is_new=True)
    )


def _half_hanging(world: World) -> None:
    """300 registrations of one tenant that hang, at a driver that serves others well."""
    _half(world)
    for number in range(300):
        name = f"10.5.{number // 250}.{number % 250}"
        world.put(Record(NOISY, name, "front", "lbcf-shared", is_new=True))


def hanging_for_another() -> Late:
    """A registration beside 300 of another tenant that hang at the same driver."""
    calm = _measured(_half, _register_one)
    return _slower(calm, _measured(_half_hanging, _register_one))


async def _create_one(world: World) -> float:
    """Make a group of the calm tenant; wait until its record is there."""
    world.put(Group(CALM, "web", "front", ("10.0.0.1:80",)))
    return await world.until(lambda: bool(world.records_of(CALM)), NEVER)


async def _create_one_behind_many(world: World) -> float:
    """Make it when another tenant has just asked for 2,000 records."""
    for number in range(2):
        addresses = tuple(f"10.8.{n // 250}.{n % 250}:80" for n in range(1000))
        world.put(Group(NOISY, f"web-{number}", "front", addresses))
    await world.until(lambda: bool(world.records_of(NOISY)), NEVER)
    return await _create_one(world)


def creates_of_another() -> Late:
    """A record that is to be made behind 2,000 of another tenant."""
    calm = _measured(_whole, _create_one)
    return _slower(calm, _measured(_whole, _create_one_behind_many))


# --- one namespace --------------------------------------------------------------------


async def _register_own(world: World) -> float:
    """Make a record of the calm tenant at its own load balancer."""
    return await _register(
        world, Record(CALM, "10.0.0.1", "front", "proxy", is_new=True)
    )


def _own(world: World) -> None:
    """Give the calm tenant a driver that hangs about what is called noisy."""
    timeouts = {Operation.ENSURE_BACKEND: PATIENCE}
    world.put(Driver(CALM, "proxy", "http://half.test", timeouts), FRONT)


def _hanging_balancer(world: World) -> None:
    """300 registrations hang at a load balancer that bears four calls at a time."""
    _own(world)
    world.put(Balancer(CALM, "noisy", "proxy", at_once=4))
    for number in range(300):
        name = f"10.6.{number // 250}.{number % 250}"
        world.put(Record(CALM, name, "noisy", "proxy", is_new=True))


def other_load_balancer() -> Late:
    """A registration beside 300 that hang at another load balancer of its driver."""
    calm = _measured(_own, _register_own)
    return _slower(calm, _measured(_hanging_balancer, _register_own))


def _hanging_driver(world: World) -> None:
    """1,000 registrations hang at a driver that claims to bear 10,000 calls."""
    _own(world)
    timeouts = {Operation.ENSURE_BACKEND: PATIENCE}
    world.put(Driver(CALM, "dead", "http://hang.test", timeouts, 10_000))
    world.put(Balancer(CALM, "noisy", "dead"))
    for number in range(1000):
        name = f"10.7.{number // 250}.{number % 250}"
        world.put(Record(CALM, name, "noisy", "dead", is_new=True))


def other_driver() -> Late:
    """A registration beside 1,000 that hang at another driver of its namespace."""
    calm = _measured(_own, _register_own)
    return _slower(calm, _measured(_hanging_driver, _register_own))


BESIDE: Mapping[str, Callable[[], Late]] = {
    name: functools.partial(_beside, crowd) for name, crowd in CROWDS.items()
}
SHARED: Mapping[str, Callable[[], Late]] = {
    "deletions-of-another": deletions_of_another,
    "hanging-for-another": hanging_for_another,
    "creates-of-another": creates_of_another,
}
OWN: Mapping[str, Callable[[], Late]] = {
    "other-load-balancer": other_load_balancer,
    "other-driver": other_driver,
}
PLAYS: Mapping[str, Callable[[], Late]] = {**BESIDE, **SHARED, **OWN}
