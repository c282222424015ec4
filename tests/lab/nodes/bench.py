"""Three real nodes with HAProxy before them, and the readings that are taken there.

`script` says what happens; everything that runs is put up by the pieces of `tests.lab.demo`.
"""

import asyncio
import contextlib
import json
import math
import sys
import time

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.lab.cluster import Cluster
from tests.lab.cluster.machines import Node
from tests.lab.demo import children, stack
from tests.lab.demo.api import Api
from tests.lab.demo.errors import DemoError
from tests.lab.demo.ground import CONTROLLER, DEREGISTRAR, Ground, own_ground
from tests.lab.demo.haproxy import HAProxy
from tests.lab.demo.manifests import render
from tests.lab.demo.options import Options
from tests.lab.demo.traffic import Traffic, record_path
from tests.lab.nodes import manifests
from tests.lab.nodes.events import Damage, Event, Reading, damages, named
from tests.lab.nodes.records import NODES, Records


OURS = "/apis/lbcf.tkestack.io/v1beta1/namespaces/{}/{}"
PATIENCE = 90.0
NAIVE_REST = 4.0  # seconds that the naive controller gets to do its harm
RATE = 60.0
# A node port's connection belongs to one pod: kept between requests, it would show how
# that pod ends, not what the node does. And HAProxy answers nothing, hence names no
# member, where the connection fails for a request that is not a client's first (measured
# on 2.6.12). What is lost is given up before the client does, and after the longest answer.
DEFAULTS = "  option httpclose\n  timeout server 8s\n"


class Bench:
    """What is up, and what has happened to it."""

    def __init__(
        self, cluster: Cluster, ground: Ground, api: Api, namespace: str, *, naive: bool
    ) -> None:
        self.naive = naive
        self.local = False
        self.events: list[Event] = []
        self.records = Records()
        self.troubles: list[str] = []
        self._cluster = cluster
        self._ground = ground
        self._api = api
        self._namespace = namespace

    def node(self, name: str) -> Node:
        """One of the machines."""
        return self._cluster.node(int(name.removeprefix("n")))

    def command(self, *argv: str) -> list[str]:
        """Say how to run a program in the cluster's network."""
        return self._ground.command(*argv)

    async def kubectl(self, *words: str) -> str:
        """Run kubectl in the bench's namespace.

        Raises:
            DemoError: it failed.
        """
        return await self._ground.kubectl("-n", self._namespace, *words)

    @contextlib.asynccontextmanager
    async def event(
        self,
        name: str,
        *reasons: tuple[str, str],
        nodes: frozenset[str] = NODES,
        dead: str = "",
        unready: str = "",
    ) -> AsyncIterator[None]:
        """Let something happen in the body, wait until all has settled, take readings.

        Args:
            name: what happens.
            reasons: for which records are deleted, by node.
            nodes: those that are registered in the end.
            dead: the node that has no power or no network.
            unready: the node of which no pod is ready any more. Its kube-proxy drops what comes
                as soon as it learns of that, as we do: what is lost before is nobody's fault.

        Raises:
            DemoError: other nodes are registered for too long.
        """
        before = self.read()
        local = self.local
        print(f"{name} ({'Local' if local else 'Cluster'}) ...", flush=True)
        yield
        await self.settle(nodes)
        lost, until = dead, math.inf
        if unready and not self.naive:  # that one drains nobody: nothing is excused
            lost, until = unready, self._drained_since(before.at)
        found = Event(name, local, lost, reasons, before, self.read(), until)
        self.events.append(found)
        if not self.naive:
            self.troubles += found.complaints()

    async def settle(self, nodes: frozenset[str]) -> None:
        """Wait until these nodes are registered, no others, and nothing is under way.

        Raises:
            DemoError: it takes too long.
        """
        if self.naive:
            await asyncio.sleep(NAIVE_REST)
            return
        end = time.monotonic() + PATIENCE
        while self.records.settled_at() != nodes or not await self._is_told(nodes):
            if time.monotonic() > end:
                told = f"not within {PATIENCE:.0f} s: {sorted(nodes)} are registered"
                raise DemoError(f"{told}; now {self.records.settled_at()}")
            await asyncio.sleep(0.1)

    async def _is_told(self, nodes: frozenset[str]) -> bool:
        """Tell whether the counts for people, which come last, are written."""
        group = await self._api.get(OURS.format(self._namespace, "backendgroups/web"))
        place = OURS.format(self._namespace, "loadbalancers/haproxy")
        balancer = await self._api.get(place)
        told, generation = group.get("status", {}), group["metadata"]["generation"]
        found = (
            told.get("observedGeneration"),
            told.get("registeredBackends"),
            told.get("draining"),
            balancer.get("status", {}).get("backends"),
            # The driver is first asked who is in service seconds after the first is registered.
            "inService" in told,
        )
        return found == (generation, len(nodes), 0, len(nodes), True)

    def read(self) -> Reading:
        """Take all readings."""
        log = list(self.logged())
        answered = (e["operation"] for e in log if e["event"] == "driver.answered")
        removed = [
            (self._node_of(e["record"]), str(e["reason"]))
            for e in log
            if e["event"] == "record.deleted"
        ]
        return Reading(
            at=time.monotonic(),
            calls=Counter(answered),
            writes=Counter(
                w for user in (CONTROLLER, DEREGISTRAR) for w in self._writes(user)
            ),
            created=[
                self._node_of(e["record"])
                for e in log
                if e["event"] == "record.created"
            ],
            removed=removed,
        )

    def _node_of(self, record: str) -> str:
        """Name a record's node by the record's own name, `<group>-<node>-...`."""
        return record.partition("/")[2].split("-")[1]

    def logged(self) -> Iterator[dict[str, Any]]:
        """Read the logs of both processes; a half line is left out."""
        for role in ("controller", "deregistrar"):
            path = self._ground.folder / f"{role}.log"
            text = path.read_text() if path.exists() else ""
            for line in text[: text.rfind("\n") + 1].splitlines():
                if line.startswith("{"):
                    yield json.loads(line)

    def _drained_since(self, moment: float) -> float:
        """Say when the load balancer was first told to send nothing more to somebody.

        Args:
            moment: from when on, in seconds of the monotonic clock, as what is returned.

        Raises:
            DemoError: it was not.
        """
        ahead = time.time() - time.monotonic()
        since = datetime.fromtimestamp(ahead + moment, UTC)
        return self.drained_after(since).timestamp() - ahead

    def drained_after(self, asked: datetime) -> datetime:
        """Say when the load balancer had been told to send nothing new.

        Raises:
            DemoError: it was not.
        """
        for entry in self.logged():
            when = datetime.fromisoformat(entry["timestamp"])
            is_drain = entry.get("operation") == "drainBackend"
            if entry["event"] == "driver.answered" and is_drain and when > asked:
                return when
        raise DemoError("nothing was drained")

    def asked(self, resource: str, name: str) -> str:
        """Say when the last change of an object was asked for (RFC 3339, UTC).

        Raises:
            DemoError: nobody changed it.
        """
        found = [
            event.time
            for event in self._cluster.audit()
            if (event.is_write, event.resource, event.name) == (True, resource, name)
        ]
        if not found:
            raise DemoError(f"nobody changed {resource} {name}")
        return found[-1]

    def _writes(self, user: str) -> Iterator[str]:
        """Say what a user wrote; events tell people, and are no part of the work."""
        for event in self._cluster.audit(user):
            if event.is_write and event.resource not in {"events", "leases"}:
                yield f"{event.verb} {event.resource}"

    def damage(self, traffic: Traffic) -> list[Damage]:
        """Say what became of the requests, event by event."""
        lines = record_path(self._ground).read_text().splitlines()
        moments = [float(line.partition(",")[0]) for line in lines]
        log = (self._ground.folder / "haproxy.log").read_text()
        failures = list(named(traffic.failures, log))
        return damages(self.events, moments, failures, self.records.members)


@contextlib.asynccontextmanager
async def put_up(
    cluster: Cluster, folder: Path, *, naive: bool
) -> AsyncIterator[tuple[Bench, Traffic]]:
    """Put everything up before a cluster of three nodes, and let traffic flow.

    Raises:
        DemoError: something does not start.
        ExceptionGroup: the same, out of something that ran beside the script.
    """
    ground = own_ground(cluster, folder, Options())
    addresses = stack.Addresses.choose()
    async with contextlib.AsyncExitStack() as pieces:
        enter = pieces.enter_async_context
        api = await enter(stack.api_reader(ground))
        await enter(stack.definitions(ground))
        namespace = await enter(stack.namespace(ground))
        proxy = await enter(stack.running_haproxy(ground, addresses.web, DEFAULTS))
        bench = Bench(cluster, ground, api, namespace, naive=naive)
        programs = _programs(ground, namespace, addresses, proxy, naive=naive)
        work = [program.run(bench.troubles.append) for program in programs]
        await enter(stack.beside(*work, bench.records.follow(api, namespace)))
        await _fill(ground, bench, namespace, addresses, proxy)
        traffic = await Traffic.start(ground, addresses.web, RATE, 3600)
        pieces.push_async_callback(traffic.kill)
        reading = asyncio.create_task(traffic.read())
        yield bench, traffic
        await traffic.stop()
        await reading


async def _fill(
    ground: Ground,
    bench: Bench,
    namespace: str,
    addresses: stack.Addresses,
    proxy: HAProxy,
) -> None:
    """Start the app, and wait until all of it is load-balanced."""
    for node in ("n1", "n2"):
        await bench.kubectl("label", "node", node, f"{manifests.HOST_LABEL}=yes")
    url = f"http://{addresses.driver}"
    wanted = manifests.web_app(namespace)
    wanted += manifests.load_balancing(namespace, url, str(proxy.socket))
    await ground.kubectl("apply", "-f", "-", stdin=render(list(wanted)))
    rollout = ("rollout", "status", "deployment/web", "--timeout=120s")
    await bench.kubectl(*rollout)
    await bench.settle(NODES)
    await _open(ground, addresses.web)


async def _open(ground: Ground, web: str) -> None:
    """Wait until the site answers all that it is asked.

    Raises:
        DemoError: it does not.
    """
    argv = (sys.executable, "-m", "tests.lab.nodes.opening", *web.split(":"))
    log = ground.folder / "opening.log"
    child = await children.start(ground, log, argv)
    try:
        status = await asyncio.wait_for(child.wait(), PATIENCE)
    except TimeoutError:
        await children.end(child)
        raise DemoError(f"{web} does not answer all within {PATIENCE:.0f} s") from None
    if status:
        raise DemoError(f"asking {web} ended with {status}: {children.tail(log)}")


def _programs(
    ground: Ground,
    namespace: str,
    addresses: stack.Addresses,
    proxy: HAProxy,
    *,
    naive: bool,
) -> list[children.Supervised]:
    """Our programs, telling of each call; or the naive controller in their place."""
    ours = stack.our_programs(ground, namespace, addresses, proxy)
    if not naive:
        for role in ("controller", "deregistrar"):
            ours[role].more("--log-level", "debug")
        return list(ours.values())
    argv = [
        *(sys.executable, "-m", "tests.lab.nodes.naive", "--namespace", namespace),
        *("--api", str(ground.folder / "api.sock")),
        *("--driver", f"http://{addresses.driver}", "--socket", str(proxy.socket)),
    ]
    return [ours["driver"], children.Supervised(ground, "naive", argv)]
