"""The program: makes, rolls and deletes them; status 1 if it cost too much, or went wrong."""

import argparse
import asyncio
import contextlib
import signal
import sys
import tempfile
import time

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

import attrs

from lbcf.core.model.values import ObjectKey
from lbcf.kube.errors import AlreadyExists, NotFound, Unavailable
from tests.e2e import objects
from tests.e2e.stage import Stage, staged
from tests.lab.cluster import Cluster
from tests.lab.cluster.binaries import find_binaries
from tests.lab.cluster.fixtures import running
from tests.lab.services import verdict


CLASS = "pool"
NETWORK = "198.18.0.0/22"  # 1,024 addresses
CRDS = Path("manifests") / "crds"
AT_ONCE = 32  # requests of ours
PATIENCE = 1800.0
LOOK = 0.5
WRITES = frozenset({"create", "update", "patch", "delete"})
LIMIT = ("--max-records-per-namespace", "100000")
LATEST = 4.0  # seconds from a start of the controller until it is killed
GOLDEN = 0.618034
SERVICE_LINE = "{{.object.metadata.name}}{{range .object.status.loadBalancer.ingress}} {{.ip}}{{end}}"
BALANCER_LINE = (
    "{{.object.metadata.name}} {{with .object.spec.attributes}}{{.address}}{{end}}"
)
WATCHED = {"services": SERVICE_LINE, "loadbalancers": BALANCER_LINE}


class FailedError(Exception):
    """Something did not come about."""


@attrs.frozen
class Size:
    """How many Services, and how many pods of each."""

    services: int
    pods: int

    @property
    def names(self) -> list[str]:
        """Names of the Services."""
        return [f"s{number}" for number in range(self.services)]

    def pods_of(self, age: int) -> dict[str, tuple[str, str]]:
        """Name the pods of one age, each with its Service and its address."""
        count = range(self.services * self.pods)
        return {
            f"p{age}-{number}": (
                f"s{number // self.pods}",
                f"10.{age}.{number // 250}.{number % 250 + 1}",
            )
            for number in count
        }


@attrs.define
class Play:
    """What happens, on one stage.

    Attributes:
        stage: where.
        size: of it.
        kills: of the controller, as many in each phase.
        cost: writes of each phase, by verb and resource.
        killed: how often the controller was.
        slots: of requests of ours.
    """

    stage: Stage
    size: Size
    kills: int = 0
    cost: dict[str, Counter[str]] = attrs.field(factory=dict)
    killed: int = 0
    slots: asyncio.Semaphore = attrs.field(factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def run(self) -> None:
        """Make, roll and delete.

        Raises:
            FailedError: something did not come about, or cost too much.
        """
        await self._add_pods(0)
        await self._timed("made", self._make)
        await self._reached()
        await self._timed("rolled", self._roll)
        await self._reached()
        await self._timed("deleted", self._delete)
        self._judge()

    async def _timed(self, told: str, act: Callable[[], Awaitable[None]]) -> None:
        """Do something while the controller is killed, and say what it cost."""
        before, began = _writes(self.stage), time.monotonic()
        killing = asyncio.create_task(self._kill())
        try:
            await act()
            took = time.monotonic() - began
        finally:
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)
        await asyncio.sleep(2)  # Events, and status that nobody waits for
        cost = self.cost[told] = _writes(self.stage) - before
        listed = ", ".join(f"{name} {count}" for name, count in cost.most_common())
        _say(f"{told}: {took:.1f} s, {cost.total()} writes ({listed})")

    async def _kill(self) -> None:
        """Kill the controller in this phase, each time after another while."""
        for number in range(self.kills):
            await asyncio.sleep(LATEST * (number * GOLDEN % 1))
            await asyncio.shield(self._kill_once())

    async def _kill_once(self) -> None:
        """Kill the controller, and start it again."""
        await self.stage.processes["controller"].end(signal.SIGKILL)
        self.killed += 1
        await _start(self.stage, "controller")

    def _judge(self) -> None:
        """Compare what it cost with what it may cost.

        Raises:
            FailedError: it was more, or the kills were fewer than was asked for.
        """
        pods = self.size.services * self.size.pods
        found = verdict.bounds(self.cost, self.size.services, pods, self.killed)
        for one in found:
            word = "" if one.holds else ", TOO MANY"
            _say(f"{one.what}: {one.figure:.2f} (at most {one.limit:.2f}{word})")
        _say(f"kills of the controller: {self.killed}")
        if not all(one.holds for one in found):
            raise FailedError("more writes than there may be")
        if self.killed < len(self.cost) * self.kills:
            raise FailedError("it was over before all kills: take more Services")

    async def _all(self, work: Iterable[Callable[[], Awaitable[object]]]) -> None:
        """Do many things, some of them at a time; again where the API server is too busy."""

        async def one(what: Callable[[], Awaitable[object]]) -> None:
            async with self.slots:
                while True:
                    try:
                        await what()
                    except Unavailable:
                        await asyncio.sleep(LOOK)
                    except (AlreadyExists, NotFound):
                        return  # it was done when nobody said so
                    else:
                        return

        async with asyncio.TaskGroup() as group:
            for what in work:
                group.create_task(one(what))

    async def _add_pods(self, age: int) -> None:
        """Make pods, ready at once."""
        stage = self.stage

        named = self.size.pods_of(age).items()
        await self._all(
            partial(stage.create, objects.PODS, objects.a_pod(name, of=service))
            for name, (service, _) in named
        )
        await self._all(
            partial(stage.set_pod, name, address, ready=True)
            for name, (_, address) in named
        )

    async def _make(self) -> None:
        """Make the Services; returns when each says that it is served, with its members."""
        await self._all(
            partial(self.stage.create, objects.SERVICES, _service(name))
            for name in self.size.names
        )
        await self._until("all are served", self._is_served)
        await self._until_members(0)

    async def _is_served(self) -> bool:
        """Tell whether all Services say so."""
        listed = await self.stage.listed(objects.SERVICES)
        said = [one.condition("LoadBalancerReady").get("status") for one in listed]
        return [True] * self.size.services == [status == "True" for status in said]

    async def _until_members(self, age: int) -> None:
        """Wait until the members are the pods of one age, and no others."""
        wanted = {f"{address}:80" for _, address in self.size.pods_of(age).values()}

        async def are() -> bool:
            return wanted == await self.stage.members()

        await self._until(f"members are the pods of age {age}", are)

    async def _roll(self) -> None:
        """Replace all pods, as Deployments do: the old ones stay until they are let go."""
        await self._add_pods(1)
        stage, old = self.stage, list(self.size.pods_of(0))
        await self._all(partial(stage.terminate_pod, name) for name in old)
        await self._until_members(1)
        await self._all(partial(stage.let_pod_go, name) for name in old)

    async def _delete(self) -> None:
        """Delete the Services; returns when nothing is left.

        Raises:
            FailedError: something is.
        """
        stage = self.stage
        await self._all(
            partial(stage.delete, objects.SERVICES, name) for name in self.size.names
        )

        async def are_gone() -> bool:
            return not await stage.listed(objects.SERVICES)

        await self._until("the Services are gone", are_gone)
        left = {
            kind.plural: len(await stage.listed(kind))
            for kind in (objects.LOAD_BALANCERS, objects.GROUPS, objects.RECORDS)
        }
        left["addresses"] = len(await self._given())
        left["members"] = len(await stage.members())
        _say(f"left over: {left}")
        if any(left.values()):
            raise FailedError(f"left over: {left}")

    async def _given(self) -> dict[str, str]:
        """Return which Service has which address, by the record of the class."""
        found = await self.stage.client.get(objects.CLASSES, ObjectKey("", CLASS))
        listed = found.status.get("addresses", [])
        return {one["service"]: one["address"] for one in listed}

    async def _reached(self) -> None:
        """See that each Service says that it is reached where its class has given it.

        Raises:
            FailedError: that is not what the class has given it.
        """
        listed = await self.stage.listed(objects.SERVICES)
        found = {
            one.meta.key.name: one.body["status"]["loadBalancer"]["ingress"][0]["ip"]
            for one in listed
        }
        if found != await self._given():
            raise FailedError("Services are reached where their class has not said")

    async def _until(self, told: str, check: Callable[[], Awaitable[bool]]) -> None:
        """Wait until something has come about.

        Raises:
            FailedError: it has not.
        """
        end = time.monotonic() + PATIENCE
        while not await check():
            if time.monotonic() > end:
                raise FailedError(f"not within {PATIENCE:.0f} s: {told}")
            await asyncio.sleep(LOOK)


def _service(name: str) -> dict[str, object]:
    """Return a Service of the pods that are labelled with its name."""
    return {
        "metadata": {"name": name},
        "spec": {
            "type": "LoadBalancer",
            "loadBalancerClass": f"lbcf.tkestack.io/{CLASS}",
            "allocateLoadBalancerNodePorts": False,
            "selector": {"of": name},
            "ports": [{"name": "http", "port": 80}],
        },
    }


def _class() -> dict[str, object]:
    """Return a class with a pool of addresses."""
    return {
        "metadata": {"name": CLASS},
        "spec": {
            "driver": "memory",
            "lbSpec": {"name": "{service}-{port}"},
            "attributes": {"address": "{address}"},
            "addresses": [NETWORK],
        },
    }


def _writes(stage: Stage) -> Counter[str]:
    """Count what our two processes have written so far."""
    found: Counter[str] = Counter()
    for process in ("controller", "deregistrar"):
        for event in stage.cluster.audit(stage.user(process)):
            if event.verb in WRITES and event.resource != "leases":
                found[f"{event.verb} {event.resource}"] += 1
    return found


async def played(cluster: Cluster, size: Size, kills: int, folder: Path) -> None:
    """Put the stage up, and play.

    Raises:
        FailedError: something did not come about.
    """
    cluster.kubectl("apply", "--server-side", "-f", CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "-f", CRDS)
    with cluster.namespace("services") as namespace:
        async with staged(cluster, namespace, folder) as stage:
            await stage.start_driver()
            await stage.create(objects.DRIVERS, objects.a_driver(stage.driver_url))
            await stage.client.create(objects.CLASSES, "", _class())
            for process in ("controller", "deregistrar"):
                await _start(stage, process)
            async with watched(stage):
                await Play(stage, size, kills).run()


async def _start(stage: Stage, process: str) -> None:
    """Start one of our processes; nobody starts it again if a busy machine costs it the Lease."""
    limit = LIMIT if process == "controller" else ()
    started = await stage.start(process, "--no-leader-elect", *limit)
    await stage.until_working(started)


@contextlib.asynccontextmanager
async def watched(stage: Stage) -> AsyncIterator[None]:
    """Watch all addresses of Services and load balancers for a block.

    Raises:
        FailedError: two ever had the same at once, or the watch ended before.
    """
    children = []
    for plural, line in WATCHED.items():
        path = stage.folder / f"{plural}.watched"
        with path.open("wb") as kept:
            child = await asyncio.create_subprocess_exec(
                *stage.cluster.command("kubectl", "get", plural, "-n", stage.namespace),
                *("-w", "--output-watch-events", "-o"),
                f'go-template={{{{.type}}}} {line}{{{{"\\n"}}}}',
                env=stage.cluster.environment(),
                stdout=kept,
            )
        children.append((path, child))
    try:
        yield
        for path, child in children:
            held = verdict.taken(path.read_text().splitlines())
            if child.returncode is not None or not held.seen:
                raise FailedError(f"the watch of {path.stem} ended too early")
            if held.twice:
                raise FailedError(f"{path.stem}, given twice: {held.twice[:5]}")
            _say(f"{path.stem}: {held.seen} addresses seen, none twice at any moment")
    finally:
        for _, child in children:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


def main() -> int:
    """Read the command line, run and report."""
    parser = argparse.ArgumentParser(prog="tests.lab.services", description=__doc__)
    parser.add_argument("--services", type=int, default=500)
    parser.add_argument("--pods", type=int, default=4, help="of each Service")
    parser.add_argument(
        "--kills",
        type=int,
        default=0,
        help="of the controller, in each of three phases",
    )
    flags = parser.parse_args()
    find_binaries(alone=True, say=_say)
    with tempfile.TemporaryDirectory(prefix="lbcf-services-") as folder:
        try:
            with running(0) as cluster:
                size = Size(flags.services, flags.pods)
                asyncio.run(played(cluster, size, flags.kills, Path(folder)))
        except FailedError as failed:
            _say(f"failed: {failed}")
            return 1
    return 0


def _say(text: str) -> None:
    """Tell whoever watches."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
