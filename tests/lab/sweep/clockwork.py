"""Plays about time: clocks that are set, that differ, that stand still; margins used up."""

import asyncio

import attrs

from tests.lab.sweep.faults import Kind, Trouble
from tests.lab.sweep.objects import BACKEND, RECORD
from tests.lab.sweep.process import LEAP
from tests.lab.sweep.stage import ONE, TWO, begin, scenario
from tests.lab.sweep.world import Step, World


_BOTH = {"record": RECORD, "backend": BACKEND}
_UNSEEN = 45.0
"""Seconds in which a controller does not see that a record ends: longer than it sleeps."""


async def _drained(world: World) -> None:
    """Let a pod with sessions that never end go, and be drained for some seconds."""
    world.set_sessions(f"{ONE}:80", 3)
    await begin(world, ONE)
    world.end_pod("web-1")
    await asyncio.sleep(4)


@scenario(_BOTH, drains=True)
async def drain_set_ahead(world: World) -> None:
    """The wall clock is set ahead by an hour in the middle of a drain."""
    await _drained(world)
    world.set_clocks("deregistrar", LEAP)


@scenario(_BOTH, drains=True)
async def drain_set_back(world: World) -> None:
    """The wall clock is set back by an hour in the middle of a drain."""
    await _drained(world)
    world.set_clocks("deregistrar", -LEAP)


@scenario(_BOTH, drains=True)
async def drain_begun_behind(world: World) -> None:
    """A drain is begun where the clock is an hour behind, and goes on elsewhere."""
    world.set_clocks("deregistrar", -LEAP)
    await _drained(world)
    world.crash_any("deregistrar", is_old=False)


@scenario(_BOTH, drains=True)
async def drain_begun_ahead(world: World) -> None:
    """A drain is begun where the clock is 45 s ahead, and goes on elsewhere."""
    world.set_clocks("deregistrar", 45)
    await _drained(world)
    world.crash_any("deregistrar", is_old=False)


@scenario(_BOTH, drains=True)
async def drain_goes_on_behind(world: World) -> None:
    """A drain goes on where the clock is an hour behind."""
    await _drained(world)
    world.ahead["deregistrar"] = -LEAP
    world.crash_any("deregistrar", is_old=False)


@scenario(_BOTH, drains=True)
async def drain_goes_on(world: World) -> None:
    """A drain goes on elsewhere, where the clock is as right as any."""
    await _drained(world)
    await asyncio.sleep(12)
    world.crash_any("deregistrar", is_old=False)


@scenario(_BOTH, drains=True)
async def short_drain(world: World) -> None:
    """A drain is so short that parts of a second count."""
    world.put_group(drain={"timeoutSeconds": 2})
    await _drained(world)


@scenario(_BOTH, drains=True, at_once=1)
async def drain_in_turn(world: World) -> None:
    """A drain waits for a place at a driver that bears one call at a time."""
    world.set_sessions(f"{ONE}:80", 3)
    await begin(world, ONE, TWO)
    world.troubles["deregisterBackend"] = ["slow"]
    world.drop_pod("web-2")
    await asyncio.sleep(0.5)
    world.end_pod("web-1")


@scenario(_BOTH, drains=True)
async def sessions_return(world: World) -> None:
    """A drain finds nothing left, and then there are sessions again for a while."""
    await _return(world)
    world.set_sessions(f"{ONE}:80", 0)


async def _return(world: World) -> None:
    """Let a pod go that has no sessions until its first deregistration leaves."""

    def returned(step: Step) -> None:
        """Let sessions begin when the first deregistration leaves."""
        if "deregisterBackend" in step.what and not began:
            began.append(step)
            world.set_sessions(f"{ONE}:80", 2)

    began: list[Step] = []
    await begin(world, ONE)
    world.on_step = returned
    world.end_pod("web-1")
    await asyncio.sleep(15)


@scenario(_BOTH, drains=True)
async def sessions_stay(world: World) -> None:
    """A drain finds nothing left, and then there are sessions that never end."""
    await _return(world)


@scenario({"record": RECORD})
async def late_in_permission(world: World) -> None:
    """A record ends as soon as it is created, and its first ensure leaves late."""
    _end_at_once(world)
    world.troubles["ensureBackend"] = ["timeout-late"]
    await asyncio.sleep(1)
    world.troubles["POST"] = ["stall"]
    world.put_pod("web-1", ONE)


@scenario({"record": RECORD})
async def suspended(world: World) -> None:
    """A controller is suspended with a permission, and resumed when the record is gone."""
    _end_at_once(world)
    await asyncio.sleep(1)
    world.troubles["POST"] = ["suspend"]
    world.put_pod("web-1", ONE)


def _end_at_once(world: World) -> None:
    """Let the garbage collector end the first record as soon as it may be ensured."""

    def ended(step: Step) -> None:
        """Delete the group when the record is created."""
        created = step.kind is Kind.WRITE and step.what.endswith("/backendrecords")
        if created and not over:
            over.append(step)
            world.later(0.006, world.drop_group, "web", 0.0)
            world.processes[0].api.hold(_UNSEEN)

    over: list[Step] = []
    world.on_step = ended
    world.keep_collecting()


# --- bounds of drivers that are edited ------------------------------------------------


@scenario(_BOTH, late_effect=60)
async def bounds_lowered(world: World) -> None:
    """A driver says to be faster than it was, while a slow call of it is still out."""
    world.troubles["ensureBackend"] = ["timeout-late"]
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(11)
    world.put_driver(setting=attrs.evolve(world.setting, late_effect=0))
    await asyncio.sleep(3)
    world.drop_pod("web-1")


@scenario(_BOTH, late_effect=0)
async def bounds_raised_unseen(world: World) -> None:
    """A driver says to be slower, and the deregistrar does not see that for a while."""
    await begin(world, ONE)
    world.disturb_any("deregistrar", Trouble.LAG, "loadbalancerdrivers")
    world.put_driver(setting=attrs.evolve(world.setting, late_effect=60))
    await asyncio.sleep(1)
    world.troubles["ensureBackend"] = ["timeout-late"]
    world.put_group(parameters={"weight": "2"})
    await asyncio.sleep(11)
    world.drop_pod("web-1")


@scenario({"backend": BACKEND}, late_effect=60)
async def bounds_lowered_at_the_end(world: World) -> None:
    """A driver says to be faster, and a slow call for the end of a record is still out."""
    await begin(world, ONE)
    world.troubles["deregisterBackend"] = ["timeout-late"]
    world.drop_pod("web-1")
    await asyncio.sleep(11)
    world.put_driver(setting=attrs.evolve(world.setting, late_effect=0))
    await asyncio.sleep(3)
    world.put_pod("web-2", ONE)


@scenario({"backend": BACKEND}, late_effect=0)
async def bounds_raised_for_an_end(world: World) -> None:
    """A slow call for an end is lost while the driver's bounds are longer for a while."""
    await _end_under_longer_bounds(world, "deregisterBackend", "crash-late")
    await asyncio.sleep(4)
    world.put_pod("web-2", ONE)


@scenario({"backend": BACKEND}, late_effect=0, drains=True)
async def bounds_raised_for_a_drain(world: World) -> None:
    """The same with a drain, and nobody is killed."""
    await _end_under_longer_bounds(world, "drainBackend", "timeout-late")
    await asyncio.sleep(14)
    world.put_pod("web-2", ONE)


async def _end_under_longer_bounds(world: World, operation: str, trouble: str) -> None:
    """Let a pod go while its driver's bounds are longer; they are as before at the end."""
    await begin(world, ONE)
    world.put_driver(setting=attrs.evolve(world.setting, late_effect=60))
    await asyncio.sleep(1)
    world.troubles[operation] = [trouble]
    world.drop_pod("web-1")
    await asyncio.sleep(1)
    world.put_driver()
