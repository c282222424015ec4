"""Plays about what people take out of service by an annotation, and put back.

And about what they let go of, and what they order to be taken out by mistake.
"""

import asyncio

from tests.lab.sweep.objects import (
    BACKEND,
    RECORD,
    group_path,
    load_balancer_path,
    node_path,
    pod_path,
)
from tests.lab.sweep.stage import ONE, TWO, begin, scenario
from tests.lab.sweep.world import World


_BOTH = {"record": RECORD, "backend": BACKEND}
_WHY = "memory is to be changed"
_OUT = 3.0
"""Seconds until what is idle has left, where nothing fails."""


def _see(world: World, address: str, *, inside: bool) -> None:
    """Tell of an address that is in and should be out, or the other way round."""
    if world.is_faultless and world.oracle.serving.is_in(f"{address}:80") != inside:
        world.fail(f"S11: {address} is {'out' if inside else 'in'}")


async def _and_back(world: World, path: str, *addresses: str) -> None:
    """Drain by hand for a while, then take it off."""
    world.drain_by_hand(path, _WHY)
    await asyncio.sleep(_OUT)
    for address in addresses:
        _see(world, address, inside=False)
    await asyncio.sleep(5)
    for address in addresses:
        _see(world, address, inside=False)
    world.drain_by_hand(path)
    await asyncio.sleep(_OUT)
    for address in addresses:
        _see(world, address, inside=True)


@scenario(_BOTH)
async def pod_drained_by_hand(world: World) -> None:
    """One of two pods is taken out for some seconds; the other one stays in."""
    await begin(world, ONE, TWO)
    await _and_back(world, pod_path("web-1"), ONE)
    _see(world, TWO, inside=True)


@scenario(_BOTH)
async def node_drained_by_hand(world: World) -> None:
    """A node with one of two pods; a third pod comes there meanwhile, and waits."""
    world.api.put(node_path("n1"), {"metadata": {}, "status": {}})
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE, node="n1")
    world.put_pod("web-2", TWO)
    await asyncio.sleep(3)
    world.drain_by_hand(node_path("n1"), _WHY)
    world.put_pod("web-3", "10.0.0.3", node="n1")
    await asyncio.sleep(_OUT)
    _see(world, ONE, inside=False)
    _see(world, "10.0.0.3", inside=False)
    _see(world, TWO, inside=True)
    await _and_back(world, node_path("n1"), ONE, "10.0.0.3")


@scenario(_BOTH)
async def group_drained_by_hand(world: World) -> None:
    """A group of pods; the controller is killed while it is out."""
    await begin(world, ONE, TWO)
    world.drain_by_hand(group_path("web"), _WHY)
    await asyncio.sleep(1.0)
    world.crash_any("controller", is_old=False)
    await asyncio.sleep(6.0)
    await _and_back(world, group_path("web"), ONE, TWO)


@scenario(_BOTH)
async def addresses_drained_by_hand(world: World) -> None:
    """The same of static addresses."""
    world.put_group(static=(f"{ONE}:80", f"{TWO}:80"))
    await asyncio.sleep(4)
    await _and_back(world, group_path("web"), ONE, TWO)


@scenario(_BOTH, drains=True)
async def drained_by_hand_with_sessions(world: World) -> None:
    """What is taken out by hand has sessions: they get the whole drain."""
    world.set_sessions(f"{ONE}:80", 1)
    await begin(world, ONE, TWO)
    world.drain_by_hand(pod_path("web-1"), _WHY)
    await asyncio.sleep(10)
    _see(world, TWO, inside=True)
    world.set_sessions(f"{ONE}:80", 0)
    await asyncio.sleep(8)
    world.drain_by_hand(pod_path("web-1"))


@scenario(_BOTH, drains=True)
async def abandoned(world: World) -> None:
    """A record that drains for ever is let go of; at first nobody says why."""
    world.set_sessions(f"{ONE}:80", 1)
    world.put_group(drain={"timeoutSeconds": 300})
    await begin(world, ONE)
    world.end_pod("web-1", after=400.0)
    await asyncio.sleep(4)
    world.let_go(" ")
    await asyncio.sleep(4)
    world.let_go("its load balancer was scrapped")
    await asyncio.sleep(4)
    if world.is_faultless and world.oracle.records:
        world.fail("S5: a record is held that a person has let go of")
    world.put_pod("web-2", ONE)


@scenario({"record": RECORD}, lists=True, settle=400.0, quiet=120.0)
async def confirmed_by_mistake(world: World) -> None:
    """All records there are are called gone: whoever has one keeps its member."""
    await begin(world, ONE, TWO)
    path = load_balancer_path("front")
    for number in (3, 4, 5):
        world.confirm_orphans(
            path, (seen.uid for seen in world.oracle.records.values())
        )
        await asyncio.sleep(2)
        world.end_pod(f"web-{number - 2}")
        world.put_pod(f"web-{number}", f"10.0.0.{number}")
        if number == 4:
            world.crash_any("deregistrar", is_old=False)
        await asyncio.sleep(8)
    world.confirm_orphans(path)
