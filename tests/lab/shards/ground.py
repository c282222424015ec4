"""A cluster with many records in many namespaces, and a driver that counts calls."""

import asyncio
import contextlib
import json
import time

from collections.abc import AsyncIterator
from pathlib import Path

import attrs

from lbcf import sdk
from lbcf.core.model.cluster import Attachment
from lbcf.core.model.names import LABEL_BUCKET, SYSTEM_NAMESPACE
from lbcf.core.model.values import ObjectKey
from lbcf.kube.connection import connect
from lbcf.kube.kinds import DRIVERS, GROUPS, LOAD_BALANCERS, NAMESPACES, RECORDS
from lbcf.kube.list_watch import Selection
from tests.e2e import objects
from tests.e2e.stage import Stage, staged
from tests.lab.bench.pipes import Pipes
from tests.lab.bench.pods import paced
from tests.lab.cluster import Cluster
from tests.lab.failover.scene import FirstCalls
from tests.lab.faults.witness import served
from tests.lab.shards import etcd
from tests.lab.shards.records import Sample, registered
from tests.manifests.documents import CRDS


DRIVER = "lbcf-shards"
FRONT = "front"
EACH = 50
"""Addresses of a group."""
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
        namespaces: of all groups but the sample.
        groups: the addresses of each.
    """

    cluster: Cluster
    stage: Stage
    driver: Counting
    namespaces: tuple[str, ...]
    groups: dict[ObjectKey, list[str]]

    @property
    def count(self) -> int:
        """Return how many records there are."""
        return sum(map(len, self.groups.values()))

    async def make_sample(self) -> None:
        """Have a load balancer and a group really made; both processes must be there."""
        home, create = self.stage.namespace, self.stage.client.create
        balancer = objects.a_load_balancer(FRONT, DRIVER)
        await create(objects.LOAD_BALANCERS, home, balancer)
        addresses = [f"10.0.0.{n}:80" for n in range(EACH)]
        spec = {"loadBalancers": [FRONT], "static": addresses}
        await create(
            objects.GROUPS, home, {"metadata": {"name": "sample"}, "spec": spec}
        )
        await self.stage.until("the sample is registered", self._is_sample_told)

    async def _is_sample_told(self) -> bool:
        (group,) = await self.stage.listed(objects.GROUPS)
        return EACH == group.status.get("registeredBackends")

    async def fill(self) -> None:
        """Put everything there as it is once it is registered; no controller may run."""
        (balancer,) = await self.stage.listed(objects.LOAD_BALANCERS)
        (group,) = await self.stage.listed(objects.GROUPS)
        record, *_ = await self.stage.listed(objects.RECORDS)
        sample = Sample(balancer.body, group.body, record.body)
        (driver,) = (await self.stage.client.list(DRIVERS)).objects
        for name in self.namespaces:
            await self.stage.client.create(NAMESPACES, "", {"metadata": {"name": name}})
        async with etcd.opened(self.cluster) as store:
            fronts = {name: sample.balancer_of(name) for name in self.namespaces}
            await store.put(LOAD_BALANCERS, fronts.values())
            for key, addresses in self.groups.items():
                front = LOAD_BALANCERS.parse(json.dumps(fronts[key.namespace]).encode())
                body = sample.group_of(key, addresses)
                await store.put(GROUPS, [body])
                records = registered(sample, body, Attachment(front, driver))
                await store.put(RECORDS, records)
        await self._until_seen()

    async def _until_seen(self) -> None:
        """Wait until the API server itself has taken in what is in etcd."""

        async def are_seen() -> bool:
            last = Selection(next(reversed(self.groups)).namespace)
            return bool((await self.stage.client.list(RECORDS, last)).objects)

        await self.stage.until("the API server has all records", are_seen)

    async def until_quiet(self) -> None:
        """Wait until nobody is called any more."""
        for _ in range(_PATIENCE):
            before = self.driver.calls
            await asyncio.sleep(_QUIET)
            if before == self.driver.calls:
                return
        raise RuntimeError(f"the driver is still called after {_PATIENCE * _QUIET:g} s")

    async def take_out(self, key: ObjectKey, address: str) -> None:
        """Let a group have an address no more."""
        left = self.groups[key]
        left.remove(address)
        await self.stage.client.patch(objects.GROUPS, key, {"spec": {"static": left}})

    async def touch(self, part: float) -> int:
        """Change a part of all records, such that nothing follows; return how many."""
        chosen: list[ObjectKey] = []
        for namespace in self.namespaces:
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


def spread(records: int, namespaces: int) -> dict[ObjectKey, list[str]]:
    """Say which addresses each group has: as many each, the groups in turn."""
    found = {}
    for group in range(records // EACH):
        numbers = range((group + 1) * EACH, (group + 2) * EACH)
        key = ObjectKey(f"tenant-{group % namespaces}", f"g{group // namespaces}")
        found[key] = [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}:80" for n in numbers]
    return found


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
            body = objects.a_driver(url, webhooks=asked)
            body["metadata"]["name"] = DRIVER
            await stage.client.create(objects.DRIVERS, SYSTEM_NAMESPACE, body)
            groups = spread(records, namespaces)
            tenants = tuple(f"tenant-{n}" for n in range(namespaces))
            yield Ground(cluster, stage, driver, tenants, groups)
