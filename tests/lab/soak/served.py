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
    Iterable,
    Iterator,
    Sequence,
)
from pathlib import Path

import attrs

from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import connect
from lbcf.runtime.clock import SystemClock
from tests.e2e import objects
from tests.lab.cluster import Cluster
from tests.lab.faults.history import Effect, Journal
from tests.lab.faults.replicas import Replica
from tests.lab.faults.stage import NAMESPACES
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


class Crowd:
    """The pods, one to an address.

    Attributes:
        ready: when the pods of each address were ready.
        dead: when an address had no pod any more.
        deeds: how many pods were made to blink, replaced, or sent away.
    """

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.ready: dict[str, list[Span]] = defaultdict(list)
        self.dead: dict[str, list[Span]] = defaultdict(list)
        self.deeds = 0
        self._client = client
        self._namespace = namespace
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
        self._since = dict.fromkeys(self._since, time.monotonic())
        end = time.monotonic() + seconds
        busy: set[str] = set()
        async with asyncio.TaskGroup() as deeds:
            while time.monotonic() < end:
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
        gone = time.monotonic()
        await asyncio.sleep(AWAY)
        self.dead[f"{host}:80"].append(Span(gone, time.monotonic()))
        await self._add(host)

    async def _add(self, host: str) -> None:
        self._number += 1
        self._names[host] = f"web-{self._number}"
        body = objects.a_pod(self._names[host])
        await self._client.create(objects.PODS, self._namespace, body)
        await self._set_ready(host, ready=True)

    async def _delete(self, host: str) -> None:
        self._end_ready(host)
        await self._client.delete(objects.PODS, self._key(host))

    async def _set_ready(self, host: str, *, ready: bool) -> None:
        body = objects.pod_status(host, ready=ready)
        key = self._key(host)
        await self._client.patch(objects.PODS, key, body, subresource="status")
        if ready:
            self._since[host] = time.monotonic()

    def _end_ready(self, host: str) -> None:
        span = Span(self._since.pop(host), time.monotonic())
        self.ready[f"{host}:80"].append(span)

    def _key(self, host: str) -> ObjectKey:
        return ObjectKey(self._namespace, self._names[host])


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
        _running(cluster, client, folder, url) as (namespace, replicas),
    ):
        crowd = Crowd(client, namespace)
        await crowd.begin()
        await _until_rest(driver, crowd.members)
        driver.part = PART if trouble else 0.0
        killing = asyncio.create_task(_kill(replicas, chance, trouble=trouble))
        await crowd.run(chance, seconds)
        killing.cancel()
        driver.part = 0.0
        wanted = crowd.members
        crowd.stop()
        present = presences(journal.effects, time.monotonic())
        rest = await _until_rest(driver, wanted)
        starts = sum(replica.starts for replica in replicas)
    _write_absences(folder / "absences.txt", crowd.ready, present)
    (folder / "calls.txt").write_text("".join(f"{call}\n" for call in journal.calls))
    figures: dict[str, object] = {
        "served": round(share(crowd.ready, present), 4),
        "longest_dead_s": round(longest(crowd.dead, present), 1),
        "wrongly_removed": len(removed_from_others(journal.effects)),
        "at_rest": not rest,
        "deeds": crowd.deeds,
        "calls": len(journal.calls),
        "kills": starts - len(replicas),
    }
    return Result([*_wrong(crowd, journal, present, trouble=trouble), *rest], figures)


def _write_absences(
    path: Path, ready: dict[str, list[Span]], present: dict[str, list[Span]]
) -> None:
    """Write for how long each ready pod was no member, the longest first."""
    found = [
        (one.seconds - sum(map(one.shared, present.get(address, ()))), address, one)
        for address, spans in ready.items()
        for one in spans
    ]
    found.sort(key=lambda each: -each[0])
    lines = (f"{away:.2f} s  {address}  {one}\n" for away, address, one in found)
    path.write_text("".join(lines))


@contextlib.asynccontextmanager
async def _running(
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
        members = {member.address for member in driver.listed()}
        wrong = [f"missing at the end: {member}" for member in wanted - members]
        wrong += [f"leaked: {member}" for member in members - wanted]
        if not wrong or time.monotonic() > end:
            return sorted(wrong)
        await asyncio.sleep(LOOK)


def _wrong(
    crowd: Crowd, journal: Journal, present: dict[str, list[Span]], *, trouble: bool
) -> Iterator[str]:
    """Name what must not be."""
    for removal in removed_from_others(journal.effects):
        yield f"removed: {removal}"
    part, dead = share(crowd.ready, present), longest(crowd.dead, present)
    if part < AT_LEAST[trouble]:
        yield f"served {part:.1%}, less than {AT_LEAST[trouble]:.0%}"
    if dead > LONGEST_DEAD:
        yield f"the address of a dead pod was a member for {dead:.1f} s"
