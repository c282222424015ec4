"""A cluster with many records in many namespaces, and a driver that counts calls."""

import asyncio
import contextlib
import json
import time

from collections.abc import AsyncIterator
from pathlib import Path

import attrs

from lbcf import sdk
from lbcf.core.model.names import LABEL_BUCKET, SYSTEM_NAMESPACE
from lbcf.core.model.values import ObjectKey
from lbcf.kube.connection import connect
from lbcf.kube.kinds import NAMESPACES, RECORDS
from lbcf.kube.list_watch import Selection
from tests.e2e import objects
from tests.e2e.stage import Stage, staged
from tests.lab.bench.pipes import Pipes
from tests.lab.bench.pods import paced
from tests.lab.cluster import Cluster
from tests.lab.failover.scene import FirstCalls
from tests.lab.faults.witness import served
from tests.manifests.documents import CRDS


DRIVER = "lbcf-shards"
_AT_ONCE = 256
_RATE = 60.0
"""Records that are to come in a second: with twice as many, on two cores that had other work,
leaders lost their Leases, as no renewal was answered in time."""
_TOUCHES = 500.0
"""Records changed in a second."""
_QUIET = 5.0
_PATIENCE = 24
"""Quiet moments after which nothing is waited for any more."""
_MERGE = "application/merge-patch+json"


class Counting(FirstCalls):
    """Counts calls about members, too."""

    calls = 0

    async def ensure_backend(
        self, request: sdk.EnsureBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Register, and count it."""
        self.calls += 1
        return await super().ensure_backend(request)

    def _note(self, address: str) -> None:
        self.calls += 1
        super()._note(address)


@attrs.define
class Ground:
    """What is there.

    Attributes:
        cluster: the control plane.
        stage: starts processes.
        driver: of all load balancers.
        addresses: of each namespace's group.
    """

    cluster: Cluster
    stage: Stage
    driver: Counting
    addresses: dict[str, list[str]]

    @property
    def count(self) -> int:
        """Return how many records there are to be."""
        return sum(map(len, self.addresses.values()))

    async def fill(self) -> None:
        """Create what is to be registered; somebody must be there who does that."""
        names = list(self.addresses)
        rate = _RATE * len(names) / self.count
        await paced(range(len(names)), rate, lambda n: self._add(names[n]))

    async def _add(self, namespace: str) -> None:
        create = self.stage.client.create
        await create(NAMESPACES, "", {"metadata": {"name": namespace}})
        balancer = objects.a_load_balancer(namespace, DRIVER)
        balancer["metadata"]["name"] = "front"
        await create(objects.LOAD_BALANCERS, namespace, balancer)
        spec = {"loadBalancers": ["front"], "static": self.addresses[namespace]}
        group = {"metadata": {"name": "all"}, "spec": spec}
        await create(objects.GROUPS, namespace, group)

    async def until_registered(self) -> None:
        """Wait until all members are in, and nobody is called any more."""
        still = 0
        while not still or self._members() != self.count:
            before = self.driver.calls
            await asyncio.sleep(_QUIET)
            still = still + 1 if before == self.driver.calls else 0
            if still > _PATIENCE:
                told = f"{self._members()} of {self.count} members"
                raise RuntimeError(f"{told}, and nothing moves")

    def _members(self) -> int:
        return len(list(self.driver.members))

    async def take_out(self, namespace: str, address: str) -> None:
        """Let a group have an address no more."""
        left = self.addresses[namespace]
        left.remove(address)
        key = ObjectKey(namespace, "all")
        await self.stage.client.patch(objects.GROUPS, key, {"spec": {"static": left}})

    async def touch(self, part: float) -> int:
        """Change a part of all records, such that nothing follows; return how many."""
        chosen: list[ObjectKey] = []
        for namespace in self.addresses:
            selection = Selection(namespace, labels=LABEL_BUCKET)
            page = await self.stage.client.list(RECORDS, selection)
            found = [one.meta.key for one in page.objects]
            chosen += found[: round(part * len(found))]
        # What is there already would be no change.
        touched = {"example.com/touched": str(time.monotonic())}
        body = json.dumps({"metadata": {"annotations": touched}})
        connection = await connect(str(self.cluster.kubeconfig))
        async with Pipes(connection) as pipes:

            async def touch_one(number: int) -> None:
                path = RECORDS.path(chosen[number])
                await pipes.send("PATCH", path, body, _MERGE)

            await paced(range(len(chosen)), _TOUCHES, touch_one)
        return len(chosen)


def spread(records: int, namespaces: int) -> dict[str, list[str]]:
    """Say which addresses each namespace's group has."""
    whole = [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}:80" for n in range(records)]
    return {f"tenant-{n}": whole[n::namespaces] for n in range(namespaces)}


@contextlib.asynccontextmanager
async def put_up(
    cluster: Cluster, folder: Path, records: int, namespaces: int
) -> AsyncIterator[Ground]:
    """Give a cluster with our kinds and a driver; nothing is registered, nobody runs."""
    cluster.kubectl("apply", "-f", CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "-f", CRDS)
    driver = Counting()
    with cluster.namespace() as home:
        async with staged(cluster, home, folder) as stage, served(driver) as url:
            # What a driver lists would count among what processes have read.
            asked = [w for w in objects.webhooks() if w["name"] != "listBackends"]
            body = objects.a_driver(url, maxConcurrentCalls=_AT_ONCE, webhooks=asked)
            body["metadata"]["name"] = DRIVER
            await stage.client.create(objects.DRIVERS, SYSTEM_NAMESPACE, body)
            yield Ground(cluster, stage, driver, spread(records, namespaces))
