"""Plays of drivers that take many members in one call."""

import asyncio

from tests.lab.sweep.objects import BACKEND, RECORD
from tests.lab.sweep.stage import ONE, TWO, begin, scenario
from tests.lab.sweep.world import World


THREE = "10.0.0.3"
BOTH = {"record": RECORD, "backend": BACKEND}


async def _come(world: World) -> None:
    """Let three pods be ready at the same time."""
    await asyncio.sleep(1)
    for number, address in enumerate((ONE, TWO, THREE), 1):
        world.put_pod(f"web-{number}", address)


@scenario(BOTH, batches=8)
async def batch(world: World) -> None:
    """Three pods come at once, and go at once."""
    await _come(world)
    await asyncio.sleep(0.5)
    await world.calm()
    for number in (1, 2, 3):
        world.drop_pod(f"web-{number}")


@scenario(BOTH, batches=8, drains=True)
async def batch_drains(world: World) -> None:
    """Pods are drained together; the address of one is used again at once."""
    await begin(world, ONE, TWO)
    world.drop_pod("web-1")
    world.drop_pod("web-2")
    world.put_pod("web-3", ONE)


@scenario(BOTH, batches=2, at_once=1, latency=3.0)
async def batch_orphaned(world: World) -> None:
    """Batches wait for a slow driver, and somebody else ends what is in them."""
    await asyncio.sleep(1)
    for number in range(1, 6):
        world.put_pod(f"web-{number}", f"10.0.0.{number}")
    await asyncio.sleep(1)
    world.drop_group()
    world.keep_collecting()


@scenario(BOTH, batches=8, latency=3.0)
async def batch_answered_in_part(world: World) -> None:
    """The answer leaves one out, which is never performed; and then it goes."""
    world.leaves_out += ["never", "never"]
    await _come(world)
    await asyncio.sleep(8)
    world.drop_pod("web-3")


@scenario(BOTH, batches=8)
async def batch_done_late_in_part(world: World) -> None:
    """The answer leaves one out, which is performed late; its pod goes meanwhile."""
    world.leaves_out += ["late"]
    await _come(world)
    await asyncio.sleep(0.3)
    for number in (1, 2, 3):
        world.drop_pod(f"web-{number}")
