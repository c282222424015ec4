"""The program: makes, rolls and deletes them, and prints what that cost."""

import argparse
import asyncio
import sys
import tempfile
import time

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
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


CLASS = "pool"
NETWORK = "198.18.0.0/22"  # 1,024 addresses
CRDS = Path("manifests") / "crds"
AT_ONCE = 32  # requests of ours
PATIENCE = 1800.0
LOOK = 0.5
WRITES = frozenset({"create", "update", "patch", "delete"})
MADE = ("loadbalancers", "backendgroups", "backendrecords")


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
    """What happens, on one stage."""

    stage: Stage
    size: Size
    slots: asyncio.Semaphore = attrs.field(factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def run(self) -> None:
        """Make, roll and delete."""
        await self._add_pods(0)
        await self._timed("made", self._make)
        self._check_addresses(await self._reached())
        await self._timed("rolled", self._roll)
        self._check_addresses(await self._reached())
        await self._timed("deleted", self._delete)

    async def _timed(self, told: str, act: Callable[[], Awaitable[None]]) -> None:
        """Do something, and say what it cost."""
        before, began = _writes(self.stage), time.monotonic()
        await act()
        took = time.monotonic() - began
        await asyncio.sleep(2)  # Events, and status that nobody waits for
        cost = _writes(self.stage) - before
        lives = self.size.services * self.size.pods
        listed = ", ".join(f"{name} {count}" for name, count in cost.most_common(8))
        _say(
            f"{told}: {took:.1f} s, {cost.total()} writes, {cost.total() / lives:.2f} for "
            f"each of {lives} pods ({listed})"
        )

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
        listed = found.body.get("status", {}).get("addresses", [])
        return {one["service"]: one["address"] for one in listed}

    async def _reached(self) -> dict[str, str]:
        """Return where each Service says that it is reached.

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
        return found

    def _check_addresses(self, reached: dict[str, str]) -> None:
        """See that no two Services have one address.

        Raises:
            FailedError: they have.
        """
        counted = Counter(reached.values())
        if twice := [address for address, count in counted.items() if count > 1]:
            raise FailedError(f"given twice: {twice}")
        _say(f"addresses given: {len(counted)}, none twice")

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


async def played(cluster: Cluster, size: Size, folder: Path) -> None:
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
            # Nobody starts them again here if a busy machine costs them the Lease.
            limit = ("--max-records-per-namespace", "100000")
            for process, flags in (("controller", limit), ("deregistrar", ())):
                started = await stage.start(process, "--no-leader-elect", *flags)
                await stage.until_working(started)
            await Play(stage, size).run()


def main() -> int:
    """Read the command line, run and report."""
    parser = argparse.ArgumentParser(prog="tests.lab.services", description=__doc__)
    parser.add_argument("--services", type=int, default=500)
    parser.add_argument("--pods", type=int, default=4, help="of each Service")
    flags = parser.parse_args()
    find_binaries(alone=True, say=_say)
    with tempfile.TemporaryDirectory(prefix="lbcf-services-") as folder:
        try:
            with running(0) as cluster:
                size = Size(flags.services, flags.pods)
                asyncio.run(played(cluster, size, Path(folder)))
        except FailedError as failed:
            _say(f"failed: {failed}")
            return 1
    return 0


def _say(text: str) -> None:
    """Tell whoever watches."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
