"""Plays about addresses that are wanted again at once."""

import asyncio

import attrs

from lbcf.core.model.resources import USUAL_SETTLING
from tests.lab.sweep.faults import Trouble
from tests.lab.sweep.objects import BACKEND, DRIVER
from tests.lab.sweep.stage import ONE, TWO, begin, scenario
from tests.lab.sweep.world import RESTART, World


BY_ADDRESS = {"backend": BACKEND, "driver": DRIVER}
BEGUN_ANEW = {**BY_ADDRESS, "unjournaled": attrs.evolve(BACKEND, journals=False)}
"""With a process that may find what the one before it has left, and one that does not."""
KILLS = 4
KILLS_APART = 12.0
"""Seconds: less than Δ, which is over in the time of all."""
POLLS = 7
"""Their pauses are longer than Δ, and shorter than a watch lags."""
AT_MOST = 2.0
"""Seconds in which an address is in again where nothing fails."""
JUST_AFTER = 0.15
"""Seconds in which a call's answer comes, and less than until it is made again."""


@scenario({**BY_ADDRESS})
async def blink(world: World) -> None:
    """All pods are unready for a second."""
    await begin(world, ONE, TWO)
    for ready in (False, True):
        world.put_pod("web-1", ONE, ready=ready)
        world.put_pod("web-2", TWO, ready=ready)
        await asyncio.sleep(1)
    if world.is_faultless and any(world.oracle.unsettled()):
        world.fail(f"not in {AT_MOST} s after a blink began")


@scenario({**BY_ADDRESS}, short=True)
async def taken_at_once(world: World) -> None:
    """A pod's address goes from one to the next, and to a third."""
    await begin(world, ONE)
    for number in (1, 2):
        world.drop_pod(f"web-{number}")
        world.put_pod(f"web-{number + 1}", ONE)
        await asyncio.sleep(AT_MOST)
        if world.is_faultless and any(world.oracle.unsettled()):
            world.fail(f"not in {AT_MOST} s after its address was free")


@scenario({**BY_ADDRESS})
async def taken_slowly(world: World) -> None:
    """Another record waits already while the end of the first is asked for again."""
    world.troubles["deregisterBackend"] = ["running", "fail", "unsent"]
    await begin(world, ONE)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)


@scenario({**BY_ADDRESS})
async def taken_from_two(world: World) -> None:
    """Two deregistrars work at once, one of them has not seen the end coming."""
    world.start("deregistrar")
    await begin(world, ONE)
    world.drop_pod("web-1")
    await asyncio.sleep(0.03)
    world.put_pod("web-2", ONE)


@scenario({**BEGUN_ANEW})
async def taken_after_a_start(world: World) -> None:
    """The deregistrar that a record names is no more; what it called may be out."""
    world.troubles["deregisterBackend"] = ["crash-late"]
    await begin(world, ONE)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)


@scenario({**BY_ADDRESS}, drains=True)
async def taken_after_a_drain(world: World) -> None:
    """A drain finds connections until its deadline; the next pod has the address."""
    world.balancer.busy[ONE] = 3
    await begin(world, ONE)
    world.drop_pod("web-1")
    await asyncio.sleep(1)
    world.put_pod("web-2", ONE)


@scenario({**BEGUN_ANEW})
async def taken_in_spite_of_kills(world: World) -> None:
    """What an address waits for is over in time, however often processes begin anew."""
    world.troubles["deregisterBackend"] = ["timeout-late"]
    await begin(world, ONE)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)
    for _ in range(KILLS):
        await asyncio.sleep(KILLS_APART)
        for role in ("controller", "deregistrar"):
            world.crash_any(role, is_old=False)
    await asyncio.sleep(KILLS_APART)
    if world.is_faultless and any(world.oracle.unsettled()):
        world.fail("not in after Δ, as each process counted it from its own start")


@scenario({**BY_ADDRESS})
async def let_go_in_spite_of_kills(world: World) -> None:
    """A record whose ensure may be out ends in time, however often processes begin anew."""
    world.troubles["ensureBackend"] = ["timeout-late"]
    await begin(world)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(1)
    world.drop_pod("web-1")
    for _ in range(KILLS):
        await asyncio.sleep(KILLS_APART)
        world.crash_any("deregistrar", is_old=False)
    await asyncio.sleep(KILLS_APART)
    if world.is_faultless and any(world.oracle.unsettled()):
        world.fail("not gone after Δ, as each process counted it from its own start")


@scenario({**BY_ADDRESS})
async def taken_when_signed_off(world: World) -> None:
    """A record ends before it is registered; each of its ensures had its answer."""
    world.troubles["ensureBackend"] = ["fail"]
    await begin(world)
    world.put_pod("web-1", ONE)
    await world.until(lambda: not world.troubles["ensureBackend"], AT_MOST)
    await asyncio.sleep(JUST_AFTER)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)
    await asyncio.sleep(AT_MOST)
    if world.is_faultless and any(world.oracle.unsettled()):
        world.fail(f"not in {AT_MOST} s after its address was free")


@scenario({**BY_ADDRESS})
async def taken_when_signed_off_late(world: World) -> None:
    """An ensure without an answer is over before any that was sent at the end could be."""
    world.troubles["ensureBackend"] = ["timeout-late"]
    await begin(world)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(KILLS_APART)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)
    await asyncio.sleep(USUAL_SETTLING.total_seconds() + AT_MOST - KILLS_APART)
    if world.is_faultless and any(world.oracle.unsettled()):
        world.fail("not in when the last owner's ensure was over")


@scenario({**BY_ADDRESS})
async def taken_when_signed_off_by_an_heir(world: World) -> None:
    """The same, and the controller is killed in between."""
    world.troubles["ensureBackend"] = ["fail"]
    await begin(world)
    world.put_pod("web-1", ONE)
    await world.until(lambda: not world.troubles["ensureBackend"], AT_MOST)
    await asyncio.sleep(JUST_AFTER)
    world.crash_any("controller", is_old=False)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)
    await asyncio.sleep(RESTART + 2 * AT_MOST)
    if world.is_faultless and any(world.oracle.unsettled()):
        world.fail("not in although each call of both controllers was answered")


@scenario({**BEGUN_ANEW})
async def let_go_after_two_kills(world: World) -> None:
    """The controller was killed twice, the first time while it ensured what ends now."""
    world.troubles["ensureBackend"] = ["crash-late"]
    await begin(world)
    world.put_pod("web-1", ONE)
    await world.until(lambda: not world.troubles["ensureBackend"], AT_MOST)
    world.drop_pod("web-1")
    await asyncio.sleep(RESTART + JUST_AFTER)
    world.crash_any("controller", is_old=False)


@scenario({**BEGUN_ANEW})
async def taken_after_a_restart(world: World) -> None:
    """The deregistrar that a record names was killed, and began anew, before its end."""
    await begin(world, ONE)
    world.crash_any("deregistrar", is_old=False)
    await asyncio.sleep(RESTART + 1)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)
    await asyncio.sleep(AT_MOST)
    if world.is_faultless and any(world.oracle.unsettled()):
        world.fail(f"not in {AT_MOST} s after its address was free")


@scenario({**BEGUN_ANEW})
async def taken_after_a_lost_call(world: World) -> None:
    """It was killed while its call was out, which arrives when its successor is done."""
    world.troubles["deregisterBackend"] = ["crash-late"]
    await begin(world, ONE)
    world.drop_pod("web-1")
    await asyncio.sleep(RESTART + 1)
    world.put_pod("web-2", ONE)


@scenario({**BY_ADDRESS})
async def taken_after_a_kill_in_between(world: World) -> None:
    """The deregistrar is killed between two calls for an end, both with their answers."""
    world.troubles["ensureBackend"] = ["timeout-late"]
    await begin(world, ONE)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)
    await asyncio.sleep(KILLS_APART)
    world.crash_any("deregistrar", is_old=False)
    await asyncio.sleep(USUAL_SETTLING.total_seconds() + AT_MOST - KILLS_APART)
    if world.is_faultless and any(world.oracle.unsettled()):
        world.fail("not in when both calls for the last owner's end were answered")


@scenario({"backend": BACKEND})
async def taken_meanwhile(world: World) -> None:
    """A deregistrar asks again for an end that another one has seen to long ago."""
    world.troubles["deregisterBackend"] = ["running"]
    await begin(world, ONE)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)
    await asyncio.sleep(0.3)
    world.disturb_any("deregistrar", Trouble.LAG, "backendrecords")
    world.start("deregistrar")
    await asyncio.sleep(0.5)
    # Only the first one asks on, until somebody else has the address.
    world.troubles["deregisterBackend"] = ["running"] * POLLS
