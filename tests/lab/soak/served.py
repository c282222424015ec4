"""Of the time in which pods were ready, the share in which the load balancer had them.

Forty addresses, each of a pod that blinks, is replaced at once, or goes and comes again;
the driver tells members apart by their addresses, as every driver of LBCF does. Where
there is trouble, calls fail in each way in which they can, and a process is killed every
three seconds.
"""

import asyncio
import contextlib
import random
import signal
import time

from collections import defaultdict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from pathlib import Path
from typing import Protocol

import attrs

from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import connect
from lbcf.kube.kinds import NAMESPACES
from lbcf.runtime.clock import SystemClock
from tests.e2e import objects
from tests.lab.cluster import Cluster
from tests.lab.faults.history import Effect, Journal
from tests.lab.faults.replicas import Replica
from tests.lab.faults.witness import served
from tests.lab.soak.run import Result
from tests.lab.soak.unsteady import TIMEOUT, UnsteadyDriver, losing


ADDRESSES = tuple(f"10.0.0.{number}" for number in range(1, 41))
PART = 0.1
"""Of the calls for each way to fail, where there is trouble."""
KILLS_APART = 3.0
PACE = 1.0
"""Seconds between two deeds, on average: each pod has one in forty."""
BLINK = 1.0
AWAY = 5.0
REST = 60.0
LOOK = 0.2
AT_LEAST = {False: 0.99, True: 0.92}
"""The share that is asked for, without and with trouble."""
LONGEST_DEAD = 10.0


@attrs.frozen
class Span:
    """From when until when something held, in monotonic seconds."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it held."""
        return max(self.end - self.begin, 0.0)

    def shared(self, other: "Span") -> float:
        """Return for how many seconds both held."""
        return Span(max(self.begin, other.begin), min(self.end, other.end)).seconds


def presences(effects: Iterable[Effect], end: float) -> dict[str, list[Span]]:
    """Return when each address was a member, from what was done to the members."""
    since: dict[str, float] = {}
    found: dict[str, list[Span]] = defaultdict(list)
    for effect in effects:
        if effect.ensured:
            since.setdefault(effect.address, effect.at)
        elif effect.address in since:
            found[effect.address].append(Span(since.pop(effect.address), effect.at))
    for address, begin in since.items():
        found[address].append(Span(begin, end))
    return found


def share(ready: dict[str, list[Span]], present: dict[str, list[Span]]) -> float:
    """Return the part of the ready time in which the ready were members."""
    whole = sum(span.seconds for spans in ready.values() for span in spans)
    inside = sum(
        one.shared(other)
        for address, spans in ready.items()
        for one in spans
        for other in present.get(address, ())
    )
    return inside / whole


def longest(dead: dict[str, list[Span]], present: dict[str, list[Span]]) -> float:
    """Return for how long, at most, a member was there without a pod, in seconds."""
    return max(
        (
            one.shared(other)
            for address, spans in dead.items()
            for one in spans
            for other in present.get(address, ())
        ),
        default=0.0,
    )


def removed_from_others(effects: Iterable[Effect]) -> list[str]:
    """Name the members that were taken out by another record's end than their own."""
    return [
        f"{effect.address} of record {effect.before} by the end of {effect.by}"
        for effect in effects
        if not effect.ensured and effect.before not in {"", effect.by}
    ]


class PodApi(Protocol):
    """Makes pods, and says for kubelets how they are."""

    async def create(self, name: str) -> None:
        """Create a pod."""

    async def delete(self, name: str) -> None:
        """Delete one; it is gone at once."""

    async def set_status(self, name: str, host: str, *, ready: bool) -> None:
        """Say at which address it is, and whether it is ready."""


class RealPods:
    """Those of a namespace of a real API server."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def create(self, name: str) -> None:
        """Create a pod."""
        await self._client.create(objects.PODS, self._namespace, objects.a_pod(name))

    async def delete(self, name: str) -> None:
        """Delete one; it is gone at once, for it has no node."""
        await self._client.delete(objects.PODS, ObjectKey(self._namespace, name))

    async def set_status(self, name: str, host: str, *, ready: bool) -> None:
        """Say at which address it is, and whether it is ready."""
        body = objects.pod_status(host, ready=ready)
        key = ObjectKey(self._namespace, name)
        await self._client.patch(objects.PODS, key, body, subresource="status")


class Crowd:
    """The pods, one to an address.

    Attributes:
        ready: when the pods of each address were ready.
        dead: when an address had no pod any more.
        deeds: how many pods were made to blink, replaced, or sent away.
    """

    def __init__(self, pods: PodApi) -> None:
        self.ready: dict[str, list[Span]] = defaultdict(list)
        self.dead: dict[str, list[Span]] = defaultdict(list)
        self.deeds = 0
        self._pods = pods
        self._names: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self._number = 0

    @property
    def members(self) -> set[str]:
        """Return the members that there should be."""
        return {f"{host}:80" for host in self._since}

    async def begin(self) -> None:
        """Let all pods come."""
        await asyncio.gather(*map(self._add, ADDRESSES))

    async def run(self, chance: random.Random, seconds: float) -> None:
        """Let pods come and go for a while; it is measured from here on."""
        self._since = dict.fromkeys(self._since, _now())
        end = _now() + seconds
        busy: set[str] = set()
        async with asyncio.TaskGroup() as deeds:
            while _now() < end:
                await asyncio.sleep(chance.uniform(0, 2 * PACE))
                host = chance.choice([h for h in ADDRESSES if h not in busy])
                deed = chance.choice((self._blink, self._replace, self._leave))
                busy.add(host)
                self.deeds += 1
                deeds.create_task(self._once(deed, host, busy))

    async def _once(
        self, deed: Callable[[str], Awaitable[None]], host: str, busy: set[str]
    ) -> None:
        """Do one thing to a pod, and nothing else meanwhile."""
        try:
            await deed(host)
        finally:
            busy.discard(host)

    @property
    def names(self) -> Collection[str]:
        """Return the names of the pods that there should be."""
        return self._names.values()

    async def blink_all(self) -> None:
        """Let all pods blink at once."""
        await asyncio.gather(*map(self._blink, ADDRESSES))

    async def replace_all(self) -> None:
        """Let another pod take the place of each at once."""
        await asyncio.gather(*map(self._replace, ADDRESSES))

    async def roll(self, restart: Callable[[], float]) -> dict[str, float]:
        """Restart one pod after the other, the last first, as a StatefulSet does.

        A pod keeps its name and address, and the next one goes when it is ready.

        Args:
            restart: draws the seconds from a pod's end until it is there again.

        Returns:
            For how long each was not ready, in seconds.
        """
        took = {}
        for host in reversed(ADDRESSES):
            began = _now()
            await self._delete(host)
            await asyncio.sleep(restart())
            await self._start(host)
            took[f"{host}:80"] = _now() - began
        return took

    def stop(self) -> None:
        """Take it that nobody is ready any more: the figures end here."""
        for host in list(self._since):
            self._end_ready(host)

    async def _blink(self, host: str) -> None:
        self._end_ready(host)
        await self._set_ready(host, ready=False)
        await asyncio.sleep(BLINK)
        await self._set_ready(host, ready=True)

    async def _replace(self, host: str) -> None:
        await self._delete(host)
        await self._add(host)

    async def _leave(self, host: str) -> None:
        await self._delete(host)
        gone = _now()
        await asyncio.sleep(AWAY)
        self.dead[f"{host}:80"].append(Span(gone, _now()))
        await self._add(host)

    async def _add(self, host: str) -> None:
        self._number += 1
        self._names[host] = f"web-{self._number}"
        await self._start(host)

    async def _start(self, host: str) -> None:
        await self._pods.create(self._names[host])
        await self._set_ready(host, ready=True)

    async def _delete(self, host: str) -> None:
        self._end_ready(host)
        await self._pods.delete(self._names[host])

    async def _set_ready(self, host: str, *, ready: bool) -> None:
        await self._pods.set_status(self._names[host], host, ready=ready)
        if ready:
            self._since[host] = _now()

    def _end_ready(self, host: str) -> None:
        span = Span(self._since.pop(host), _now())
        self.ready[f"{host}:80"].append(span)


def _now() -> float:
    """Return the seconds of the running loop, virtual or those of the machine."""
    return asyncio.get_running_loop().time()


async def measure(
    cluster: Cluster, folder: Path, seed: int, seconds: float, *, trouble: bool
) -> Result:
    """Let pods come and go for so long, and measure.

    Args:
        cluster: where.
        folder: gets the logs of the processes.
        seed: draws what happens.
        seconds: how long.
        trouble: calls fail, and processes are killed.
    """
    chance = random.Random(seed)  # noqa: S311 - one that can be drawn again
    journal = Journal()
    driver = UnsteadyDriver(journal, random.Random(seed + 1), 0.0)  # noqa: S311
    connection = await connect(str(cluster.kubeconfig))
    async with (
        connected(connection, SystemClock(), user_agent="soak") as client,
        served(driver, [losing]) as url,
        putting_up(cluster, client, folder, url) as (namespace, replicas),
    ):
        crowd = Crowd(RealPods(client, namespace))
        await crowd.begin()
        await _until_rest(driver, crowd.members)
        driver.part = PART if trouble else 0.0
        killing = asyncio.create_task(_kill(replicas, chance, trouble=trouble))
        await crowd.run(chance, seconds)
        killing.cancel()
        driver.part = 0.0
        wanted = crowd.members
        crowd.stop()
        end = _now()
        rest = await _until_rest(driver, wanted)
        starts = sum(len(replica.runs.started) for replica in replicas)
    write_absences(folder / "absences.txt", crowd.ready, journal.effects, end)
    (folder / "calls.txt").write_text("".join(f"{call}\n" for call in journal.calls))
    figures: dict[str, object] = {
        "calls": len(journal.calls),
        "kills": starts - len(replicas),
    }
    return result_of(crowd, journal.effects, end, rest, figures, trouble=trouble)


def result_of(
    crowd: Crowd,
    effects: Sequence[Effect],
    end: float,
    rest: Sequence[str],
    figures: Mapping[str, object],
    *,
    trouble: bool,
) -> Result:
    """Judge what was seen.

    Args:
        crowd: what pods did.
        effects: what was done to members.
        end: seconds at which measuring ended.
        rest: what was wrong when all was at rest, for people.
        figures: more of them, by name.
        trouble: calls failed, and processes were killed.
    """
    present = presences(effects, end)
    wrong = [*_wrong(crowd, effects, present, trouble=trouble), *rest]
    return Result(
        wrong,
        {
            "served": round(share(crowd.ready, present), 4),
            "longest_dead_s": round(longest(crowd.dead, present), 1),
            "wrongly_removed": len(removed_from_others(effects)),
            "at_rest": not rest,
            "deeds": crowd.deeds,
            **figures,
        },
    )


def write_absences(
    path: Path, ready: dict[str, list[Span]], effects: Sequence[Effect], end: float
) -> None:
    """Write for how long each ready pod was no member, the longest first."""
    present = presences(effects, end)
    found = [
        (one.seconds - sum(map(one.shared, present.get(address, ()))), address, one)
        for address, spans in ready.items()
        for one in spans
    ]
    found.sort(key=lambda each: -each[0])
    lines = (f"{away:.2f} s  {address}  {one}\n" for away, address, one in found)
    path.write_text("".join(lines))


@contextlib.asynccontextmanager
async def putting_up(
    cluster: Cluster, client: KubeClient, folder: Path, url: str
) -> AsyncIterator[tuple[str, Sequence[Replica]]]:
    """Put up namespace, driver's object, load balancer, group and both processes."""
    namespace = f"served-{time.monotonic_ns():x}"
    await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    webhooks = [
        {"name": name, "timeout": f"{TIMEOUT:g}s"}
        for name in ("drainBackend", "listBackends", "ensureBackend", "deregisterBackend")
    ]  # fmt: skip
    driver = objects.a_driver(url, memberKey="Address", webhooks=webhooks)
    await client.create(objects.DRIVERS, namespace, driver)
    await client.create(objects.LOAD_BALANCERS, namespace, objects.a_load_balancer())
    await client.create(objects.GROUPS, namespace, objects.a_group())
    replicas = [
        Replica(
            role,
            cluster.kubeconfig_for(f"{role}.{namespace}"),
            folder / f"{role}.log",
            ["--namespace", namespace, "--leader-elect"],
        )
        for role in ("controller", "deregistrar")
    ]
    async with contextlib.AsyncExitStack() as stack:
        for replica in replicas:
            stack.push_async_callback(replica.end)
            replica.keep_running()
        while not all(replica.works for replica in replicas):  # noqa: ASYNC110 - their logs tell
            await asyncio.sleep(LOOK)
        yield namespace, replicas
    await client.delete(NAMESPACES, ObjectKey("", namespace))


async def _kill(
    replicas: Sequence[Replica], chance: random.Random, *, trouble: bool
) -> None:
    """Kill one of the processes every few seconds, when all work again."""
    while trouble:
        await asyncio.sleep(KILLS_APART)
        while not all(replica.works_again for replica in replicas):  # noqa: ASYNC110 - their logs tell
            await asyncio.sleep(LOOK)
        chance.choice(replicas).send(signal.SIGKILL)


async def _until_rest(driver: UnsteadyDriver, wanted: set[str]) -> list[str]:
    """Wait until the members are those that should be; name those that are not."""
    end = time.monotonic() + REST
    while True:
        wrong = differences({member.address for member in driver.listed()}, wanted)
        if not wrong or time.monotonic() > end:
            return wrong
        await asyncio.sleep(LOOK)


def differences(members: set[str], wanted: set[str]) -> list[str]:
    """Name the members that are missing, and those that should not be there."""
    missing = (f"missing at the end: {member}" for member in wanted - members)
    leaked = (f"leaked: {member}" for member in members - wanted)
    return sorted([*missing, *leaked])


def _wrong(
    crowd: Crowd,
    effects: Sequence[Effect],
    present: dict[str, list[Span]],
    *,
    trouble: bool,
) -> Iterator[str]:
    """Name what must not be."""
    for removal in removed_from_others(effects):
        yield f"removed: {removal}"
    part, dead = share(crowd.ready, present), longest(crowd.dead, present)
    if part < AT_LEAST[trouble]:
        yield f"served {part:.1%}, less than {AT_LEAST[trouble]:.0%}"
    if dead > LONGEST_DEAD:
        yield f"the address of a dead pod was a member for {dead:.1f} s"
