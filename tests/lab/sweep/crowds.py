"""Plays about several at once: processes, groups, records, load balancers."""

import asyncio

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.sweep.faults import Kind, Trouble
from tests.lab.sweep.objects import BACKEND, DRIVER, RECORD
from tests.lab.sweep.process import DISTURBED
from tests.lab.sweep.stage import ONE, TWO, begin, scenario
from tests.lab.sweep.world import Step, World


_MOST_MADE = 40
"""Creates and deletes of records in 40 s, where two controllers see two pods differently or
somebody deletes each record: with growing pauses they are far fewer."""
ROUNDS = 12.0
"""Seconds in which leaders renew, or two controllers undo what the other has done, often
enough: a fault in a later round finds the same state."""


@scenario()
async def two_registrars(world: World) -> None:
    """Two controllers work at once, and the first one's record changes."""
    world.start("controller")
    await begin(world, ONE)
    world.put_group(parameters={"weight": "2"})
    await asyncio.sleep(0.07)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)


@scenario({"record": RECORD, "backend": BACKEND})
async def both_at_once(world: World) -> None:
    """Two controllers register a pod at the same time; it goes when it is in."""
    world.start("controller")
    await begin(world, ONE)
    world.drop_pod("web-1")


@scenario({"record": RECORD, "backend": BACKEND})
async def at_odds(world: World) -> None:
    """Two controllers register a pod; one of them does not see its group change."""
    world.troubles["ensureBackend"] = ["slow", "slow"]
    world.start("controller")
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(2)
    world.disturb_any("controller", Trouble.LAG)
    world.put_group(parameters={"weight": "2"})
    world.end_faults_in(ROUNDS)
    await asyncio.sleep(10)


@scenario({"record": RECORD, "backend": BACKEND})
async def pods_unseen(world: World) -> None:
    """Two controllers; for one of them a pod that was replaced is still the old one."""
    world.start("controller")
    await begin(world, ONE)
    world.disturb_any("controller", Trouble.GAP, "pods")
    with _made_at_most(world, _MOST_MADE):
        world.drop_pod("web-1")
        world.put_pod("web-1", TWO)
        world.end_faults_in(ROUNDS)
        await asyncio.sleep(DISTURBED)


@scenario({"record": RECORD, "backend": BACKEND})
async def pod_unheard_of(world: World) -> None:
    """Two controllers; one of them hears of a pod's record before it hears of the pod."""
    other = world.start("controller")
    await begin(world, ONE)
    other.api.hold(DISTURBED, only="pods")
    with _made_at_most(world, 1):
        world.put_pod("web-2", TWO)
        await asyncio.sleep(DISTURBED)


@scenario({"record": RECORD, "backend": BACKEND})
async def group_unheard_of(world: World) -> None:
    """Two controllers; one of them hears late that a group names a second load balancer."""
    other = world.start("controller")
    world.put_group(loadBalancers=["front"])
    world.put_load_balancer("back")
    await begin(world, ONE)
    other.api.hold(DISTURBED, only="backendgroups")
    with _made_at_most(world, 1):
        world.put_group(loadBalancers=["front", "back"])
        await asyncio.sleep(DISTURBED)


@scenario({"record": RECORD, "backend": BACKEND})
async def records_deleted_again(world: World) -> None:
    """Somebody deletes the record of a pod again and again."""
    await begin(world, ONE)
    with _made_at_most(world, _MOST_MADE):
        for _ in range(2 * _MOST_MADE):
            world.delete_records()
            await asyncio.sleep(DISTURBED / _MOST_MADE / 2)


@contextmanager
def _made_at_most(world: World, most: int) -> Iterator[None]:
    """Count the records that processes create and delete meanwhile, where nothing fails."""
    before = sum(map(_makes_or_ends, world.steps))
    yield
    made = sum(map(_makes_or_ends, world.steps)) - before
    if world.is_faultless and made > most:
        world.fail(f"{made} creates and deletes of records, {most} at most are due")


def _makes_or_ends(step: Step) -> bool:
    """Tell whether a step creates or deletes a record."""
    is_one = "backendrecords" in step.what and step.what.startswith(("POST", "DELETE"))
    return step.kind is Kind.WRITE and is_one


@scenario()
async def two_deregistrars(world: World) -> None:
    """Two deregistrars work at once."""
    world.start("deregistrar")
    await begin(world, ONE)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)


@scenario()
async def group_gone(world: World) -> None:
    """A group is deleted; the garbage collector ends its records."""
    await begin(world, ONE, TWO)
    world.drop_group()
    world.keep_collecting()


@scenario()
async def group_anew(world: World) -> None:
    """A group is deleted and made again at once."""
    await begin(world, ONE)
    world.drop_group()
    world.keep_collecting()
    world.put_group()


@scenario()
async def load_balancer_gone(world: World) -> None:
    """A load balancer is deleted while a member is in it."""
    await begin(world, ONE)
    world.end_load_balancer()


@scenario(lists=True, settle=400.0, quiet=120.0)
async def reset(world: World) -> None:
    """The load balancer loses all members."""
    await begin(world, ONE, TWO)
    world.lose_members()


@scenario(lists=True, settle=400.0, quiet=120.0)
async def reset_early(world: World) -> None:
    """The load balancer loses a member whose registration is not answered yet."""
    world.troubles["ensureBackend"] = ["slow"]
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(1)
    world.lose_members()
    await asyncio.sleep(12)


@scenario()
async def two_groups(world: World) -> None:
    """Two groups want one address on one load balancer; one of them goes."""
    world.put_group("api")
    await begin(world, ONE)
    world.drop_group()
    world.keep_collecting()


@scenario()
async def two_groups_end(world: World) -> None:
    """Two groups want one address on one load balancer; the pod goes."""
    world.put_group("api")
    await begin(world, ONE)
    world.drop_pod("web-1")


@scenario({"backend": BACKEND, "driver": DRIVER})
async def two_waiters(world: World) -> None:
    """Two records wait for one address, their holder goes, and one of them does."""
    await _wait_both(world, seconds=40)


@scenario({"backend": BACKEND, "driver": DRIVER})
async def late_take_over(world: World) -> None:
    """Two records wait for one address, one gets it, and long after that one of them goes."""
    await _wait_both(world, seconds=90)


async def _wait_both(world: World, seconds: float) -> None:
    """Let two records wait for the address of one that goes, and end one of them then."""
    world.put_group("api")
    await begin(world, ONE)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)
    await asyncio.sleep(seconds)
    world.drop_group("api")
    world.keep_collecting()


@scenario()
async def reuse_later(world: World) -> None:
    """An address is used again, and then another pod goes."""
    await begin(world, ONE, TWO)
    world.drop_pod("web-1")
    world.put_pod("web-3", ONE)
    await asyncio.sleep(1)
    await world.calm()
    world.drop_pod("web-2")


@scenario(settle=400.0, quiet=200.0)
async def always_orphaned(world: World) -> None:
    """A member is ensured again and again, and somebody else ends its record."""
    world.put_group(ensurePolicy={"policy": "Always", "minPeriod": "30s"})
    await begin(world, ONE)
    await asyncio.sleep(20)
    world.drop_group()
    world.keep_collecting()


@scenario({"record": RECORD}, settle=400.0, quiet=200.0)
async def always_orphaned_unseen(world: World) -> None:
    """The controller sees nothing of it: the member is due again when its record is gone."""
    world.put_group(ensurePolicy={"policy": "Always", "minPeriod": "30s"})
    await begin(world, ONE)
    world.disturb_any("controller", Trouble.LAG)
    world.drop_group()
    world.keep_collecting()


@scenario(latency=9.0)
async def slow(world: World) -> None:
    """A driver takes its time; a pod goes while it is being registered."""
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(3)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)


@scenario({"backend": BACKEND}, drains=True, drain_timeout=40)
async def slow_drain(world: World) -> None:
    """The driver may take longer to drain than to deregister."""
    await begin(world, ONE)
    world.drop_pod("web-1")
    world.put_pod("web-2", ONE)


@scenario(at_once=1, latency=9.0)
async def crowd_orphaned(world: World) -> None:
    """Records wait for a slow driver, and somebody else ends them all."""
    await asyncio.sleep(1)
    for number in range(1, 6):
        world.put_pod(f"web-{number}", f"10.0.0.{number}")
    await asyncio.sleep(1)
    world.drop_group()
    world.keep_collecting()


@scenario()
async def hasty(world: World) -> None:
    """Two controllers; parameters change before a new record was looked at."""
    world.start("controller")
    await asyncio.sleep(1)
    world.put_pod("web-1", ONE)
    await asyncio.sleep(0.01)
    world.put_group(parameters={"weight": "2"})
    await asyncio.sleep(1)
    await world.calm()
    world.drop_pod("web-1")


@scenario()
async def parameters_later(world: World) -> None:
    """A first call is in doubt; parameters change twice when that is long ago."""
    world.troubles["ensureBackend"] = ["reset"]
    await begin(world, ONE)
    await asyncio.sleep(17)
    world.put_group(parameters={"weight": "2"})
    await asyncio.sleep(0.5)
    world.put_group(parameters={"weight": "3"})
    await asyncio.sleep(1)


@scenario(at_once=1, latency=3.0)
async def crowd(world: World) -> None:
    """A slow driver bears one call at a time; a pod goes while it waits for its turn."""
    await asyncio.sleep(1)
    for number in (1, 2, 3):
        world.put_pod(f"web-{number}", f"10.0.0.{number}")
    await asyncio.sleep(1)
    world.drop_pod("web-2")
    await asyncio.sleep(1)
    world.put_pod("web-4", TWO)


@scenario({"record": RECORD, "backend": BACKEND})
async def behind(world: World) -> None:
    """A literal address comes back and goes again; its deregistrar sees nothing of it."""
    world.put_group(static=("a.test:1",))
    await asyncio.sleep(1)
    await world.calm()
    world.put_group(static=())
    await asyncio.sleep(0.06)
    world.disturb_any("deregistrar", Trouble.LAG)
    await asyncio.sleep(0.1)
    world.put_group(static=("a.test:1",))
    await asyncio.sleep(0.5)
    world.put_group(static=())


@scenario({"record": RECORD, "backend": BACKEND}, elect=True, settle=200.0, quiet=20.0)
async def election(world: World) -> None:
    """Two controllers are candidates; a pod comes and goes."""
    world.start("controller")
    await begin(world)
    await asyncio.sleep(4)
    await begin(world, ONE)
    world.drop_pod("web-1")
    world.end_faults_in(ROUNDS)


@scenario({"driver": DRIVER}, events=True)
async def told(world: World) -> None:
    """A pod comes and goes, and events are written."""
    await begin(world, ONE)
    world.end_pod("web-1")
