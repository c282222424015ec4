"""Our processes are away while Deployments are rolled: who serves, and does a request fail?

Each Deployment has a backend of a real HAProxy, under requests all the time. Its pods have no
readiness gates, and serve on for as long as their preStop hooks sleep; Deployments and kubelets
are played here, by a surge of one pod. The controller and the deregistrar are killed before the
first pod is deleted, and started again when as much time has gone by.
"""

import asyncio
import contextlib
import csv
import json
import random
import time

from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)

import attrs

from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import connect
from lbcf.kube.kinds import NAMESPACES
from lbcf.kube.list_watch import Selection
from lbcf.runtime.clock import SystemClock
from tests.e2e import objects
from tests.e2e.node_objects import NODES
from tests.haproxy.reloads import SteadyTraffic
from tests.lab.bench.pipes import Pipes
from tests.lab.cluster import Cluster
from tests.lab.cluster.ports import free_ports
from tests.lab.demo.children import Supervised
from tests.lab.demo.ground import Ground
from tests.lab.demo.haproxy import HAProxy, ask
from tests.lab.demo.journal import Journal
from tests.lab.demo.stack import beside, running_haproxy
from tests.lab.soak.pods import PORT
from tests.lab.soak.run import Result, programs
from tests.lab.soak.web import WebServer


PODS = 3
"""Of each Deployment."""
PRE_STOP = 60.0
GRACE = 90
"""Seconds of a pod's termination grace period."""
SPREAD = 10.0
"""Seconds within which the rollouts begin, once ours are gone."""
STARTING = (2.0, 4.0)
"""Seconds until a new pod is Ready."""
RATE = 8.0
"""Requests per second at each backend."""
LOOK = 0.1
HEARTBEAT = 5.0
REST = 120.0
NODE = "n1"


@attrs.frozen
class Plan:
    """What is played.

    Attributes:
        deployments: that are rolled at a time.
        rounds: outages one after another.
        away: seconds that each takes.
    """

    deployments: int
    rounds: int
    away: float


@attrs.define(eq=False)
class Pod:
    """A pod and its web server.

    Attributes:
        deleted_at: when its deletion was asked for, in monotonic seconds; None: it was not.
    """

    name: str
    server: WebServer
    address: str
    serves: bool = True
    deleted_at: float | None = None


@attrs.define(eq=False)
class Deployment:
    """A Deployment.

    Attributes:
        name: of it, its group, its load balancer and its backend.
        traffic: the requests at its backend.
        pods: by their addresses, all that there ever were.
        fewest: members that took requests and whose pods served, at the worst moment.
        spared: seconds for which an old pod still served when it was out, at the worst.
    """

    name: str
    traffic: SteadyTraffic
    pods: dict[str, Pod] = attrs.Factory(dict)
    fewest: int = PODS
    spared: float = PRE_STOP

    @property
    def living(self) -> list[Pod]:
        """Those that are not being deleted."""
        return [pod for pod in self.pods.values() if pod.deleted_at is None]

    def look(self, members: Sequence[str]) -> None:
        """Take in which addresses get requests."""
        serving = [m for m in members if m in self.pods and self.pods[m].serves]
        self.fewest = min(self.fewest, len(serving))
        for address, pod in self.pods.items():
            if pod.deleted_at is not None and address in members:
                passed = time.monotonic() - pod.deleted_at
                self.spared = min(self.spared, PRE_STOP - passed)


@attrs.define
class Kubelets:
    """Makes pods, and ends them as their preStop hooks have it."""

    client: KubeClient
    pipes: Pipes
    namespace: str
    made: int = 0
    ending: set[asyncio.Task[None]] = attrs.Factory(set)

    async def add(self, deployment: Deployment) -> None:
        """Make a pod, and have it Ready."""
        self.made += 1
        block, last = divmod(self.made, 250)
        host, name = f"127.0.{78 + block}.{1 + last}", f"{deployment.name}-{self.made}"
        body = objects.a_pod(name)
        body["metadata"]["labels"] = {"app": deployment.name}
        body["spec"] |= {"nodeName": NODE, "terminationGracePeriodSeconds": GRACE}
        await self.client.create(objects.PODS, self.namespace, body)
        pod = Pod(name, await WebServer.start(name, host, PORT), f"{host}:{PORT}")
        deployment.pods[pod.address] = pod
        status = objects.pod_status(host)
        key = ObjectKey(self.namespace, name)
        await self.client.patch(objects.PODS, key, status, subresource="status")

    async def delete(self, pod: Pod) -> None:
        """Delete a pod, which serves on until its hook is over."""
        await self.client.delete(objects.PODS, ObjectKey(self.namespace, pod.name))
        pod.deleted_at = time.monotonic()
        self.ending.add(asyncio.create_task(self._end(pod)))

    async def _end(self, pod: Pod) -> None:
        await asyncio.sleep(PRE_STOP)
        pod.serves = False
        pod.server.stop()
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod.name}"
        await self.pipes.send("DELETE", path, json.dumps({"gracePeriodSeconds": 0}))

    async def keep_node(self) -> None:
        """Tell again and again that the node is well, or its pods count as not Ready."""
        while True:
            beat = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": beat}
            status = {"status": {"conditions": [ready]}}
            key = ObjectKey("", NODE)
            await self.client.patch(NODES, key, status, subresource="status")
            await asyncio.sleep(HEARTBEAT)


@attrs.define
class Scene:
    """All that runs."""

    deployments: Mapping[str, Deployment]
    kubelets: Kubelets
    ours: Sequence[Supervised]
    proxy: HAProxy
    journal: Journal
    members: Mapping[str, Sequence[str]] = attrs.Factory(dict)

    async def watch(self) -> None:
        """Look at all backends, all the time."""
        while True:
            await self.look()
            for name, deployment in self.deployments.items():
                deployment.look(self.members[name])
            await asyncio.sleep(LOOK)

    async def look(self) -> None:
        """Find out which members get requests, by backend."""
        text = await ask(self.proxy.socket, "show stat -1 4 -1")
        found: dict[str, list[str]] = {name: [] for name in self.deployments}
        for row in csv.DictReader(text.removeprefix("# ").splitlines()):
            if row["pxname"] in found and row["status"].startswith(("UP", "no check")):
                found[row["pxname"]].append(row["addr"])
        self.members = found

    async def until_settled(self) -> list[str]:
        """Wait until the living pods are the members; name the backends where they are not."""
        return await _until_none(self._unsettled)

    async def until_epochs(self) -> list[str]:
        """Wait until the epoch of each load balancer is written; name those without one.

        One that has served for a while has it. Whoever is on the way in when the first
        one is read counts as lost, and is put in twice.
        """
        return await _until_none(self._without_epoch)

    async def _unsettled(self) -> list[str]:
        await self.look()
        return [
            f"members of {name} are {sorted(self.members[name])}"
            for name, deployment in self.deployments.items()
            if sorted(self.members[name])
            != sorted(pod.address for pod in deployment.living)
        ]

    async def _without_epoch(self) -> list[str]:
        kubelets = self.kubelets
        here = Selection(namespace=kubelets.namespace)
        page = await kubelets.client.list(objects.LOAD_BALANCERS, here)
        return [
            f"the epoch of {found.meta.key.name} is not written"
            for found in page.objects
            if not found.status.get("epoch")
        ]


async def _until_none(wrong: Callable[[], Awaitable[list[str]]]) -> list[str]:
    """Look again and again until nothing is wrong; what is, when patience is over."""
    end = time.monotonic() + REST
    while True:
        found = await wrong()
        if not found or time.monotonic() > end:
            return found
        await asyncio.sleep(LOOK)


async def outage(
    ground: Ground, cluster: Cluster, chance: random.Random, plan: Plan
) -> Result:
    """Have ours away again and again, each time while Deployments are rolled.

    Args:
        ground: where the programs run.
        cluster: the same.
        chance: draws when things happen.
        plan: how often, for how long, and what is rolled.
    """
    async with _scene(ground, cluster, plan.deployments) as scene:
        kubelets = scene.kubelets
        for _ in range(PODS):
            await asyncio.gather(*map(kubelets.add, scene.deployments.values()))
        wrong = await scene.until_settled() + await scene.until_epochs()
        catch_ups: list[float] = []
        async with contextlib.AsyncExitStack() as flowing:
            for deployment in scene.deployments.values():
                await flowing.enter_async_context(deployment.traffic.flowing())
            async with beside(scene.watch()):
                for _ in range(plan.rounds):
                    catch_up, still = await _once(scene, chance, plan.away)
                    wrong += still
                    catch_ups.append(catch_up)
    return _result(scene, wrong, catch_ups)


async def _once(
    scene: Scene, chance: random.Random, away: float
) -> tuple[float, list[str]]:
    """Have ours away once; return the seconds until all was right again, and what is not."""
    kubelets = scene.kubelets
    began = time.monotonic()
    for program in scene.ours:
        program.hold()
    rolls = [
        asyncio.create_task(_roll(kubelets, deployment, chance))
        for deployment in scene.deployments.values()
    ]
    await asyncio.sleep(began + away - time.monotonic())
    for program in scene.ours:
        program.release()
    await asyncio.gather(*rolls)
    wrong = await scene.until_settled()
    catch_up = time.monotonic() - began - away
    await asyncio.gather(*kubelets.ending)
    kubelets.ending.clear()
    return catch_up, wrong + await scene.until_settled()


async def _roll(
    kubelets: Kubelets, deployment: Deployment, chance: random.Random
) -> None:
    """Replace all pods, each when another one is Ready in its place."""
    await asyncio.sleep(chance.uniform(0, SPREAD))
    for old in deployment.living:
        await asyncio.sleep(chance.uniform(*STARTING))
        await kubelets.add(deployment)
        await kubelets.delete(old)


@contextlib.asynccontextmanager
async def _scene(ground: Ground, cluster: Cluster, count: int) -> AsyncIterator[Scene]:
    """Put everything up, and take it down."""
    ports = dict(zip([f"web{n}" for n in range(count)], free_ports(count), strict=True))
    web, driver = (f"127.0.0.1:{port}" for port in free_ports(2))
    sections = "".join(
        f"frontend {name}\n  bind 127.0.0.1:{port}\n  default_backend {name}\n"
        f"backend {name}\n  balance roundrobin\n"
        for name, port in ports.items()
    )
    connection = await connect(str(cluster.kubeconfig))
    journal = Journal()
    async with contextlib.AsyncExitStack() as stack:
        enter = stack.enter_async_context
        client = await enter(connected(connection, SystemClock(), user_agent="soak"))
        pipes = await enter(Pipes(connection))
        namespace = f"outage-{time.monotonic_ns():x}"
        await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        await client.create(NODES, "", {"metadata": {"name": NODE}})
        proxy = await enter(running_haproxy(ground, web, sections))
        started = programs(ground, namespace, driver, proxy, "--leader-elect")
        kubelets = Kubelets(client, pipes, namespace)
        await enter(
            beside(
                kubelets.keep_node(),
                *(program.run(journal.trouble) for program in started),
            )
        )
        await _load_balancing(client, namespace, f"http://{driver}", proxy, ports)
        deployments = {
            name: Deployment(name, SteadyTraffic(f"http://127.0.0.1:{port}/", RATE))
            for name, port in ports.items()
        }
        yield Scene(deployments, kubelets, started[1:], proxy, journal)


async def _load_balancing(
    client: KubeClient, namespace: str, url: str, proxy: HAProxy, names: Iterable[str]
) -> None:
    """Create the driver's object, and a load balancer and a group for each Deployment."""
    driver = objects.a_driver(url, webhooks=objects.webhooks("3s"))
    await client.create(objects.DRIVERS, namespace, driver)
    for name in names:
        balancer = objects.a_load_balancer(name)
        balancer["spec"]["lbSpec"] = {"sockets": str(proxy.socket), "backend": name}
        await client.create(objects.LOAD_BALANCERS, namespace, balancer)
        pods = {
            "ports": [{"port": PORT, "protocol": "TCP"}],
            "byLabel": {"selector": {"app": name}},
        }
        group = objects.a_group(
            name,
            lbs=(name,),
            pods=pods,
            parameters={"check": "false"},
            drain={"timeoutSeconds": 10},
        )
        await client.create(objects.GROUPS, namespace, group)


def _result(scene: Scene, wrong: Sequence[str], catch_ups: Sequence[float]) -> Result:
    """Put everything together."""
    deployments = scene.deployments.values()
    answers: Counter[str] = sum((d.traffic.answers for d in deployments), Counter())
    bad = {answer: n for answer, n in answers.items() if not answer.islower()}
    fewest = min(d.fewest for d in deployments)
    told = [*wrong, *scene.journal.troubles]
    told += [f"{n} requests got {answer}" for answer, n in bad.items()]
    if not fewest:
        told.append("at some moment nobody served")
    return Result(
        told,
        {
            "deployments": len(deployments),
            "outages": len(catch_ups),
            "pods": scene.kubelets.made,
            "requests": answers.total(),
            "failed": sum(bad.values()),
            "fewest_members": fewest,
            "old_pods_out_before_their_end_s": round(
                min(d.spared for d in deployments), 1
            ),
            "settled_after_an_outage_s": round(max(catch_ups), 1),
        },
    )
