"""What one tenant has that hangs, or is many: each fills a namespace `noisy`."""

from collections.abc import Callable, Mapping

from lbcf.core.model.operations import Operation
from tests.fairness.objects import Balancer, Bind, Driver, Group, Record
from tests.fairness.world import World


NOISY = "noisy"
PATIENCE = 60
"""Seconds that a call of a driver that hangs takes."""

_LIFE = (
    Operation.CREATE_LOAD_BALANCER,
    Operation.ENSURE_LOAD_BALANCER,
    Operation.DELETE_LOAD_BALANCER,
    Operation.VALIDATE_LOAD_BALANCER,
    Operation.VALIDATE_BACKEND,
    Operation.ENSURE_BACKEND,
    Operation.DEREGISTER_BACKEND,
)
ENDING = "2026-01-01T00:00:00Z"
"""When a deletion was asked for: the moment at which virtual time begins."""


def hanging(name: str, *operations: Operation, at_once: int = 32) -> Driver:
    """Make a driver that hangs, with a time-out of a minute for each operation."""
    timeouts = dict.fromkeys(operations or _LIFE, PATIENCE)
    return Driver(NOISY, name, f"http://hang-{name}.test", timeouts, at_once)


def load_balancers(world: World) -> None:
    """200 load balancers that are never created."""
    world.put(hanging("creates"))
    for number in range(200):
        world.put(Balancer(NOISY, f"new-{number}", "creates", is_new=True))


def drivers(world: World) -> None:
    """80 drivers that hang when asked how they are: more than there are workers."""
    for number in range(80):
        world.put(hanging(f"sick-{number}", Operation.HEALTHZ))


def groups(world: World) -> None:
    """500 groups whose driver hangs when asked about their parameters."""
    world.put(hanging("asked"), Balancer(NOISY, "asked", "asked"))
    for number in range(500):
        addresses = (f"10.1.{number // 250}.{number % 250}:80",)
        world.put(Group(NOISY, f"web-{number}", "asked", addresses))


def registrations(world: World) -> None:
    """3,000 records whose driver hangs, and claims to bear 10,000 calls at a time."""
    world.put(hanging("in", at_once=10_000), Balancer(NOISY, "in", "in"))
    for number in range(3000):
        name = f"10.2.{number // 250}.{number % 250}"
        world.put(Record(NOISY, name, "in", "in", is_new=True))


def deregistrations(world: World) -> None:
    """6,000 records that end, whose driver hangs, and claims to bear 10,000 calls."""
    world.put(hanging("out", at_once=10_000), Balancer(NOISY, "out", "out"))
    for number in range(6000):
        name = f"10.3.{number // 250}.{number % 250}"
        world.put(Record(NOISY, name, "out", "out", ENDING))


def binds(world: World) -> None:
    """200 Binds whose driver hangs when it is to make their load balancers."""
    world.put(hanging("bound"))
    for number in range(200):
        world.put(Bind(NOISY, f"bind-{number}", ("bound",)))


def listings(world: World) -> None:
    """200 load balancers whose driver hangs when asked for their members."""
    world.put(hanging("listed", Operation.LIST_BACKENDS))
    for number in range(200):
        world.put(Balancer(NOISY, f"old-{number}", "listed"))


def serial_listings(world: World) -> None:
    """100 such load balancers, whose driver bears one call at a time."""
    world.put(hanging("one", Operation.LIST_BACKENDS, at_once=1))
    for number in range(100):
        world.put(Balancer(NOISY, f"one-{number}", "one"))


def all_at_once(world: World) -> None:
    """All of these together."""
    for crowd in (load_balancers, listings, drivers, groups, binds):
        crowd(world)
    registrations(world)
    deregistrations(world)


CROWDS: Mapping[str, Callable[[World], None]] = {
    "load-balancers": load_balancers,
    "listings": listings,
    "serial-listings": serial_listings,
    "drivers": drivers,
    "groups": groups,
    "binds": binds,
    "registrations": registrations,
    "deregistrations": deregistrations,
    "all": all_at_once,
}
