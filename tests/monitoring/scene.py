"""Four minutes in the life of a small cluster, for the dashboard's picture.

Two replicas of each process, two drivers in memory, two groups that roll all the time:
a node is drained, a driver fails and comes back, the leader is killed, and in the end
half of a group is unready while the driver fails again.
"""

import asyncio
import contextlib
import itertools
import signal
import time

from collections import deque
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import attrs

from lbcf.kube.errors import Invalid
from tests.e2e import objects
from tests.e2e.stage import Stage, staged
from tests.e2e.test_admission import Guard
from tests.e2e.watched import metrics_address
from tests.lab.cluster import Cluster
from tests.lab.cluster.ports import free_ports


BEAT: Final = 8.0
"""Seconds from one step of the rollouts to the next one of a group."""
REPLICAS: Final = ("a", "b")
DRAIN_SECONDS: Final = 15
FOR_EVER: Final = 1_000_000
"""Calls: more than the scene has."""
UNREADY_PERCENT: Final = 40


@attrs.frozen
class Event:
    """Something that happens, marked in the picture.

    Attributes:
        at: Unix time, in seconds.
        told: what it is.
    """

    at: float
    told: str


@attrs.define
class Workload:
    """The pods of one group, behind one load balancer of one driver.

    Attributes:
        name: of the group and its pods.
        stage: its driver is the one of this group.
        pods: names and addresses, the oldest first.
    """

    name: str
    stage: Stage
    network: str
    pods: deque[tuple[str, str]] = attrs.Factory(deque)
    numbers: Iterator[int] = attrs.Factory(lambda: itertools.count(1))

    async def install(self, driver: str, load_balancer: str, **spec: object) -> None:
        """Create driver, load balancer and group."""
        quick = objects.webhooks("2s")
        found = objects.a_driver(self.stage.driver_url, webhooks=quick)
        await self.stage.create(
            objects.DRIVERS, {**found, "metadata": {"name": driver}}
        )
        front = objects.a_load_balancer(load_balancer, driver)
        await self.stage.create(objects.LOAD_BALANCERS, front)
        group = objects.a_group(self.name, lbs=(load_balancer,), **spec)
        group["spec"]["pods"]["byLabel"]["selector"] = {"app": self.name}
        group["spec"]["drain"] = {"timeoutSeconds": DRAIN_SECONDS}
        await self.stage.create(objects.GROUPS, group)

    async def add(self, count: int = 1) -> None:
        """Create pods that are ready."""
        for number in itertools.islice(self.numbers, count):
            name, address = f"{self.name}-{number}", f"{self.network}.{number}"
            await self.stage.add_pod(name, address, app=self.name)
            self.pods.append((name, address))

    async def remove(self, *, sessions: int = 1) -> tuple[str, str]:
        """Delete the oldest pod while it has sessions; it terminates until it is let go."""
        name, address = self.pods.popleft()
        await self.busy(address, sessions)
        await self.stage.terminate_pod(name)
        return name, address

    async def busy(self, address: str, sessions: int) -> None:
        """Let a member have so many sessions."""
        await self.stage.control(
            "sessions", backendAddr=f"{address}:80", sessions=sessions
        )

    async def roll(self, pause: float) -> None:
        """Replace one pod after the other; each one's sessions end after a while."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self.add()
                name, address = await self.remove()
                tasks.create_task(self._leave(name, address, pause / 2))
                await asyncio.sleep(pause)

    async def _leave(self, name: str, address: str, pause: float) -> None:
        """End the sessions of a member, then its pod: who terminates counts in its group."""
        await asyncio.sleep(pause)
        await self.busy(address, 0)
        await asyncio.sleep(pause)
        await self.stage.let_pod_go(name)


@attrs.define
class Scene:
    """All that takes part.

    Attributes:
        web: behind the driver that stays well.
        api: behind the one that does not.
        targets: addresses of the processes' metrics by names of pods.
        events: what has happened.
    """

    web: Workload
    api: Workload
    targets: dict[str, str]
    events: list[Event] = attrs.Factory(list)

    async def play(self) -> None:
        """Play it to the end, in about four minutes."""
        await self.web.add(12)
        await self.api.add(8)
        rolling = [
            asyncio.create_task(self.web.roll(BEAT / 4)),
            asyncio.create_task(self.api.roll(BEAT / 2)),
            asyncio.create_task(self._edit()),
        ]
        try:
            await self._story()
            for task in rolling:
                assert not task.done(), task
        finally:
            for task in rolling:
                task.cancel()
            await asyncio.gather(*rolling, return_exceptions=True)

    async def _story(self) -> None:
        """Let happen what the picture marks."""
        await asyncio.sleep(6 * BEAT)
        self._mark("a node with six web pods is drained, one keeps its sessions")
        leaving = [await self.web.remove(sessions=3) for _ in range(6)]
        await self.web.add(6)
        for _, address in leaving[1:]:
            await asyncio.sleep(BEAT / 4)
            await self.web.busy(address, 0)
        await asyncio.sleep(4 * BEAT)
        for name, _ in leaving:
            await self.web.stage.let_pod_go(name)
        self._mark("the driver of api refuses registrations, removals time out")
        await self._fail("deregisterBackend", "late", seconds=5.0)
        await asyncio.sleep(5 * BEAT)
        self._mark("it works again")
        await self._mend()
        await asyncio.sleep(3 * BEAT)
        self._mark("kill -9 of the leading controller")
        await self.web.stage.processes["controller-a"].end(signal.SIGKILL)
        await asyncio.sleep(5 * BEAT)
        self._mark("half of api unready, and its driver refuses everything")
        await self._fail("deregisterBackend", "fail", msg="maintenance")
        for name, address in list(self.api.pods)[2:7]:
            await self.api.stage.set_pod(name, address, ready=False)
        await asyncio.sleep(4 * BEAT)

    async def _edit(self) -> None:
        """Change a group now and then, and a load balancer as its driver forbids it."""
        for percent in itertools.cycle((80, 90)):
            await asyncio.sleep(BEAT)
            guard = {"spec": {"protection": {"maxUnreadyPercent": percent}}}
            await self.web.stage.patch(objects.GROUPS, "web", guard)
            with contextlib.suppress(Invalid):
                wish = {"spec": {"attributes": {"refuse": "no such region"}}}
                await self.web.stage.patch(objects.LOAD_BALANCERS, "front", wish)

    async def _fail(self, removal: str, mode: str, **how: object) -> None:
        """Let api's driver refuse registrations, and removals go wrong."""
        driver = self.api.stage
        await driver.behave("ensureBackend", "fail", times=FOR_EVER, msg="pool is full")
        await driver.behave(removal, mode, times=FOR_EVER, **how)

    async def _mend(self) -> None:
        """Let it work again: what goes wrong is replaced by one call that does."""
        for operation in ("ensureBackend", "deregisterBackend"):
            await self.api.stage.behave(operation, "run")

    def _mark(self, told: str) -> None:
        """Note what happens now."""
        self.events.append(Event(time.time(), told))


@contextlib.asynccontextmanager
async def a_scene(
    cluster: Cluster, namespace: str, folder: Path
) -> AsyncIterator[Scene]:
    """Start all processes and create the objects."""
    async with staged(cluster, namespace, folder) as stage:
        other = Stage(cluster, namespace, stage.client, folder / "core")
        other.folder.mkdir()
        try:
            await stage.start_driver()
            await other.start_driver()
            targets = {pod: address async for pod, address in _replicas(stage)}
            web = Workload("web", stage, "10.1.0")
            api = Workload("api", other, "10.2.0")
            await web.install("edge", "front")
            guarded: dict[str, Any] = {"maxUnreadyPercent": UNREADY_PERCENT}
            await api.install("core", "inner", protection=guarded)
            yield Scene(web, api, targets)
        finally:
            await other.processes["driver"].end(signal.SIGKILL)


async def _replicas(stage: Stage) -> AsyncIterator[tuple[str, str]]:
    """Start two replicas of each process; the first ones lead."""
    for process in ("controller", "deregistrar"):
        for replica in REPLICAS:
            started = await stage.start(process)
            del stage.processes[process]
            stage.processes[f"{process}-{replica}"] = started
            begun = "work.started" if replica == "a" else "process.started"
            await stage.until_logged(started, begun)
            yield f"{process}-{replica}", metrics_address(started)
    [port] = free_ports(1)
    guard = Guard(
        stage, f"{stage.namespace}.lbcf", f"https://127.0.0.1:{port}/validate"
    )
    guard.apply()
    await guard.start()
    yield "admission-a", metrics_address(stage.processes["admission"])
