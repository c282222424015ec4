"""Plays the rollout, and prints what it cost."""

import argparse
import asyncio
import sys
import tempfile

from collections import Counter
from collections.abc import Coroutine, Sequence
from http import HTTPStatus
from pathlib import Path

import attrs

from lbcf.core.model.names import READINESS_GATE
from tests.e2e import objects
from tests.e2e.stage import Stage, staged
from tests.lab.cluster import Cluster
from tests.lab.cluster.fixtures import running
from tests.lab.demo.lags import gate_lags, percentile_ms
from tests.manifests.documents import CRDS


BALANCERS = ("front", "back", "side")
SURGE = 4
"""One pod in so many may be there beyond their number, as with `maxSurge: 25%`."""
ENDING = 10.0
"""Seconds for which a deleted pod goes on serving at most."""
LOOK = 0.2
TIMEOUT = "10s"


@attrs.define
class Rollout:
    """Pods, and who plays their kubelets and their Deployment.

    Attributes:
        count: how many pods are to be Ready at any time.
        fewest: members that the load balancer with the fewest had at any moment, once all
            were in.
    """

    stage: Stage
    count: int
    fewest: int = 1 << 30
    _made: int = 0
    _tasks: set[asyncio.Task[None]] = attrs.Factory(set)

    async def add(self) -> str:
        """Let a pod with our gate run, its containers ready; return its name."""
        self._made += 1
        name, number = f"p{self._made:04}", self._made
        body = objects.a_pod(name)
        body["spec"]["readinessGates"] = [{"conditionType": READINESS_GATE}]
        await self.stage.create(objects.PODS, body)
        status = objects.pod_status(f"10.1.{number // 250}.{number % 250 + 1}")
        status["status"]["conditions"] = [
            {"type": "ContainersReady", "status": "True"},
            {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"},
        ]
        await self.stage.patch(objects.PODS, name, status, "status")
        return name

    async def ready(self, waiting: Sequence[str]) -> list[str]:
        """Make those of these pods Ready whose gate is open; return their names."""
        listed = await self.stage.listed(objects.PODS)
        found = [
            pod.meta.key.name
            for pod in listed
            if pod.meta.key.name in waiting and pod.condition(READINESS_GATE)
        ]
        status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        for name in found:
            await self.stage.client.patch(
                objects.PODS,
                self.stage.key(name),
                status,
                subresource="status",
                merges_lists=True,
            )
        return found

    async def end(self, name: str) -> None:
        """Delete a pod, which serves on for a while."""
        await self.stage.terminate_pod(name)
        await asyncio.sleep(ENDING)
        await self.stage.let_pod_go(name)

    async def watch_members(self) -> None:
        """Count the members that take new traffic at each load balancer, all the time."""
        while True:
            listed = (await self.stage.control("members"))["members"]
            found = Counter(
                m["lbInfo"]["name"] for m in listed if m["state"] == "Active"
            )
            self.fewest = min(self.fewest, *(found[name] for name in BALANCERS))
            await asyncio.sleep(LOOK)

    async def replace(self, old: list[str]) -> list[str]:
        """Replace all pods, one old for each new one that is Ready; return the new ones."""
        waiting: list[str] = []
        new: list[str] = []
        left = list(old)
        while len(new) < self.count:
            most = self.count + self.count // SURGE
            there = len(new) + len(waiting)
            room = min(most - len(left), self.count) - there
            waiting += [await self.add() for _ in range(room)]
            for name in await self.ready(waiting):
                waiting.remove(name)
                new.append(name)
                self._beside(self.end(left.pop(0)))
            await asyncio.sleep(LOOK)
        await asyncio.gather(*self._tasks)
        return new

    def _beside(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.create_task(work))


async def play(cluster: Cluster, count: int, seconds: float, folder: Path) -> bool:
    """Play it, and print; tell whether all is as it should be."""
    cluster.kubectl("apply", "-f", CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "-f", CRDS)
    with cluster.namespace() as namespace:
        async with staged(cluster, namespace, folder) as stage:
            await _put_up(stage, seconds)
            rollout = Rollout(stage, count)
            old = [await rollout.add() for _ in range(count)]
            waiting = list(old)
            while waiting:
                for name in await rollout.ready(waiting):
                    waiting.remove(name)
                await asyncio.sleep(LOOK)
            watching = asyncio.create_task(rollout.watch_members())
            began = asyncio.get_running_loop().time()
            new = await rollout.replace(old)
            took = asyncio.get_running_loop().time() - began
            watching.cancel()
        return report(cluster, stage, rollout, new, took)


async def _put_up(stage: Stage, seconds: float) -> None:
    await stage.start_driver()
    await stage.behave("ensureBackend", "late", seconds=seconds, times=100_000)
    operations = ("drainBackend", "listBackends", "ensureBackend", "deregisterBackend")
    webhooks = [{"name": name, "timeout": TIMEOUT} for name in operations]
    driver = objects.a_driver(stage.driver_url, webhooks=webhooks)
    driver["spec"]["maxConcurrentCalls"] = 100
    await stage.create(objects.DRIVERS, driver)
    for name in BALANCERS:
        await stage.create(objects.LOAD_BALANCERS, objects.a_load_balancer(name))
    await stage.create(objects.GROUPS, objects.a_group(lbs=BALANCERS))
    for role in ("controller", "deregistrar"):
        await stage.until_working(await stage.start(role))
    await stage.until_epoch()


def report(
    cluster: Cluster, stage: Stage, rollout: Rollout, new: Sequence[str], took: float
) -> bool:
    """Print the figures; tell whether the promises were kept."""
    asked = cluster.audit(stage.user("controller"))
    opened = [event for event in asked if event.resource == "pods/status"]
    done = [event for event in opened if event.code < HTTPStatus.MULTIPLE_CHOICES]
    writes = Counter(event.name for event in done)
    most = max(writes[name] for name in new)
    names = {f"-{name}-": name for name in new}
    lags = gate_lags(
        asked,
        lambda record: next((names[part] for part in names if part in record), ""),
    ).values()
    p50, p99, worst = (percentile_ms(lags, share) for share in (0.5, 0.99, 1.0))
    print(
        f"{len(lags)} of {len(new)} pods at {len(BALANCERS)} load balancers in {took:.1f} s\n"
        f"gate after the last Registered: p50 {p50} ms, p99 {p99} ms, worst {worst} ms\n"
        f"writes of a pod's status by us: {most} at most, {len(opened) - len(done)} "
        "refused in all\n"
        f"fewest members at any load balancer: {rollout.fewest} of {rollout.count}"
    )
    return most == 1 and rollout.fewest >= rollout.count


def main() -> int:
    """Read the command line, play, and judge; 0 where all is as it should be."""
    parser = argparse.ArgumentParser(prog="tests.lab.rollout", description=__doc__)
    add = parser.add_argument
    add("--pods", type=int, default=100, help="how many")
    add("--seconds", type=float, default=3.0, help="that a registration takes")
    flags = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lbcf-rollout-", dir="/tmp"))
    with running(0) as cluster:
        is_well = asyncio.run(play(cluster, flags.pods, flags.seconds, folder))
    return int(not is_well)


if __name__ == "__main__":
    sys.exit(main())
