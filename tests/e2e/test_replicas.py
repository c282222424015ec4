"""Two replicas of each process: how fast the other one goes on.

How long it takes is printed, not asserted: the machine that runs this may be busy.
"""

import asyncio
import signal
import time

import pytest

from tests.e2e import objects
from tests.e2e.stage import Process, Stage


pytestmark = [pytest.mark.cluster, pytest.mark.timeout(200)]

WORKERS = ("controller", "deregistrar")


async def _until_working(stage: Stage, process: Process) -> None:
    """Wait until a process leads."""

    async def working() -> bool:
        return bool(process.events("work.started"))

    await stage.until(f"{process.name} works", working)


async def _two_of_each(stage: Stage) -> list[Process]:
    """Start the second replicas; return the first ones, which lead."""
    leaders = [stage.processes.pop(name) for name in WORKERS]
    for leader in leaders:
        await _until_working(stage, leader)
    for name in WORKERS:
        standby = await stage.start(name)

        async def up(process: Process = standby) -> bool:
            return bool(process.events("process.started"))

        await stage.until(f"the second {name} is up", up)
    return leaders


@pytest.mark.parametrize(
    "how", [signal.SIGTERM, signal.SIGKILL], ids=["clean stop", "kill"]
)
async def test_other_replica_goes_on(stage: Stage, how: signal.Signals) -> None:
    """Both leaders end in the middle: what they had begun and what comes is done."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    leaders = await _two_of_each(stage)

    began = time.monotonic()
    await asyncio.gather(*(leader.end(how) for leader in leaders))
    await stage.add_pod("b", "10.0.0.2")
    await stage.delete(objects.PODS, "a")
    for name in WORKERS:
        await _until_working(stage, stage.processes[name])
        print(f"{name} took over {time.monotonic() - began:.1f} s after {how.name}")
    await stage.until_registered("10.0.0.2:80")
    print(f"all was done {time.monotonic() - began:.1f} s after {how.name}")
