"""What people do to a cluster, one thing after the other, while traffic flows.

A round is: rolling update, scale out, pods deleted, node drained, rolling update, HAProxy
reloaded or Envoy restarted, scale in, rolling update. In a campaign the second rolling update goes on while the API
server is killed, and the third while no deregistrar runs; pods are evicted, too, and a fourth
update goes by a quarter of the pods at a time. Rounds go on until the time is over and all minima
hold. Everything is done with kubectl, as people do it.
"""

import asyncio
import contextlib
import functools
import json
import time

from collections.abc import Awaitable, Callable, Iterator, Mapping

import attrs

from tests.lab.demo import load, manifests
from tests.lab.demo.census import Census
from tests.lab.demo.children import Supervised
from tests.lab.demo.errors import DemoError
from tests.lab.demo.ground import Ground
from tests.lab.demo.journal import API_SERVER, Journal, Span
from tests.lab.demo.kills import Killer, until_working
from tests.lab.demo.proxy import Proxy


ROLLOUT_LIMIT = "--timeout=180s"
MORE_REPLICAS = manifests.REPLICAS + 3
DELETED_PODS = 2
LOOK_INTERVAL = 0.01
RELOAD_LIMIT = 60.0
BREATH = 1.0
PATIENCE = 60.0

ROLLOUT = "rollout"
SCALING = "scaling"
DELETION = "deletion"
NODE_DRAIN = "node drain"
RELOAD = "reload"
EVICTION = "eviction"
OUTAGE = "outage"

SERVICE = "kube-apiserver"
OUTAGE_SECONDS = 20.0


@attrs.define
class Script:
    """Breaks things in turns.

    Attributes:
        ground: the cluster to break things in.
        namespace: the demo's namespace there.
        proxy: the load balancer to reload, or to restart.
        census: knows the pods.
        journal: told of each step.
        killer: paused during a reload.
        programs: ours, by name.
        campaign: see `Options`.
        version: how often the pods were replaced.
        drains: how many node drains were begun.
        cordoned: nodes that are to be given back.
    """

    ground: Ground
    namespace: str
    proxy: Proxy
    census: Census
    journal: Journal
    killer: Killer
    programs: Mapping[str, Supervised]
    campaign: bool = False
    version: int = 0
    drains: int = 0
    cordoned: set[str] = attrs.field(factory=set)

    async def run(self, done: Callable[[], bool]) -> None:
        """Go through rounds until `done` says so, asked after each step.

        A step that fails is a trouble; the next one follows.
        """
        steps: list[Callable[[], Awaitable[None]]] = [
            *(self.roll_out, self.scale_out, self.delete_pods, self.drain_node),
            *(self.roll_out, self.reload, self.scale_in, self.roll_out),
        ]
        if self.campaign:
            steps[4] = self.kill_api_server
            steps[6:] = [self.evict, self.scale_in]
            steps += [self.do_without_deregistrars, self.roll_out_by_quarters]
        number = 0
        while not done():
            try:
                await steps[number % len(steps)]()
            except DemoError as error:
                self.journal.trouble(str(error))
            await asyncio.sleep(BREATH)
            number += 1

    async def roll_out(self) -> None:
        """Replace all pods.

        Raises:
            DemoError: it does not come to its end.
        """
        with self._rolling_out():
            await self._update()
            await self._settled()

    async def roll_out_by_quarters(self) -> None:
        """Replace all pods, old ones going before new ones are there.

        Raises:
            DemoError: it does not come to its end.
        """
        with self._rolling_out(" by quarters"):
            await self._roll_by(manifests.QUARTER)
            try:
                await self._update()
                await self._settled()
            finally:
                await self._roll_by(manifests.SURGING)

    async def kill_api_server(self) -> None:
        """Kill the API server in the middle of a rolling update.

        Raises:
            DemoError: it does not come to its end.
        """
        cluster = self.ground.cluster
        if cluster is None:
            return
        with self._rolling_out(", the API server killed"):
            await self._update()
            await asyncio.sleep(BREATH)
            await asyncio.to_thread(cluster.hold, SERVICE)
            self.journal.killed(API_SERVER)
            await asyncio.to_thread(cluster.release, SERVICE)
            await self._patiently(self._settled)

    async def do_without_deregistrars(self) -> None:
        """Have no deregistrar for a while, in the middle of a rolling update.

        Raises:
            DemoError: it does not come to its end.
        """
        away = [
            p for name, p in self.programs.items() if name.startswith("deregistrar")
        ]
        with self._rolling_out(f", no deregistrar for {OUTAGE_SECONDS:.0f} s"):
            for program in away:
                program.hold()
            try:
                await self._update()
                await asyncio.sleep(OUTAGE_SECONDS)
            finally:
                for program in away:
                    program.release()
            self.journal.counts[OUTAGE] += 1
            await self._settled()

    @contextlib.contextmanager
    def _rolling_out(self, how: str = "") -> Iterator[None]:
        self.version += 1
        with self.journal.step(ROLLOUT, f"rolling update {self.version}{how}"):
            yield

    async def _update(self) -> None:
        """Have all pods replaced."""
        variable = f"VERSION={self.version}"
        await self._kubectl("set", "env", f"deployment/{manifests.APP}", variable)

    async def _roll_by(self, rolling: Mapping[str, object]) -> None:
        """Say how many pods may be missing, or too many, in a rolling update."""
        patch = {"spec": {"strategy": {"rollingUpdate": rolling}}}
        where = ("patch", f"deployment/{manifests.APP}", "--type=merge")
        await self._kubectl(*where, "-p", json.dumps(patch))

    async def scale_out(self) -> None:
        """Add pods."""
        await self._scale(MORE_REPLICAS)

    async def scale_in(self) -> None:
        """Take pods away."""
        await self._scale(manifests.REPLICAS)

    async def _scale(self, replicas: int) -> None:
        """Have another number of pods.

        Raises:
            DemoError: they do not become available.
        """
        with self.journal.step(SCALING, f"scale to {replicas} pods"):
            deployment = f"deployment/{manifests.APP}"
            await self._kubectl("scale", deployment, f"--replicas={replicas}")
            await self._settled()

    async def delete_pods(self) -> None:
        """Delete two pods at once.

        Raises:
            DemoError: there are none, or the others do not become available.
        """
        names = await self._some_that_serve("deleted")
        with self.journal.step(DELETION, f"delete pods {' '.join(names)}"):
            await self._kubectl("delete", "pod", *names, "--wait=false")
            await asyncio.sleep(BREATH)
            await self._settled()

    async def _some_that_serve(self, doomed: str) -> list[str]:
        """Return the names of pods to be deleted, or evicted.

        Raises:
            DemoError: no pod is ready.
        """
        await self.census.list_pods()
        names = [pod.name for pod in self.census.serving[:DELETED_PODS]]
        if not names:
            raise DemoError(f"no pod is ready, so none can be {doomed}")
        return names

    async def evict(self) -> None:
        """Evict two pods, by the API that autoscalers and others use.

        Raises:
            DemoError: there are none, or the others do not become available.
        """
        names = await self._some_that_serve("evicted")
        with self.journal.step(EVICTION, f"evict pods {' '.join(names)}"):
            for name in names:
                await self._patiently(functools.partial(self._evict, name))
            await asyncio.sleep(BREATH)
            await self._settled()

    async def _evict(self, name: str) -> None:
        """Ask for the eviction of a pod, which its disruption budget may refuse."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": self.namespace},
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/eviction"
        words = ("create", "--raw", path, "-f", "-")
        await self.ground.kubectl(*words, stdin=json.dumps(body))

    async def _patiently(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do something again that fails, for a while.

        Raises:
            DemoError: it fails all the time.
        """
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return await act()
            except DemoError:
                if time.monotonic() > end:
                    raise
            await asyncio.sleep(BREATH)

    async def drain_node(self) -> None:
        """Drain a node and give it back; another node each time.

        Raises:
            DemoError: a pod does not go.
        """
        nodes = self.ground.nodes
        if not nodes:
            return
        node = nodes[self.drains % len(nodes)]
        self.drains += 1
        with self.journal.step(NODE_DRAIN, f"drain node {node}"):
            self.cordoned.add(node)
            words = ["--ignore-daemonsets", "--delete-emptydir-data", ROLLOUT_LIMIT]
            if self.ground.foreign:
                label = f"{manifests.RUN_LABEL}={self.namespace}"
                words.append(f"--pod-selector={label}")
            await self._kubectl("drain", node, *words)
            await self.give_back()

    async def give_back(self) -> None:
        """Uncordon what was drained.

        Raises:
            DemoError: kubectl cannot; the message names the node.
        """
        for node in sorted(self.cordoned):
            await self._kubectl("uncordon", node)
            self.cordoned.discard(node)

    async def reload(self) -> None:
        """Reload or restart the load balancer, and wait until traffic flows.

        HAProxy loses all members. Requests that its old worker still answers are unknown to
        the new one, and hence to the driver that drains: no pod ends while there are any.

        Raises:
            DemoError: no member comes back, or a pod that is to end does not.
        """
        await self.census.list_pods()
        leaving = [f"pod/{pod.name}" for pod in self.census.pods if pod.terminating]
        if leaving:
            await self._kubectl("wait", "--for=delete", *leaving, ROLLOUT_LIMIT)
        self.killer.paused.set()
        try:
            for program in self.programs.values():
                await until_working(program)
            with self.journal.step(RELOAD, "restart the load balancer"):
                gap = await reload(self.proxy)
                self.journal.gaps.append(gap)
                self.journal.tell(f"members back after {gap.end - gap.begin:.2f} s")
                await asyncio.sleep(load.LONGEST + BREATH)
        finally:
            self.killer.paused.clear()

    async def _settled(self) -> None:
        """Wait until the Deployment has what it wants."""
        deployment = f"deployment/{manifests.APP}"
        await self._kubectl("rollout", "status", deployment, ROLLOUT_LIMIT)

    async def _kubectl(self, *words: str) -> str:
        """Run kubectl in the demo's namespace."""
        return await self.ground.kubectl("-n", self.namespace, *words)


async def reload(proxy: Proxy) -> Span:
    """Reload or restart the load balancer; the time until a member serves again.

    The end is the moment before the look that first showed a serving member: rather too
    short than too long, as failures inside are counted apart. Where a restart closes the
    sockets that clients connect to, they may be opened as late as during that look: then it
    is the moment after it.

    Raises:
        DemoError: no member serves within `RELOAD_LIMIT` seconds.
    """
    before = await proxy.look()
    begin = time.monotonic()
    await proxy.restart()
    while (now := time.monotonic()) < begin + RELOAD_LIMIT:
        try:
            seen = await proxy.look()
        except DemoError:
            await asyncio.sleep(LOOK_INTERVAL)  # the one that went, or comes, was asked
            continue
        if seen.worker != before.worker and seen.serving:
            end = time.monotonic() if proxy.cuts_requests else now
            return Span(RELOAD, begin, end, cuts=proxy.cuts_requests)
        await asyncio.sleep(LOOK_INTERVAL)
    raise DemoError(
        f"no member came back within {RELOAD_LIMIT:.0f} s after the restart"
    )
