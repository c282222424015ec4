"""What people do to a cluster, one thing after the other, while traffic flows.

A round is: rolling update, scale out, pods deleted, node drained, rolling update,
HAProxy reloaded, scale in, rolling update. Rounds go on until the time is over and all
minima hold. Everything is done with kubectl, as people do it.
"""

import asyncio
import signal
import time

from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs

from tests.lab.demo import haproxy, manifests
from tests.lab.demo.census import Census
from tests.lab.demo.errors import DemoError
from tests.lab.demo.ground import Ground
from tests.lab.demo.journal import Journal, Span
from tests.lab.demo.kills import Killer


ROLLOUT_LIMIT = "--timeout=180s"
MORE_REPLICAS = manifests.REPLICAS + 3
DELETED_PODS = 2
LOOK_INTERVAL = 0.01
RELOAD_LIMIT = 60.0
BREATH = 1.0

ROLLOUT = "rollout"
SCALING = "scaling"
DELETION = "deletion"
NODE_DRAIN = "node drain"
RELOAD = "reload"


@attrs.frozen
class Proxy:
    """The running HAProxy: its master program and its runtime socket."""

    child: asyncio.subprocess.Process
    socket: Path


@attrs.define
class Script:
    """Breaks things in turns.

    Attributes:
        ground: the cluster to break things in.
        namespace: the demo's namespace there.
        proxy: the HAProxy to reload.
        census: knows the pods.
        journal: told of each step.
        killer: paused during a reload.
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
        self.version += 1
        with self.journal.step(ROLLOUT, f"rolling update {self.version}"):
            variable = f"VERSION={self.version}"
            await self._kubectl("set", "env", f"deployment/{manifests.APP}", variable)
            await self._settled()

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
        await self.census.list_pods()
        names = [pod.name for pod in self.census.serving[:DELETED_PODS]]
        if not names:
            raise DemoError("no pod is ready, so none can be deleted")
        with self.journal.step(DELETION, f"delete pods {' '.join(names)}"):
            await self._kubectl("delete", "pod", *names, "--wait=false")
            await asyncio.sleep(BREATH)
            await self._settled()

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
        """Reload HAProxy, which loses all members, and wait until traffic flows.

        Raises:
            DemoError: no member comes back.
        """
        self.killer.paused.set()
        try:
            with self.journal.step(RELOAD, "reload HAProxy"):
                gap = await reload(self.proxy)
                self.journal.gaps.append(gap)
                self.journal.tell(f"members back after {gap.end - gap.begin:.2f} s")
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
    """Reload HAProxy; the time from the signal until a member serves again.

    The end is the moment before the look that first showed a serving member: rather too
    short than too long, as failures inside are counted apart.

    Raises:
        DemoError: no member serves within `RELOAD_LIMIT` seconds.
    """
    before = await haproxy.look(proxy.socket)
    begin = time.monotonic()
    proxy.child.send_signal(signal.SIGUSR2)
    while (now := time.monotonic()) < begin + RELOAD_LIMIT:
        try:
            seen = await haproxy.look(proxy.socket)
        except DemoError:
            continue  # the old worker went while it was asked
        if seen.worker != before.worker and seen.serving:
            return Span(RELOAD, begin, now)
        await asyncio.sleep(LOOK_INTERVAL)
    raise DemoError(f"no member came back within {RELOAD_LIMIT:.0f} s after the reload")
