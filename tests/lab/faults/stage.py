"""What a run works with: a namespace, a driver, processes behind gateways.

`scenario` gets a `Stage` where everything works, and leaves it in whatever state; in
the end all processes are killed and all objects deleted.
"""

# ruff: noqa: S311 - a sample that can be drawn again is the point

import asyncio
import contextlib
import random
import time

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from lbcf import sdk
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.connection import connect
from lbcf.kube.errors import KubeError
from lbcf.kube.kinds import NAMESPACES, Resource
from lbcf.kube.list_watch import Selection
from tests.e2e import objects
from tests.e2e.objects import Whole
from tests.lab.cluster import Cluster
from tests.lab.cluster.fixtures import running
from tests.lab.cluster.layout import Options
from tests.lab.faults.gateway import Gateway, opened
from tests.lab.faults.history import Journal, Sight
from tests.lab.faults.oracle import Violation, differences
from tests.lab.faults.plans import ROLES, Kind, Plan
from tests.lab.faults.replicas import Replica
from tests.lab.faults.witness import Witness, served
from tests.lab.traced.calls import Calls
from tests.manifests.documents import CRDS
from tests.patience import PATIENCE


START = 2 * PATIENCE
LOOK = 0.1


@attrs.define(eq=False)
class Stage:
    """What a run works with.

    Attributes:
        calls: what reached the driver.
        log_began: how long the audit log was at the beginning, in bytes.
    """

    plan: Plan
    cluster: Cluster
    client: KubeClient
    namespace: str
    driver: Witness
    journal: Journal
    replicas: list[tuple[Replica, Gateway]]
    folder: Path
    calls: Calls
    log_began: int

    def of_role(self) -> list[tuple[Replica, Gateway]]:
        """The replicas whose fault it is."""
        return [pair for pair in self.replicas if pair[0].role == self.plan.role]

    def key(self, name: str) -> ObjectKey:
        """Name an object."""
        return ObjectKey(self.namespace, name)

    async def create(
        self, resource: Resource[Whole], body: Mapping[str, object]
    ) -> None:
        """Create an object."""
        await self.client.create(resource, self.namespace, body)

    async def add_pod(self, name: str, address: str) -> None:
        """Create a pod that is ready, as kubelet and scheduler would."""
        await self.create(objects.PODS, objects.a_pod(name))
        await self.set_ready(name, address, ready=True)

    async def set_ready(self, name: str, address: str, *, ready: bool) -> None:
        """Write a pod's status."""
        await self.client.patch(
            objects.PODS,
            self.key(name),
            objects.pod_status(address, ready=ready),
            subresource="status",
        )

    async def delete_pod(self, name: str) -> None:
        """Delete a pod; there is no kubelet, so it is gone at once."""
        await self.client.delete(objects.PODS, self.key(name))

    async def terminate_pod(self, name: str) -> None:
        """Delete a pod that exists until it is let go: nobody else is drained."""
        held = {"metadata": {"finalizers": [objects.HELD_BY_KUBELET]}}
        await self.client.patch(objects.PODS, self.key(name), held)
        await self.delete_pod(name)

    async def let_pod_go(self, name: str) -> None:
        """End a pod that terminates."""
        free = {"metadata": {"finalizers": None}}
        await self.client.patch(objects.PODS, self.key(name), free)

    async def records(self) -> list[Sight]:
        """All records as they are now."""
        now = time.monotonic()
        listed = await self.listed(objects.RECORDS)
        return [Sight.of(now, record.body) for record in listed]

    async def listed(self, resource: Resource[Whole]) -> Sequence[Whole]:
        """List objects."""
        page = await self.client.list(resource, Selection(namespace=self.namespace))
        return page.objects

    async def differences(
        self, wanted: Mapping[str, Mapping[str, str]]
    ) -> list[Violation]:
        """Say what is not as it should be."""
        return differences(self.driver.listed(), await self.records(), wanted)

    async def until_rest(
        self, wanted: Mapping[str, Mapping[str, str]], seconds: float
    ) -> list[Violation]:
        """Wait until all is as it should be; say what is not, when the time is over."""
        end = time.monotonic() + seconds
        while True:
            wrong = await self.differences(wanted)
            if not wrong or time.monotonic() > end:
                return wrong
            await asyncio.sleep(LOOK)


@contextlib.contextmanager
def told_cluster() -> Iterator[Cluster]:
    """Start a control plane that has our kinds, and bodies in its audit log."""
    with running(0, Options(audit_bodies=True)) as cluster:
        cluster.kubectl("apply", "-f", CRDS)
        established = (
            "wait",
            "--for=condition=Established",
            f"--timeout={PATIENCE:.0f}s",
        )
        cluster.kubectl(*established, "-f", CRDS)
        yield cluster


@contextlib.asynccontextmanager
async def staged(
    plan: Plan, cluster: Cluster, client: KubeClient, folder: Path
) -> AsyncIterator[Stage]:
    """Put everything up, and take it down."""
    journal = Journal()
    key = sdk.MemberKey.RECORD if plan.by_record else sdk.MemberKey.ADDRESS
    namespace = f"fault-{plan.number}-{time.monotonic_ns():x}"
    log_began = cluster.audit_log.stat().st_size
    await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    async with contextlib.AsyncExitStack() as stack:
        driver = Witness(key, journal, random.Random(str(plan)))
        replicas: list[tuple[Replica, Gateway]] = []
        calls = Calls()
        url = await stack.enter_async_context(served(driver, [calls.note]))
        stage = Stage(
            plan,
            cluster,
            client,
            namespace,
            driver,
            journal,
            replicas,
            folder,
            calls,
            log_began,
        )
        stack.push_async_callback(_clear, stage)
        for role in (plan.role, *ROLES):
            await _add_replica(stage, cluster, role, stack)
        how = {"memberKey": key.value, "webhooks": objects.webhooks("2s")}
        await stage.create(objects.DRIVERS, objects.a_driver(url, **how))
        await stage.create(objects.LOAD_BALANCERS, objects.a_load_balancer())
        await stage.create(objects.GROUPS, objects.a_group())
        for replica, _ in stage.replicas:
            one = replica.role == plan.role
            replica.keep_running(plan.failpoint if one else "")
        await _until_working(stage)
        driver.slow_down(plan.latency)
        driver.late = plan.late
        yield stage


async def _add_replica(
    stage: Stage, cluster: Cluster, role: str, stack: contextlib.AsyncExitStack
) -> None:
    """Add a replica behind its gateway, if the plan has another one of the role."""
    plan = stage.plan
    number = sum(replica.role == role for replica, _ in stage.replicas)
    several = plan.kind in {Kind.TWINS, Kind.PAUSED_LEADER} and role == plan.role
    if number >= (2 if several else 1):
        return
    name = f"{role}-{number}"
    user = cluster.kubeconfig_for(f"{name}.{stage.namespace}")
    connection = await connect(str(user))
    gateway = await stack.enter_async_context(
        opened(connection, stage.namespace, stage.journal)
    )
    elects = several and plan.kind is Kind.PAUSED_LEADER
    flags = ["--namespace", stage.namespace, "--list-backends-period", "5"]
    if role != "controller":
        flags = flags[:2]
    flags.append("--leader-elect" if elects else "--no-leader-elect")
    kubeconfig = gateway.write_kubeconfig(stage.folder / f"{name}.kubeconfig")
    replica = Replica(role, kubeconfig, stage.folder / f"{name}.log", flags)
    stage.replicas.append((replica, gateway))
    stack.push_async_callback(replica.end)


async def _until_working(stage: Stage) -> None:
    """Wait until each role works; of two that elect, one does."""
    end = time.monotonic() + START
    while True:
        working = [replica.role for replica, _ in stage.replicas if replica.works]
        waits = stage.plan.kind is Kind.PAUSED_LEADER
        if set(ROLES) == set(working) and (
            waits or len(working) == len(stage.replicas)
        ):
            return
        if time.monotonic() > end:
            ends = [r.log.read_text()[-800:] for r, _ in stage.replicas]
            raise AssertionError("\n".join(["processes do not start", *ends]))
        await asyncio.sleep(LOOK)


async def _clear(stage: Stage) -> None:
    """Delete all that is left; its finalizers are nobody's any more."""
    for kind in (objects.GROUPS, objects.RECORDS, objects.LOAD_BALANCERS,
                 objects.DRIVERS):  # fmt: skip
        for held in await stage.listed(kind):
            with contextlib.suppress(KubeError):
                await stage.client.delete(kind, held.meta.key)
                off = {"metadata": {"finalizers": None}}
                await stage.client.patch(kind, held.meta.key, off)
    with contextlib.suppress(KubeError):
        await stage.client.delete(NAMESPACES, ObjectKey("", stage.namespace))
