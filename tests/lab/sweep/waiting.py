"""Plays about readiness gates: a rollout that goes on as its new pods are registered."""

import asyncio

from tests.lab.sweep.objects import BACKEND, RECORD
from tests.lab.sweep.stage import ONE, TWO, begin, scenario
from tests.lab.sweep.world import World


_BOTH = {"record": RECORD, "backend": BACKEND}
_NEW = {"web-3": "10.0.0.3", "web-4": "10.0.0.4"}
_GRACE = 20.0
_UNHEARD = 5.0
"""Seconds for which a watch tells nothing."""


def _roll(world: World, *old: str) -> None:
    """Let each new pod that is Ready end an old one, as maxUnavailable 0 does."""
    left = list(old)

    def go_on(_name: str) -> None:
        if left:
            world.end_pod(left.pop(0), after=_GRACE)

    world.oracle.gates.on_ready = go_on
    for name, address in _NEW.items():
        world.put_gated_pod(name, address)


def _see_open(world: World, when: str) -> None:
    """Tell of gates that are shut."""
    found = list(world.oracle.gates.shut())
    if world.is_faultless and found:
        world.fail(f"S9: {', '.join(found)} {when}")


@scenario(_BOTH, latency=3.0)
async def gated_rollout(world: World) -> None:
    """Two pods are replaced; the driver takes three seconds for each new one."""
    await begin(world, ONE, TWO)
    world.oracle.serving.watch()
    _roll(world, "web-1", "web-2")
    await asyncio.sleep(8)
    _see_open(world, "although their pods are registered")


@scenario(_BOTH)
async def gated_and_unwanted(world: World) -> None:
    """The driver refuses, and the group goes while the gates wait."""
    await begin(world)
    world.troubles["ensureBackend"] = ["fail"] * 100
    _roll(world)
    await asyncio.sleep(5)
    world.drop_group()
    await asyncio.sleep(2)
    world.troubles["ensureBackend"] = []
    _see_open(world, "although nobody selects their pods")
    world.keep_collecting()


@scenario(_BOTH)
async def gated_too_long(world: World) -> None:
    """A load balancer refuses the pods for longer than gates wait."""
    await begin(world)
    world.put_group(gateTimeoutSeconds=30)
    world.troubles["ensureBackend"] = ["fail"] * 200
    _roll(world)
    await asyncio.sleep(40)
    _see_open(world, "although their time is over")
    world.troubles["ensureBackend"] = []


@scenario(_BOTH)
async def gated_optional(world: World) -> None:
    """The driver refuses the pods of a group that nobody waits for any more."""
    await begin(world)
    world.troubles["ensureBackend"] = ["fail"] * 20
    _roll(world)
    await asyncio.sleep(2)
    world.put_group(gate="Optional")
    await asyncio.sleep(2)
    _see_open(world, "although nobody is to be waited for")
    world.troubles["ensureBackend"] = []


@scenario(_BOTH)
async def gated_by_two_groups(world: World) -> None:
    """A second group selects the pods; the controller hears of it later than of them."""
    world.put_load_balancer("back")
    await begin(world)
    world.processes[0].api.hold(_UNHEARD, only="backendgroups")
    world.put_group("side", loadBalancers=["back"])
    _roll(world)
    await asyncio.sleep(_UNHEARD + 2)
    _see_open(world, "although their pods are registered")
