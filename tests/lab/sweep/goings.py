"""Plays about drains of backends that do not exist any more."""

import asyncio

from tests.lab.sweep.objects import BACKEND, DRIVER, RECORD, SETTINGS
from tests.lab.sweep.stage import ONE, TWO, begin, scenario
from tests.lab.sweep.world import World


LONG = {"timeoutSeconds": 300}
PORT = f"{ONE}:80"


def see_end(world: World) -> None:
    """Tell of a member whose backend is gone, and which is drained all the same."""
    if world.is_faultless and world.balancer.find(PORT):
        world.fail("S7: a backend that is gone is drained")


@scenario(drains=True)
async def gone_while_draining(world: World) -> None:
    """A pod with a session that never ends is deleted, and gone some seconds later."""
    world.put_group(drain=LONG)
    world.set_sessions(PORT, 1)
    await begin(world, ONE)
    world.end_pod("web-1", after=5.0)
    await asyncio.sleep(9)
    see_end(world)


@scenario(drains=True)
async def gone_at_once(world: World) -> None:
    """A pod with such a session is gone at once; another group has its address."""
    world.put_group(drain=LONG)
    world.set_sessions(PORT, 1)
    await begin(world, ONE)
    world.drop_pod("web-1")
    await asyncio.sleep(4)
    see_end(world)
    world.set_sessions(PORT, 0)
    world.put_pod("web-2", ONE)


@scenario({"record": RECORD, "backend": BACKEND}, drains=True)
async def moved_while_draining(world: World) -> None:
    """A pod is not ready any more, and then has another address."""
    world.put_group(drain=LONG)
    world.set_sessions(PORT, 1)
    await begin(world, ONE)
    world.put_pod("web-1", ONE, ready=False)
    await asyncio.sleep(5)
    world.put_pod("web-1", TWO)
    await asyncio.sleep(4)
    see_end(world)


@scenario({"record": RECORD, "driver": DRIVER}, drains=True)
async def node_gone_while_draining(world: World) -> None:
    """A node leaves its group's Service, and is gone."""
    world.put_group(drain=LONG, nodes=80)
    world.set_sessions(PORT, 1)
    await begin(world)
    world.put_node("n1", ONE)
    await asyncio.sleep(1)
    await world.calm()
    world.put_group(drain=LONG, nodes=443)
    await asyncio.sleep(5)
    world.drop_node("n1")
    await asyncio.sleep(4)
    see_end(world)


@scenario(SETTINGS, drains=True)
async def namesake_while_draining(world: World) -> None:
    """A pod with a session is replaced by a namesake at another address."""
    world.put_group(drain=LONG)
    world.set_sessions(PORT, 1)
    await begin(world, ONE)
    world.drop_pod("web-1")
    world.put_pod("web-1", TWO)
    await asyncio.sleep(4)
    see_end(world)
