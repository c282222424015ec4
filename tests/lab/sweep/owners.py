"""Plays in which the work is divided among shards, and in which two own the same.

While the number of shards is changed, those of the old number and those of the new act on
the same pods and records: `docs/shards.md`, "Two owners at once".
"""

import asyncio

from tests.lab.sweep.objects import SETTINGS, SHARDED
from tests.lab.sweep.places import SHARED
from tests.lab.sweep.stage import begin, scenario
from tests.lab.sweep.world import World


NEAR = "10.0.0.18"
"""The first of two shards ends records of it, the second of three."""
FAR = "10.0.0.7"
"""The last one does, of two and of three."""
ELSEWHERE = "lbcf-edge"
"""A load balancer of the last shard; the namespace of all plays is that of another one."""
_BOTH = 12.0
"""Seconds in which there are two owners, longer than a restart and a call's time-out."""


@scenario(SHARDED)
async def divided(world: World) -> None:
    """Two pods come and go, and others get their addresses: each has its own shard."""
    await begin(world, NEAR, FAR)
    world.drop_pod("web-1")
    world.drop_pod("web-2")
    await asyncio.sleep(1)
    world.put_pod("web-3", NEAR)
    world.put_pod("web-4", FAR)


@scenario(SHARDED)
async def ends_divided(world: World) -> None:
    """A load balancer is deleted with its members: one of two shards knows of these."""
    await begin(world, NEAR, FAR)
    world.end_load_balancer()


async def _with_two_owners(world: World, before: int, after: int) -> None:
    """Change the number of shards while pods come, change, and go."""
    await begin(world, NEAR, FAR)
    world.start_shards(after)
    await asyncio.sleep(0.3)
    world.drop_pod("web-1")
    world.put_group(parameters={"weight": "2"})
    await asyncio.sleep(1)
    world.put_pod("web-3", NEAR)
    await asyncio.sleep(_BOTH)
    world.drop_pod("web-2")
    await asyncio.sleep(0.1)
    world.retire(before)
    world.put_pod("web-4", FAR)


@scenario(SETTINGS)
async def shards_begin(world: World) -> None:
    """The work of one process is divided among two."""
    await _with_two_owners(world, 1, 2)


@scenario(SHARDED)
async def shards_end(world: World) -> None:
    """The work of two shards becomes that of one process."""
    await _with_two_owners(world, 2, 1)


@scenario(SHARDED)
async def shards_become_more(world: World) -> None:
    """The work of two shards is divided among three."""
    await _with_two_owners(world, 2, 3)


# --- a load balancer of another shard than that of its members ------------------------


def _put_elsewhere(world: World) -> None:
    """Create it."""
    world.put_load_balancer(ELSEWHERE, driver=SHARED, scope=("*",))


async def _at_a_shared_one(world: World) -> None:
    """Register two pods at a load balancer of another shard."""
    world.put_driver(SHARED)
    _put_elsewhere(world)
    world.put_group(loadBalancers=[ELSEWHERE])
    await begin(world, NEAR, FAR)


@scenario(SHARDED, lists=True, settle=400.0, quiet=120.0)
async def lost_elsewhere(world: World) -> None:
    """It loses its members while one of them goes and another one comes."""
    await _at_a_shared_one(world)
    world.lose_members()
    await asyncio.sleep(1)
    world.drop_pod("web-1")
    await asyncio.sleep(2)
    world.put_pod("web-3", NEAR)


@scenario(SHARDED, lists=True, settle=400.0, quiet=120.0)
async def lost_again_elsewhere(world: World) -> None:
    """It loses them once more while they are put back, and calls are slow."""
    await _at_a_shared_one(world)
    world.troubles["ensureBackend"] = ["slow", "timeout-late"]
    world.lose_members()
    await asyncio.sleep(6)
    world.lose_members()


@scenario(SHARDED, settle=400.0, quiet=120.0)
async def ends_elsewhere_as_pods_come(world: World) -> None:
    """It is deleted when one has come and others do, and made anew as the same."""
    world.put_driver(SHARED)
    _put_elsewhere(world)
    world.put_group(loadBalancers=[ELSEWHERE])
    await begin(world)
    world.put_pod("web-1", NEAR)
    await asyncio.sleep(0.03)
    world.end_load_balancer(ELSEWHERE)
    world.put_pod("web-2", FAR)
    await asyncio.sleep(30)
    _put_elsewhere(world)


@scenario(SHARDED, settle=400.0, quiet=120.0)
async def ends_elsewhere(world: World) -> None:
    """It is deleted with its members, and made anew."""
    await _at_a_shared_one(world)
    world.end_load_balancer(ELSEWHERE)
    await asyncio.sleep(30)
    _put_elsewhere(world)
