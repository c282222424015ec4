"""Plays about one record after another: it comes, it changes, it goes."""

import asyncio

from tests.lab.sweep.faults import Kind
from tests.lab.sweep.objects import BACKEND, OR_ELSEWHERE, RECORD
from tests.lab.sweep.stage import ONE, TWO, begin, scenario
from tests.lab.sweep.world import Step, World


_SOON = 0.6
"""Seconds in which a pod that is ready is in, although it has just been taken out."""


@scenario(short=True)
async def register(world: World) -> None:
    """A pod comes."""
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)


@scenario(short=True)
async def life(world: World) -> None:
    """A pod comes, and goes when it is registered."""
    await begin(world, ONE)
    world.end_pod("web-1")


@scenario({"record": RECORD, "backend": BACKEND}, latency=9.0)
async def slow_life(world: World) -> None:
    """A pod comes to a slow load balancer, and goes when it is seen to be registered."""
    await begin(world, ONE)
    world.end_pod("web-1")


@scenario({"record": RECORD, "backend": BACKEND}, drains=True)
async def boastful(world: World) -> None:
    """A driver counts more connections than a status can hold, while its pod goes."""
    world.set_sessions(f"{ONE}:80", 2**63)
    await begin(world, ONE)
    world.end_pod("web-1")


@scenario(short=True)
async def early(world: World) -> None:
    """A pod goes while it is being registered."""
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(0.06)
    world.drop_pod("web-1")


@scenario(short=True)
async def waiting_for_records(world: World) -> None:
    """Pods that wait for their records go while they are being registered, and after it."""
    await asyncio.sleep(1)
    for number, moment in enumerate((0.01, 0.02, 0.026, 0.03, 0.05, 0.5), 1):
        world.put_pod(f"web-{number}", f"{ONE}{number}", waits=True)
        await asyncio.sleep(moment)
        world.end_pod(f"web-{number}")


@scenario()
async def at_once(world: World) -> None:
    """A pod goes before anything was called."""
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(0.026)
    world.drop_pod("web-1")


@scenario()
async def patient(world: World) -> None:
    """A pod goes some seconds after it came, whatever has become of it."""
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(8)
    world.drop_pod("web-1")


@scenario({"record": RECORD, "backend": BACKEND}, at_once=1, latency=3.0)
async def looked_at(world: World) -> None:
    """A pod goes just after its record, which had to wait, was looked at once more."""
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    world.put_pod("web-2", TWO)
    await world.until(lambda: any(map(_is_look, world.steps)))
    for name in ("web-1", "web-2"):
        if any(f"/web-{name}-" in look.what for look in filter(_is_look, world.steps)):
            world.drop_pod(name)


def _is_look(step: Step) -> bool:
    """Tell whether a step reads a record."""
    return step.kind is Kind.READ and "backendrecords/" in step.what


@scenario()
async def flapping(world: World) -> None:
    """A pod is ready, unready and ready again, faster than it can be let go."""
    await begin(world, ONE)
    for ready in (False, True, False, True):
        world.put_pod("web-1", ONE, ready=ready)
        await asyncio.sleep(0.07)
    await asyncio.sleep(_SOON)
    if world.is_faultless and any(world.oracle.unsettled()):
        world.fail(f"not in {_SOON} s after it was ready for good")


@scenario(short=True)
async def reuse(world: World) -> None:
    """Another pod gets the address at once."""
    await begin(world, ONE)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)


@scenario()
async def reuse_early(world: World) -> None:
    """Another pod gets the address while the first is being registered."""
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(0.06)
    world.drop_pod("web-1")
    await asyncio.sleep(0.3)
    world.put_pod("web-2", ONE)


@scenario()
async def reuse_name(world: World) -> None:
    """A pod of the same name gets the same address."""
    await begin(world, ONE)
    world.drop_pod("web-1")
    world.put_pod("web-1", ONE)


@scenario()
async def static_again(world: World) -> None:
    """A literal address is taken out and put in again: the record's name returns."""
    world.put_group(static=("a.test:1",))
    await asyncio.sleep(2)
    await world.calm()
    world.put_group(static=())
    await asyncio.sleep(3)
    world.put_group(static=("a.test:1",))
    await asyncio.sleep(0.03)
    world.put_group(static=())
    await asyncio.sleep(0.03)
    world.put_group(static=("a.test:1",))


@scenario({"record": RECORD, "backend": BACKEND})
async def readdressed(world: World) -> None:
    """A pod gets another address, another one gets its old one."""
    await begin(world, ONE)
    world.put_pod("web-1", TWO)
    world.put_pod("web-2", ONE)


@scenario(settle=400.0, quiet=200.0)
async def always(world: World) -> None:
    """A member is ensured again and again, and goes."""
    world.put_group(ensurePolicy={"policy": "Always", "minPeriod": "30s"})
    await begin(world, ONE)
    await asyncio.sleep(61)
    world.drop_pod("web-1")
    await asyncio.sleep(2)
    world.put_pod("web-2", ONE)


@scenario(drains=True)
async def drain(world: World) -> None:
    """A pod with sessions goes; they end in time."""
    world.set_sessions(f"{ONE}:80", 3)
    await begin(world, ONE)
    world.end_pod("web-1")
    await asyncio.sleep(12)
    world.set_sessions(f"{ONE}:80", 0)


@scenario(drains=True)
async def drain_in_vain(world: World) -> None:
    """A pod with sessions goes; they never end, and another gets its address."""
    world.set_sessions(f"{ONE}:80", 3)
    await begin(world, ONE)
    world.end_pod("web-1")
    await asyncio.sleep(5)
    world.put_pod("web-2", ONE)


@scenario(OR_ELSEWHERE, short=True)
async def parameters(world: World) -> None:
    """A group's parameters change."""
    await begin(world, ONE)
    world.put_group(parameters={"weight": "2"})
    await asyncio.sleep(1)


@scenario({"record": RECORD, "backend": BACKEND})
async def parameters_slowly(world: World) -> None:
    """Parameters change some time later, and that is answered late."""
    await begin(world, ONE)
    await asyncio.sleep(16.5)
    world.troubles["ensureBackend"] = ["slow"]
    world.put_group(parameters={"weight": "2"})
    await asyncio.sleep(1)


@scenario(OR_ELSEWHERE)
async def parameters_back(world: World) -> None:
    """Parameters change, and change back while they are being applied."""
    await begin(world, ONE)
    world.put_group(parameters={"weight": "2"})
    await asyncio.sleep(0.08)
    world.put_group()
    await asyncio.sleep(14)
    world.put_group(parameters={"weight": "3"})
    await asyncio.sleep(1)


@scenario(OR_ELSEWHERE)
async def parameters_in_doubt(world: World) -> None:
    """Two changes have no answer, one after the other, at a record that others marked."""
    world.troubles["ensureBackend"] = ["crash-late"]
    await begin(world, ONE)
    await asyncio.sleep(60)
    world.troubles["ensureBackend"] = ["timeout-late", "timeout"]
    world.put_group(parameters={"weight": "2"})
    await asyncio.sleep(5)
    world.put_group(parameters={"weight": "3"})


@scenario(OR_ELSEWHERE)
async def parameters_and_end(world: World) -> None:
    """Parameters change, and the pod goes while they are being applied."""
    await begin(world, ONE)
    world.put_group(parameters={"weight": "2"})
    await asyncio.sleep(0.07)
    world.drop_pod("web-1")
    await asyncio.sleep(1)
    world.put_pod("web-2", ONE)


@scenario(OR_ELSEWHERE)
async def unread(world: World) -> None:
    """Parameters change after a look at a record that failed; soon the pod goes."""
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(1.5)
    world.troubles["READ"] = ["5xx"]
    await asyncio.sleep(1)
    world.put_group(parameters={"weight": "2"})
    await asyncio.sleep(1)
    await world.calm()
    world.drop_pod("web-1")


@scenario()
async def late_answer(world: World) -> None:
    """A deregistration is answered long after it took effect."""
    world.troubles["deregisterBackend"] = [
        "timeout",
        "running",
        "running",
        "running",
        "slow",
    ]
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(0.5)
    world.drop_pod("web-1")


@scenario({"record": RECORD}, lists=True, settle=400.0, quiet=60.0)
async def reset_in_vain(world: World) -> None:
    """The load balancer loses a member, and does not take it back for a while."""
    await begin(world, ONE)
    world.troubles["ensureBackend"] = ["fail"] * 5
    world.lose_members()
    await asyncio.sleep(15)
    if world.is_faultless and any(s.is_in for s in world.oracle.records.values()):
        world.fail("S3: a lost member's record still says Registered")


@scenario({"record": RECORD, "backend": BACKEND})
async def static_returns(world: World) -> None:
    """A literal address returns when late writes about its last record may arrive."""
    world.put_group(static=("a.test:1",))
    await asyncio.sleep(1)
    await world.calm()
    world.put_group(static=())
    await asyncio.sleep(34.5)
    world.put_group(static=("a.test:1",))
    await asyncio.sleep(1)
    await world.calm()
