"""What the calm tenant does, and how many virtual seconds each takes."""

import asyncio

from collections.abc import Mapping

from lbcf.core.model import conditions
from lbcf.core.model.names import FINALIZER_DRIVER
from lbcf.core.model.operations import Operation
from tests.fairness.objects import Balancer, Bind, Driver, Group
from tests.fairness.world import LATENCY, World
from tests.kube.tiny_rules import Json, metadata_of


CALM = "calm"
PATIENCE = 7200.0
"""Seconds after which an act counts as never done."""

DRIVER = Driver(
    CALM,
    "proxy",
    "http://calm-proxy.test",
    {Operation.DRAIN_BACKEND: 10, Operation.LIST_BACKENDS: 10, Operation.HEALTHZ: 10},
)
FRONT = Balancer(CALM, "front", "proxy")
_HOST = "calm-proxy.test"


def is_true(whole: Json | None, kind: str) -> bool:
    """Tell whether a condition of an object is true."""
    match whole:
        case {"status": {"conditions": list(found)}}:
            return any(c["type"] == kind and c["status"] == "True" for c in found)
        case _:
            return False


async def act(world: World, again: str = "") -> Mapping[str, float]:
    """Do all of it, one after another; return the seconds of each.

    Args:
        world: where.
        again: added to the names of what is made, so that all of it can be repeated.
    """
    took: dict[str, float] = {}
    made = Balancer(CALM, f"made{again}", "proxy", is_new=True)
    world.put(made)
    took["create"] = await world.until(
        lambda: is_true(world.find(made), conditions.CREATED), PATIENCE
    )
    bind = Bind(CALM, f"bound{again}", ("proxy",))
    world.put(bind)
    took["bind"] = await world.until(lambda: _is_bound(world.find(bind)), PATIENCE)
    group = Group(CALM, f"web{again}", "front", ("10.0.0.1:80",))
    world.put(group)
    took["register"] = await world.until(
        lambda: any(is_true(r, conditions.REGISTERED) for r in world.records_of(CALM)),
        PATIENCE,
    )
    took["epoch"] = await _lose(world)
    took.update(await _end(world, group))
    took.update(await _driver(world, f"fresh{again}"))
    return took


async def _lose(world: World) -> float:
    """Let the load balancer lose its member; wait until that is put back.

    It loses it right after it was asked for its members itself, not another load balancer
    of the driver: so the next question is a whole period away, here as anywhere.
    """
    members, before = world.members[_HOST], len(world.calls)
    front = f"{FRONT.namespace}/{FRONT.name}"
    await world.until(
        lambda: _arrived(world, Operation.LIST_BACKENDS, before, front), PATIENCE
    )
    await asyncio.sleep(2 * LATENCY)
    members.lose_all()
    return await world.until(lambda: bool(members.members), PATIENCE)


async def _end(world: World, group: Group) -> Mapping[str, float]:
    """Empty the group; wait for the drain, and for the record's end."""
    began, before = world.second(), len(world.calls)
    empty = Group(CALM, group.name, group.balancer, ())
    found = world.api.objects[group.path]
    metadata: Json = {**metadata_of(found), "generation": 2}
    world.api.put(
        group.path, {**found, "spec": empty.body()["spec"], "metadata": metadata}
    )
    drained = await world.until(
        lambda: _arrived(world, Operation.DRAIN_BACKEND, before), PATIENCE
    )
    await world.until(lambda: not world.records_of(CALM), PATIENCE)
    return {"drain": drained, "deregister": world.second() - began}


def _arrived(world: World, operation: Operation, before: int, about: str = "") -> bool:
    """Tell whether the calm driver was asked since then, about something or anything."""
    return any(
        call.operation is operation and call.host == _HOST and about in ("", call.about)
        for call in world.calls[before:]
    )


async def _driver(world: World, name: str) -> Mapping[str, float]:
    """Make a driver that is held and found healthy; delete it, and wait for its end."""
    fresh = Driver(
        CALM, name, "http://calm-fresh.test", {Operation.HEALTHZ: 10}, is_new=True
    )
    world.put(fresh)
    held = await world.until(lambda: _is_held(world.find(fresh)), PATIENCE)
    healthy = await world.until(
        lambda: is_true(world.find(fresh), conditions.HEALTHY), PATIENCE
    )
    world.delete(fresh)
    gone = await world.until(lambda: world.find(fresh) is None, PATIENCE)
    return {"driver held": held, "driver healthy": held + healthy, "driver gone": gone}


def _is_bound(whole: Json | None) -> bool:
    """Tell whether the load balancers of a Bind have been made."""
    match whole:
        case {"status": {"loadBalancerStatuses": list(found)}} if found:
            return all(entry.get("lbInfo") for entry in found)
        case _:
            return False


def _is_held(whole: Json | None) -> bool:
    """Tell whether a driver has our finalizer."""
    return whole is not None and FINALIZER_DRIVER in str(metadata_of(whole))
