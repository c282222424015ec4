"""What one tenant has that hangs, or is many, delays nobody else: bounds in virtual time."""

import functools

from collections.abc import Callable, Coroutine, Mapping

import pytest

from lbcf.core import conditions
from lbcf.core.operations import Operation
from tests.fairness.acts import CALM, DRIVER, FRONT, act, is_true
from tests.fairness.crowds import CROWDS, ENDING, NOISY
from tests.fairness.objects import Balancer, Driver, Record
from tests.fairness.world import API_LATENCY, STARTED, World
from tests.fakes.loop import run_virtual


SLOWER = 2.0
"""How many times as long as alone anything of the calm tenant may take."""
FILLED = 20.0
"""Seconds in which all that hangs has begun to."""
OPERATOR = "kube-system"

Crowd = Callable[[World], None]
Measure = Callable[[World], Coroutine[None, None, float]]


async def _played(crowd: Crowd | None) -> Mapping[str, float]:
    """Let the calm tenant act beside a crowd."""
    async with World() as world:
        world.put(DRIVER, FRONT)
        if crowd is not None:
            crowd(world)
        await world.start(FILLED)
        return await act(world)


@functools.cache
def alone() -> Mapping[str, float]:
    """Return what the acts of the calm tenant take when there is nobody else."""
    return run_virtual(_played(None))


@pytest.mark.parametrize("name", CROWDS)
def test_tenant_is_not_delayed_by_what_hangs_for_another(name: str) -> None:
    """Each of its acts takes twice as long as alone at most."""
    took = run_virtual(_played(CROWDS[name]))

    late = {what: s for what, s in took.items() if s > SLOWER * alone()[what]}
    assert {} == late


# --- one driver, used by two namespaces -----------------------------------------------


def _shared(host: str, at_once: int) -> Driver:
    """Make a driver that every namespace may use."""
    timeouts = {Operation.ENSURE_BACKEND: 60, Operation.DEREGISTER_BACKEND: 60}
    url = f"http://{host}.test"
    return Driver(OPERATOR, "lbcf-shared", url, timeouts, at_once)


def _measured(crowd: Crowd, measure: Measure) -> float:
    """Return what something takes beside a crowd."""

    async def main() -> float:
        async with World() as world:
            crowd(world)
            await world.start(STARTED)
            return await measure(world)

    return run_virtual(main())


async def _end_one(world: World) -> float:
    """Delete a registered record of the calm tenant; wait for its end."""
    record = Record(CALM, "10.0.0.1", "front", "lbcf-shared")
    world.put(record)
    world.delete(record)
    return await world.until(lambda: world.find(record) is None, 600)


async def _register_one(world: World) -> float:
    """Make a record of the calm tenant; wait until it is registered."""
    record = Record(CALM, "10.0.0.1", "front", "lbcf-shared", is_new=True)
    world.put(record)
    return await world.until(
        lambda: is_true(world.find(record), conditions.REGISTERED), 600
    )


def _serial_deletions(world: World) -> None:
    """2,000 deletions of one tenant at a driver that does one thing at a time."""
    world.put(_shared("serial", 8))
    for number in range(2000):
        name = f"10.4.{number // 250}.{number % 250}"
        world.put(Record(NOISY, name, "front", "lbcf-shared", ENDING))


def test_deletions_of_one_tenant_go_in_turn_with_anothers() -> None:
    """It waits for those under way, not for the 2,000 that came before it."""
    assert _measured(_serial_deletions, _end_one) < 1.0


def _half_hanging(world: World) -> None:
    """300 registrations of one tenant that hang, at a driver that serves others well."""
    world.put(_shared("half", 32))
    for number in range(300):
        name = f"10.5.{number // 250}.{number % 250}"
        world.put(Record(NOISY, name, "front", "lbcf-shared", is_new=True))


def test_what_hangs_for_one_namespace_leaves_room_at_a_shared_driver() -> None:
    """A quarter of its calls: another namespace's waits for none of them."""
    calm = _measured(lambda world: world.put(_shared("half", 32)), _register_one)

    assert _measured(_half_hanging, _register_one) <= SLOWER * calm


# --- one namespace, two load balancers ------------------------------------------------


def _hanging_balancer(world: World) -> None:
    """300 registrations hang at a load balancer that bears four calls at a time."""
    own = Driver(CALM, "lines", "http://half.test", {Operation.ENSURE_BACKEND: 60})
    world.put(own, Balancer(CALM, "noisy", "lines", at_once=4))
    world.put(Balancer(CALM, "front", "lines"))
    for number in range(300):
        name = f"10.6.{number // 250}.{number % 250}"
        world.put(Record(CALM, name, "noisy", "lines", is_new=True))


async def _register_at_the_other(world: World) -> float:
    """Make a record at the other load balancer; wait until it is registered."""
    record = Record(CALM, "10.0.0.1", "front", "lines", is_new=True)
    world.put(record)
    return await world.until(
        lambda: is_true(world.find(record), conditions.REGISTERED), 600
    )


def test_load_balancer_with_a_limit_of_its_own_delays_no_other() -> None:
    """Its turns count against that limit, and hold no place of their driver's."""
    seconds = _measured(_hanging_balancer, _register_at_the_other)

    assert seconds < 10 * API_LATENCY + 0.1
