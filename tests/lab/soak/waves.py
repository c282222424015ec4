"""All pods at once: they blink, are replaced at their addresses, and roll as a StatefulSet does.

The driver answers at once and tells members apart by their addresses, as every driver of
LBCF does. What counts is for how long each address was no member, and what that cost.
How fast that goes is up to the API server, which all processes here share two cores with:
what it takes for plain requests is measured before and after, and compared with.
"""

import asyncio
import itertools
import random
import statistics

from collections import Counter
from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from pathlib import Path

import attrs

from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import connect
from lbcf.kube.leases import LEASES
from lbcf.kube.list_watch import Selection
from lbcf.runtime.clock import SystemClock
from tests.e2e import objects
from tests.e2e.objects import Whole
from tests.lab.cluster import Cluster
from tests.lab.faults.history import Effect, Journal
from tests.lab.faults.witness import served
from tests.lab.soak.run import Result
from tests.lab.soak.served import (
    ADDRESSES,
    BLINK,
    LOOK,
    Crowd,
    RealPods,
    Span,
    differences,
    presences,
    putting_up,
    removed_from_others,
)
from tests.lab.soak.unsteady import UnsteadyDriver


BLINKS = 6
ROUNDS = 3
"""How often all are replaced."""
RESTART = (0.2, 2.0)
"""Seconds that a pod of the StatefulSet needs until it is ready again, drawn evenly."""
BLINK_BEYOND = 2.4
"""For how long the last pod may be out beyond its blink, where one is what the API server
takes for `CHAIN` plain requests for each pod. Means of all blinks: one varies by a third.
A pod's record takes as many from its creation until it is registered (measured: twelve)."""
CHAIN = 12
BEYOND_RESTART = 1.0
"""Seconds for which a restarted pod may be out beyond its own restart."""
WRITES = 8.2
"""Of a record and the lock of its address, where that is reused at once. What is told of the
group is gathered by time: it is printed, and not compared."""
_OWN = {"backendrecords", "backendrecords/status", "leases"}
_REFUSED = " refused"
_GATHERED = 6.0
"""Seconds after which what is gathered is written: the status of groups, each five."""


def gaps(effects: Iterable[Effect], since: float) -> dict[str, float]:
    """Return for how long, at most, each address was no member since then, in seconds.

    An address that is out to the end has no gap here: it is missing.
    """
    found = {}
    for address, spans in presences(effects, float("inf")).items():
        outs = [
            Span(gone.end, back.begin).seconds
            for gone, back in itertools.pairwise(spans)
            if gone.end >= since
        ]
        if outs:
            found[address] = max(outs)
    return found


@attrs.frozen
class Scene:
    """The pods, the members, and the processes' writes.

    Attributes:
        cluster: whose audit log tells the writes.
        client: reads the records.
        namespace: of all of it.
        crowd: the pods.
        journal: what the driver was called for.
    """

    cluster: Cluster
    client: KubeClient
    namespace: str
    crowd: Crowd
    journal: Journal

    async def wave(self, deed: Callable[[], Awaitable[object]]) -> dict[str, float]:
        """Do something to all pods, and wait until all are in again.

        Returns:
            For how long each address was out.
        """
        since = asyncio.get_running_loop().time()
        await deed()
        while not await self._is_settled():  # noqa: ASYNC110 - the API server is asked
            await asyncio.sleep(LOOK)
        return gaps(self.journal.effects, since)

    async def writes(self) -> Counter[str]:
        """Count what both have written so far, by kind, when nothing is left to write."""
        await asyncio.sleep(_GATHERED)
        users = {f"{role}.{self.namespace}" for role in ("controller", "deregistrar")}
        return Counter(
            f"{event.verb} {event.resource}{_REFUSED * (event.code >= 400)}"
            for event in self.cluster.audit()
            if event.user in users
            and event.is_write
            and not event.name.startswith("lbcf-")  # leaders' Leases
        )

    async def pace(self) -> float:
        """Return the seconds that the API server takes for so many plain requests now."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.gather(*map(self._chain, ADDRESSES))
        return loop.time() - began

    async def _chain(self, name: str) -> None:
        """Make requests for one pod, one after another; half of them write."""
        body = {"metadata": {"name": name}, "spec": {"holderIdentity": "pace"}}
        lease = await self.client.create(LEASES, self.namespace, body)
        for turn in range(CHAIN // 2 - 1):
            spec = {"spec": {"holderIdentity": f"pace-{turn}"}}
            await self.client.patch(LEASES, lease.meta.key, spec)
            await self.client.get(LEASES, lease.meta.key)
        await self.client.delete(LEASES, lease.meta.key)

    async def _is_settled(self) -> bool:
        """Tell whether each pod's own record is registered, and no other is left."""
        page = await self.client.list(
            objects.RECORDS, Selection(namespace=self.namespace)
        )
        found = sorted(map(_pod_of, page.objects))
        return found == sorted(self.crowd.names)


def _pod_of(record: Whole) -> str:
    """Name the pod of a record that is registered and stays; else nothing."""
    is_in = record.condition("Registered").get("status") == "True"
    stays = "deletionTimestamp" not in record.body["metadata"]
    pod: str = record.body["spec"]["podBackend"]["name"]
    return pod if is_in and stays else ""


async def measure(cluster: Cluster, folder: Path, seed: int) -> Result:
    """Let all pods blink, be replaced, and roll.

    Args:
        cluster: where.
        folder: gets the logs of the processes.
        seed: draws how long restarts take.
    """
    chance = random.Random(seed)  # noqa: S311 - one that can be drawn again
    journal = Journal()
    driver = UnsteadyDriver(journal, chance, 0.0)
    connection = await connect(str(cluster.kubeconfig))
    async with (
        connected(connection, SystemClock(), user_agent="soak") as client,
        served(driver) as url,
        putting_up(cluster, client, folder, url) as (namespace, _),
    ):
        crowd = Crowd(RealPods(client, namespace))
        scene = Scene(cluster, client, namespace, crowd, journal)
        await scene.wave(crowd.begin)
        await scene.pace()  # the first one is slower: nothing is warm
        paces, blinks = [await scene.pace()], []
        for _ in range(BLINKS):
            blinks.append(await scene.wave(crowd.blink_all))
            paces.append(await scene.pace())
        before = await scene.writes()
        replaced = [await scene.wave(crowd.replace_all) for _ in range(ROUNDS)]
        cost = await scene.writes() - before
        restarts: dict[str, float] = {}

        async def roll() -> None:
            restarts.update(await crowd.roll(lambda: chance.uniform(*RESTART)))

        rolled = await scene.wave(roll)
        members = {member.address for member in driver.listed()}
    seen = Seen(blinks, paces, replaced, beyond(rolled, restarts), cost)
    removed = (f"removed: {each}" for each in removed_from_others(journal.effects))
    return result_of(seen, [*differences(members, crowd.members), *removed])


@attrs.frozen
class Seen:
    """For how long each address was out, in seconds, and what it cost.

    Attributes:
        blinks: for each time that all pods blinked.
        paces: what the API server took for plain requests, before, between and after.
        replaced: for each time that another pod took the place of each at once.
        beyond: by how much it was out longer than the restart of its pod took.
        writes: of the replacements, by verb and resource.
    """

    blinks: Sequence[Mapping[str, float]]
    paces: Sequence[float]
    replaced: Sequence[Mapping[str, float]]
    beyond: Mapping[str, float]
    writes: Mapping[str, int]

    @property
    def blink_beyond(self) -> float:
        """Return for how long the last pod was out beyond its blink, in paces."""
        beyond = [max(wave.values(), default=0.0) - BLINK for wave in self.blinks]
        return statistics.mean(beyond) / statistics.mean(self.paces)

    @property
    def own_writes(self) -> float:
        """Return those of a record whose address is reused, and of its lock.

        One that is refused (the lock is there, and held) costs a request, but writes nothing.
        """
        own = sum(
            n
            for what, n in self.writes.items()
            if what.split()[1] in _OWN and not what.endswith(_REFUSED)
        )
        return own / sum(map(len, self.replaced))


def beyond(
    rolled: Mapping[str, float], restarts: Mapping[str, float]
) -> dict[str, float]:
    """Return for how long each address was out beyond its pod's restart, in seconds."""
    return {address: out - restarts[address] for address, out in rolled.items()}


def result_of(seen: Seen, wrong: Sequence[str]) -> Result:
    """Judge what was seen.

    Args:
        seen: the figures.
        wrong: what must not be, for people.
    """
    blinked = [out for wave in seen.blinks for out in wave.values()]
    replaced = [out for wave in seen.replaced for out in wave.values()]
    over = list(seen.beyond.values())
    told = [*wrong, *_wrong(seen, len(blinked), over)]
    return Result(
        told,
        {
            "blinks": len(blinked),
            "blink_out_s": round(max(blinked, default=0.0), 2),
            "pace_s": round(statistics.mean(seen.paces), 2),
            "blink_beyond_paces": round(seen.blink_beyond, 2),
            "replaced": len(replaced),
            "replaced_out_s": round(max(replaced, default=0.0), 2),
            "restarts": len(over),
            "beyond_restart_s": round(max(over, default=0.0), 2),
            "writes_where_reused": round(seen.own_writes, 2),
            "all_writes_of_these": dict(sorted(seen.writes.items())),
        },
    )


def _wrong(seen: Seen, blinked: int, over: Sequence[float]) -> Iterator[str]:
    """Name what is more than it may be, or was not seen at all."""
    if (blinked, len(over)) != (BLINKS * len(ADDRESSES), len(ADDRESSES)):
        yield f"seen out: {blinked} that blinked, {len(over)} that were restarted"
        return
    if seen.blink_beyond > BLINK_BEYOND:
        yield (
            "pods that were not ready for a second were out beyond it for "
            f"{seen.blink_beyond:.2f} times what {CHAIN} plain requests for each take"
        )
    if max(over) > BEYOND_RESTART:
        yield f"a pod was out for {max(over):.2f} s more than its restart took"
    if seen.own_writes > WRITES:
        yield f"{seen.own_writes:.2f} writes for a record whose address is reused"
