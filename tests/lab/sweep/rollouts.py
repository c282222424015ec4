"""Plays about pods that are replaced: those that end still serve for a while."""

import asyncio

from tests.lab.sweep.objects import BACKEND, RECORD
from tests.lab.sweep.stage import ONE, TWO, begin, scenario
from tests.lab.sweep.world import World


_BOTH = {"record": RECORD, "backend": BACKEND}
_OLD = {"web-1": ONE, "web-2": TWO}
_NEW = {"web-3": "10.0.0.3", "web-4": "10.0.0.4"}
_GRACE = 60.0
_AWAY = 10.0
_REPLACED = 9.0
"""Seconds until new pods are in and old ones out, where an ensure takes three."""


async def _roll_while_away(world: World) -> None:
    """Let pods be replaced while neither process is there; then they start again."""
    await begin(world, *_OLD.values())
    for process in world.processes:
        process.kill()
    world.oracle.serving.watch()
    for name in _OLD:
        world.end_pod(name, after=_GRACE)
    for name, address in _NEW.items():
        world.put_pod(name, address)
    await asyncio.sleep(_AWAY)
    world.start("controller")
    world.start("deregistrar")


def _see_out(world: World, when: str) -> None:
    """Tell of a pod that ends and is still in full service."""
    still = [a for a in _OLD.values() if world.oracle.serving.is_in(f"{a}:80")]
    if world.is_faultless and still:
        world.fail(f"S8: {', '.join(still)} are still in {when}")


@scenario(_BOTH, latency=3.0)
async def rolled_while_away(world: World) -> None:
    """Pods are replaced in an outage of ours; the old ones have 50 s left to serve."""
    await _roll_while_away(world)
    await asyncio.sleep(_REPLACED)
    _see_out(world, "although the new pods are registered")


@scenario(_BOTH, latency=3.0, drains=True)
async def rolled_with_sessions(world: World) -> None:
    """The same, and the old ones have sessions that need all of their drain."""
    for address in _OLD.values():
        world.set_sessions(f"{address}:80", 1)
    await _roll_while_away(world)


@scenario(_BOTH, latency=3.0)
async def held_and_restarted(world: World) -> None:
    """The controller is killed while old pods wait for the new ones."""
    await _roll_while_away(world)
    await asyncio.sleep(1.5)
    world.crash_any("controller", is_old=False)
    await asyncio.sleep(_REPLACED)
    _see_out(world, "although the new pods are registered")


async def _refuse_replacement(
    world: World, grace: float, removed: float, *, waits: bool = False
) -> None:
    """Let a pod be replaced by one that is refused, and be out in time."""
    await begin(world, ONE, waits=waits)
    world.oracle.serving.watch()
    world.troubles["ensureBackend"] = ["fail"] * 100
    world.put_pod("web-3", _NEW["web-3"])
    await asyncio.sleep(1)
    world.end_pod("web-1", after=grace)
    await asyncio.sleep(removed)
    _see_out(world, f"{removed:g} s after their deletion")
    await asyncio.sleep(grace - removed + 1)
    world.troubles["ensureBackend"] = []


@scenario(_BOTH)
async def refused_replacement(world: World) -> None:
    """The new pod is refused until the old one, which was to wait for it, is killed."""
    await _refuse_replacement(world, 30, 29)


@scenario(_BOTH)
async def refused_while_waiting(world: World) -> None:
    """The same, and the old one is told to end long before it is killed."""
    await _refuse_replacement(world, _GRACE, 26, waits=True)


@scenario(_BOTH, drains=True)
async def refused_with_sessions(world: World) -> None:
    """The same, and the old one has a session that needs all of its drain."""
    world.set_sessions(f"{ONE}:80", 1)
    await _refuse_replacement(world, _GRACE, 30)


@scenario(_BOTH, latency=9.0)
async def killed_before_replaced(world: World) -> None:
    """The old pod is killed while the new one is still being registered."""
    await begin(world, ONE)
    world.put_pod("web-3", _NEW["web-3"])
    world.end_pod("web-1", after=6)
    await asyncio.sleep(5)
    _see_out(world, "a second before they are killed")


@scenario(_BOTH)
async def made_slowly(world: World) -> None:
    """The old pod is deleted while the new one's record is being written."""
    await begin(world, ONE)
    world.oracle.serving.watch()
    world.troubles["POST"] = ["timeout-late"]
    world.put_pod("web-3", _NEW["web-3"])
    await asyncio.sleep(1)
    world.end_pod("web-1", after=_GRACE)
    await asyncio.sleep(5)


@scenario(_BOTH, drains=True)
async def deregistered_first(world: World) -> None:
    """A load balancer has room for two members; two pods with sessions are replaced."""
    for address in _OLD.values():
        world.set_sessions(f"{address}:80", 1)
    world.put_group(protection={"order": "DeregisterFirst"})
    await begin(world, *_OLD.values())
    for name, address in _NEW.items():
        world.put_pod(name, address)
    for name in _OLD:
        world.end_pod(name, after=20)
    await world.until(lambda: not any(world.oracle.unsettled()) or _is_full(world))
    if _is_full(world):
        world.fail("there are more members than there is room for")


def _is_full(world: World) -> bool:
    """Tell whether there are more members than old pods were."""
    return world.is_faultless and len(world.balancer.members) > len(_OLD)
