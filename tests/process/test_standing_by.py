"""A process that does not lead keeps nothing of what is gone; once it leads, nothing is forgotten.

Both programs as they are put together, in virtual time: each reads, and nobody works.
"""

import asyncio
import gc

from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import attrs
import pytest

from lbcf.core.model import conditions
from lbcf.core.model.binds import Bind as BindObject
from lbcf.core.model.cluster import ReadinessGate
from lbcf.core.model.names import ANNOTATION_REMOVE_ORPHANS
from lbcf.core.model.resources import DrainProgress
from lbcf.core.model.services import Exposure
from lbcf.kube.kinds import HasMeta
from lbcf.kube.list_watch import Put, Removed
from lbcf.kube.store import Store
from lbcf.process import Program
from lbcf.runtime.metrics import Metrics
from lbcf.wire.metadata import identity_of
from tests.builders import (
    START,
    a_backend,
    a_driver,
    a_group,
    a_load_balancer,
    a_meta,
    a_pod,
    a_record,
    a_spec,
)
from tests.fairness.acts import CALM, is_true
from tests.fairness.objects import Balancer, Bind, Driver, Group
from tests.fairness.world import ROLES, STARTED, World
from tests.fakes.loop import run_virtual
from tests.kube.tiny_rules import metadata_of, with_metadata
from tests.node_builders import a_node, a_service
from tests.patience import PATIENCE


MANY = 10_000
PAST = "past-"
"""How everything is called that came and went."""
DRIVER = Driver(CALM, "proxy", "http://proxy.test")
FRONT = Balancer(CALM, "front", "proxy")
OLD = Balancer(CALM, "old", "proxy")
MADE = Balancer(CALM, "made", "proxy", is_new=True)
BOUND = Bind(CALM, "bound", ("proxy",))
FIRST, SECOND, THIRD = (f"192.0.2.{n}:80" for n in (1, 2, 3))
WEB = Group(CALM, "web", "front", (FIRST, SECOND))
SOON = 10
"""Seconds in which a new leader has made what is to be made."""


def stores_of(program: Program) -> dict[str, Store[Any]]:
    """Return what a process has read, by the plural of the kind."""
    return {one.resource.plural: one.store for one in program.informers}


def lives(number: int) -> Iterator[tuple[str, tuple[HasMeta, ...]]]:
    """Make versions of objects, each of which only this number has."""
    name = f"{PAST}{number}"
    yield (
        "backendrecords",
        (
            a_record(name),
            a_record(name, registered=True, version=2),
            a_record(name, registered=True, deleting=True, version=3),
        ),
    )
    if number % 10:
        return
    yield "pods", (a_pod(name, ready=False), a_pod(name, deleting=True, version=2))
    yield "backendgroups", (a_group(name),)
    yield "loadbalancers", (a_load_balancer(name),)
    yield "loadbalancerdrivers", (a_driver(name),)
    meta = a_meta(name)
    yield "nodes", (attrs.evolve(a_node(), meta=meta),)
    exposed = Exposure(is_balanced=True)
    yield "services", (attrs.evolve(a_service(), meta=meta, exposure=exposed),)


def come_and_go(program: Program) -> None:
    """Let the watches tell of thousands of objects, of each until it is gone."""
    stores = stores_of(program)
    for store, thing in (
        (stores["loadbalancerdrivers"], a_driver()),
        (stores["loadbalancers"], a_load_balancer()),
    ):
        store.apply(Put(thing))
    for number in range(MANY):
        for plural, versions in lives(number):
            if plural in stores:
                for value in versions:
                    stores[plural].apply(Put(value))
                end = attrs.evolve(identity_of(versions[-1].meta), version="9")
                stores[plural].apply(Removed(end))


def remembered(program: Program) -> set[str]:
    """Return the names and uids of the past that can be reached from a process."""
    found, seen, rest = set[str](), set[int](), list[object]([program])
    while rest:
        one = rest.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | asyncio.Task):
            continue
        seen.add(id(one))
        if isinstance(one, str):
            if PAST in one:
                found.add(one)
        elif isinstance(one, FunctionType):
            rest += [one.__closure__, one.__defaults__]
        else:
            rest += gc.get_referents(one)
    return found


@pytest.mark.parametrize("role", ROLES)
def test_who_does_not_lead_keeps_nothing_of_what_is_gone(role: str) -> None:
    """Weeks of rollouts would fill its memory, and come first when it leads."""

    async def story() -> int:
        async with World() as world:
            program = world.stand_by(role)
            await asyncio.sleep(STARTED)
            come_and_go(program)
            await asyncio.sleep(60)
            return len(remembered(program))

    assert run_virtual(story()) < MANY / 100


def there() -> Iterator[tuple[str, HasMeta]]:
    """Make something for each queue that does not live on what others find out."""
    shut = ReadinessGate()
    spec = a_spec(backend=a_backend("web-2"))
    going = a_record("web-2", spec=spec, registered=True, deleting=True)
    drained = attrs.evolve(going.status, drain=DrainProgress(START, START))
    order = {ANNOTATION_REMOVE_ORPHANS: going.meta.uid}
    exposed = Exposure(is_balanced=True)
    yield "loadbalancerdrivers", a_driver()
    yield (
        "loadbalancers",
        attrs.evolve(a_load_balancer(), meta=a_meta("front", annotations=order)),
    )
    yield "backendgroups", a_group()
    yield "pods", a_pod(gate=shut)
    yield "backendrecords", a_record("web-1")
    yield "backendrecords", attrs.evolve(going, status=drained)
    yield "services", attrs.evolve(a_service(), exposure=exposed)
    yield "binds", BindObject(a_meta("web"), a_group(), ())


@pytest.mark.parametrize(
    ("role", "queues"),
    [
        (
            "controller",
            "binds drivers gates gone-backends groups load-balancers records services",
        ),
        ("deregistrar", "deletions orphans"),
    ],
)
def test_who_begins_to_lead_looks_at_all_there_is(role: str, queues: str) -> None:
    """At whatever it heard of when there was nothing to do."""
    metrics = Metrics()

    def added(queue: str) -> float | None:
        return metrics.registry.get_sample_value(
            "workqueue_adds_total", {"name": queue}
        )

    async def story() -> None:
        async with World() as world:
            program = world.stand_by(role, metrics)
            await asyncio.sleep(STARTED)
            stores = stores_of(program)
            for plural, value in there():
                if plural in stores:
                    stores[plural].apply(Put(value))
            assert {0} == {added(queue) for queue in queues.split()}
            await world.lead(program)()

    run_virtual(story())

    assert [] == [queue for queue in queues.split() if not added(queue)]


def change(world: World, *addresses: str) -> None:
    """Let the group have other members."""
    found = world.api.objects[WEB.path]
    generation = metadata_of(found)["generation"]
    assert isinstance(generation, int)
    newer = with_metadata(found, generation=generation + 1)
    spec = attrs.evolve(WEB, addresses=addresses).body()["spec"]
    world.api.put(WEB.path, newer | {"spec": spec})


def members(world: World) -> dict[object, bool]:
    """Return the addresses of which there are records, and whether they are registered."""
    return {
        spec["staticAddr"]: is_true(record, conditions.REGISTERED)
        for record in world.records_of(CALM)
        if isinstance(spec := record["spec"], dict)
    }


def departed(world: World) -> list[object]:
    """Return the backends that the group tells to have left."""
    match world.find(WEB):
        case {"status": {"departed": list(found)}}:
            return [one["backend"] for one in found]
        case _:
            return []


def is_made(world: World) -> bool:
    """Tell whether all is there that users want, and nothing else."""
    created = is_true(world.find(MADE), conditions.CREATED)
    bound = metadata_of(world.find(BOUND) or {}).get("finalizers")
    as_wanted = {FIRST: True, THIRD: True} == members(world)
    return created and bool(bound) and as_wanted and world.find(OLD) is None


def test_new_leader_makes_all_that_is_to_be_made() -> None:
    """What nobody has done since the last one ended, and none of that which it did."""

    async def story() -> list[object]:
        async with World() as world:
            world.put(DRIVER, FRONT, OLD, WEB)
            ends = [world.lead(world.stand_by(role)) for role in ROLES]
            following = [world.stand_by(role) for role in ROLES]
            both = {FIRST: True, SECOND: True}
            await world.until(lambda: members(world) == both, PATIENCE)
            change(world, FIRST)
            await world.until(lambda: departed(world) == [SECOND], PATIENCE)
            for end in ends:
                await end()

            change(world, FIRST, THIRD)
            world.put(MADE, BOUND)
            world.delete(OLD)
            for program in following:
                come_and_go(program)
            await asyncio.sleep(STARTED)
            assert not is_made(world)
            for program in following:
                world.lead(program)
            await world.until(lambda: is_made(world), SOON)
            await asyncio.sleep(60)
            return departed(world)

    assert [SECOND] == run_virtual(story())
