"""One failover at a time: how it goes, and where the time went."""

import asyncio
import random
import signal
import time

from collections.abc import AsyncIterator
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import attrs

from lbcf.kube.leader_election import Timing
from tests.e2e import objects
from tests.e2e.stage import Process
from tests.lab.failover.scene import ROLES, Scene, send


SECOND = 1e9
RENEWAL = Timing().renew.total_seconds()
STAGES = ("process.started", "leader.elected", "work.started")
"""Events of the log that end a part of a start."""


class How(StrEnum):
    """How a leader ends, and who goes on."""

    STANDBY = "killed, a standby goes on"
    IN_PLACE = "killed, started again in its place"
    POWER_OFF = "its node without power, a standby goes on"


@attrs.frozen
class Round:
    """A failover, in seconds since the leader's end, which is the pod's deletion, too.

    Attributes:
        stages: when who goes on told of each of `STAGES`; what was before is left out.
        called: when the driver was called for that pod.
        cpu: seconds that a process started meanwhile has computed until then.
        waited: seconds that it was ready to, while others had the cores.
    """

    stages: dict[str, float]
    called: float
    cpu: float = 0.0
    waited: float = 0.0


@attrs.define
class Replicas:
    """Who leads, and who waits, by role.

    Args:
        scene: where.
        how: leaders end.
    """

    scene: Scene
    how: How
    leading: dict[str, Process] = attrs.Factory(dict)
    waiting: dict[str, Process] = attrs.Factory(dict)

    async def begin(self) -> None:
        """Have one of each role lead, and another one wait where there is one."""
        await self.scene.end()
        for role in ROLES:
            self.leading[role] = process = await self.scene.start(role)
            await self.scene.stage.until_working(process)
        if self.how is not How.IN_PLACE:
            for role in ROLES:
                await self._add_standby(role)

    async def rounds(self, role: str, times: int) -> AsyncIterator[Round]:
        """End leaders of a role so often."""
        for _ in range(times):
            yield await self._round(role)

    async def _round(self, role: str) -> Round:
        stage, leader = self.scene.stage, self.leading[role]
        name, address = self.scene.pods.pop()
        # At any moment between two renewals of the Lease.
        await asyncio.sleep(random.uniform(0, RENEWAL))  # noqa: S311 - no secret
        began = time.time()
        send(leader, signal.SIGSTOP if self.how is How.POWER_OFF else signal.SIGKILL)
        deleting = asyncio.create_task(stage.delete(objects.PODS, name))
        if self.how is How.IN_PLACE:
            await leader.wait()
            await leader.start()
            self.leading[role] = leader
        else:
            self.leading[role] = self.waiting[role]
        called = await self.scene.driver.heard_of(f"{address}:80")
        found = self.leading[role]
        cpu, waited = computed(found) if self.how is How.IN_PLACE else (0.0, 0.0)
        await deleting
        await stage.let_pod_go(name)
        await self.scene.until_out(f"{address}:80")
        if self.how is How.POWER_OFF:
            send(leader, signal.SIGKILL)
            await leader.wait()
        if self.how is not How.IN_PLACE:
            await self._add_standby(role)
        return Round(_stages(found, began), called - began, cpu, waited)

    async def _add_standby(self, role: str) -> None:
        self.waiting[role] = standby = await self.scene.start(role)
        await self.scene.until_ready(standby)


def _stages(process: Process, began: float) -> dict[str, float]:
    """Return when each stage of a process was over, last, in seconds after a moment."""
    found = {}
    for stage in STAGES:
        told = process.events(stage)[-1]["timestamp"]
        after = datetime.fromisoformat(told).timestamp() - began
        if after > 0:
            found[stage] = after
    return found


def computed(pod: Process) -> tuple[float, float]:
    """Return for how many seconds the process in a pod had a core, and waited for one.

    Of its main thread, where its event loop runs (/proc/PID/schedstat).
    """
    inside = Path(f"/proc/{pod.pid}/task/{pod.pid}/children").read_text().split()[0]
    on, off, _ = Path(f"/proc/{inside}/schedstat").read_text().split()
    return int(on) / SECOND, int(off) / SECOND
