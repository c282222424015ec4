"""Plays about what listBackends tells: epochs that are unknown, unwritten, or no epochs."""

import asyncio

from collections import Counter
from typing import cast

import attrs

from tests.lab.sweep import objects
from tests.lab.sweep.faults import Kind, Trouble
from tests.lab.sweep.objects import BACKEND, RECORD
from tests.lab.sweep.stage import ONE, TWO, begin, scenario
from tests.lab.sweep.world import Step, World


_COUNTED = 40.0
_MOST_COUNTS = 10
"""Writes of one process in that time: one in five seconds, and one again for a fault."""
_ALTERNATING = 100.0
_MOST_ENSURED = 16
"""Ensures of two members in so many seconds of epochs that alternate: 12; without a brake
40."""
_TWO_SETTINGS = {"record": RECORD, "backend": BACKEND}
_FLAPS = 10
_MOST_TOLD = 4
"""Writes of as many flaps: unreachable, reachable, and unreachable until they end."""
_FRONT = "loadbalancers/front/status"


@scenario(lists=True, epoch="", settle=400.0, quiet=120.0)
async def unknown_epoch(world: World) -> None:
    """A load balancer loses its members before anybody could list them."""
    world.troubles["listBackends"] = ["timeout", "5xx", "timeout"]
    await begin(world, ONE, TWO)
    world.lose_members()


@scenario(_TWO_SETTINGS, lists=True, epoch="", settle=400.0, quiet=120.0)
async def unknown_epoch_early(world: World) -> None:
    """The same to a member whose registration is not answered yet."""
    world.troubles["listBackends"] = ["unsent"]
    world.troubles["ensureBackend"] = ["slow"]
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(1)
    world.lose_members()
    await asyncio.sleep(12)


@scenario(_TWO_SETTINGS, lists=True, epoch="", settle=400.0, quiet=120.0)
async def newly_listed(world: World) -> None:
    """A driver declares listBackends after its load balancer has lost the members."""
    world.put_driver(setting=attrs.evolve(world.setting, lists=False))
    await begin(world, ONE, TWO)
    world.lose_members()
    await asyncio.sleep(7)
    world.put_driver()


@scenario(_TWO_SETTINGS, lists=True, epoch="", settle=400.0, quiet=120.0)
async def unwritten_epoch(world: World) -> None:
    """Members are lost in an epoch that was read, and that nobody could write down."""
    world.troubles[_FRONT] = ["409"] * 25
    await begin(world, ONE)
    await asyncio.sleep(7)
    world.lose_members()
    await asyncio.sleep(12)


@scenario({"record": RECORD}, lists=True, settle=900.0, quiet=120.0)
async def two_epochs(world: World) -> None:
    """Two processes of a driver answer in turn, each with an epoch of its own."""
    await begin(world, ONE, TWO)
    world.balancer.replicas.extend(("epoch-1", "epoch-a"))
    before = sum(map(_is_ensure, world.steps))
    await asyncio.sleep(_ALTERNATING)
    ensured = sum(map(_is_ensure, world.steps)) - before
    if world.is_faultless and ensured > _MOST_ENSURED:
        world.fail(f"{ensured} ensures of two members for two epochs in turn")
    told = _said(world)
    if world.is_faultless and told[:2] != ("False", "EpochChanging"):
        world.fail(f"of epochs that alternate, {told} is told")
    world.balancer.replicas.clear()
    await asyncio.sleep(1)


@scenario(_TWO_SETTINGS, lists=True, settle=400.0, quiet=120.0)
async def unlisted(world: World) -> None:
    """A driver refuses to list the members, for a while."""
    await begin(world, ONE)
    world.troubles["listBackends"] = ["fail"] * 5
    await asyncio.sleep(22)
    status, reason, message = _said(world)
    is_told = (status, reason) == ("False", "DriverRefused") and "told to" in message
    if world.is_faultless and not is_told:
        world.fail(f"of members that cannot be listed, {_said(world)} is told")
    await asyncio.sleep(20)
    if world.is_faultless and _said(world)[0] != "True":
        world.fail(f"of members that are listed again, {_said(world)} is told")


@scenario({"record": RECORD}, lists=True, settle=400.0, quiet=120.0)
async def listed_by_turns(world: World) -> None:
    """A driver lists the members one moment, and refuses the next one."""
    await begin(world, ONE)
    before = len(world.steps)
    for _ in range(_FLAPS):
        world.troubles["listBackends"] = ["fail"] * 3
        await asyncio.sleep(20)
    written = sum(map(_is_count, world.steps[before:]))
    if world.is_faultless and not 0 < written <= _MOST_TOLD:
        world.fail(f"{written} writes of {_FRONT} for {_FLAPS} flaps")
    await asyncio.sleep(20)
    if world.is_faultless and _said(world)[0] != "True":
        world.fail(f"of members that are listed again, {_said(world)} is told")


@scenario({"record": RECORD}, lists=True, settle=400.0, quiet=120.0)
async def not_listed_any_more(world: World) -> None:
    """A driver ceases to declare listBackends: nobody knows of its load balancers."""
    await begin(world, ONE)
    await asyncio.sleep(7)
    if world.is_faultless and _said(world)[0] != "True":
        world.fail(f"of members that are listed, {_said(world)} is told")
    world.put_driver(setting=attrs.evolve(world.setting, lists=False))
    await asyncio.sleep(7)
    if world.is_faultless and _said(world)[:2] != ("Unknown", "NotListed"):
        world.fail(f"of members that nobody lists, {_said(world)} is told")


@scenario({"record": RECORD}, settle=400.0, quiet=120.0)
async def never_listed(world: World) -> None:
    """A driver does not declare listBackends: that is said once, and nothing for it."""
    await begin(world, ONE)
    await asyncio.sleep(7)
    if world.is_faultless and _said(world)[:2] != ("Unknown", "NotListed"):
        world.fail(f"of members that nobody lists, {_said(world)} is told")


@scenario({"record": RECORD})
async def two_counters(world: World) -> None:
    """Two controllers count the members of a load balancer; one does not see all."""
    world.start("controller")
    await begin(world, ONE)
    for watch in ("pods", "backendrecords"):
        world.disturb_any("controller", Trouble.LAG, watch)
    before = len(world.steps)
    world.put_pod("web-2", TWO)
    await asyncio.sleep(_COUNTED)
    writers = Counter(step.who for step in world.steps[before:] if _is_count(step))
    for who, written in writers.items():
        if written > _MOST_COUNTS:
            world.fail(f"{written} writes of {_FRONT} by {who} in {_COUNTED:g} s")


@scenario({"record": RECORD})
async def mended_meanwhile(world: World) -> None:
    """A load balancer cannot be read when a driver is to be asked once more."""
    world.troubles["validateBackend"] = ["fail"]
    world.put_group(parameters={"weight": "2"})
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(0.5)
    world.spoil(objects.load_balancer_path("front"), 5.0)
    await asyncio.sleep(6)


@scenario({"record": RECORD})
async def judge_mended_meanwhile(world: World) -> None:
    """A driver cannot be read when it is to judge an unready pod once more."""
    world.troubles["judgePodDeregister"] = ["5xx"]
    world.put_driver("judge")
    world.put_group(
        deregisterPolicy="Webhook", deregisterWebhook={"driverName": "judge"}
    )
    await begin(world, ONE)
    world.put_pod("web-1", ONE, ready=False)
    await asyncio.sleep(0.5)
    world.spoil(objects.driver_path("judge"), 5.0)
    await asyncio.sleep(6)


def _said(world: World) -> tuple[str, str, str]:
    """Read the condition Reachable of the load balancer."""
    whole = world.api.objects[objects.load_balancer_path("front")]
    status = cast("dict[str, list[dict[str, str]]]", whole["status"])
    for one in status["conditions"]:
        if one["type"] == "Reachable":
            return one["status"], one["reason"], one["message"]
    return "", "", ""


def _is_ensure(step: Step) -> bool:
    """Tell whether a step registers a member."""
    return "ensureBackend" in step.what


def _is_count(step: Step) -> bool:
    """Tell whether a step writes the status of the load balancer."""
    return step.kind is Kind.WRITE and _FRONT in step.what
