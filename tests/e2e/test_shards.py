"""Two shards of each process, with three replicas.

A killed leader, a quiet hand-over, and a load balancer that namespaces of different shards
share.
"""

import contextlib
import signal

from collections import Counter
from collections.abc import AsyncIterator

import pytest

from lbcf.core.model.names import LABEL_DRAINING, SYSTEM_NAMESPACE
from lbcf.core.model.shards import Shard
from lbcf.core.model.values import ObjectKey
from lbcf.kube.kinds import NAMESPACES
from tests.e2e import objects
from tests.e2e.stage import Process, Stage


pytestmark = pytest.mark.cluster

WORKERS = ("controller", "deregistrar")
COUNT = 2


def _names(stem: str) -> list[str]:
    """A namespace for each shard."""
    return [
        next(
            name
            for name in (f"{stem}-{number}" for number in range(1000))
            if Shard(shard, COUNT).has_namespace(name)
        )
        for shard in range(COUNT)
    ]


@contextlib.asynccontextmanager
async def _namespaces(stage: Stage) -> AsyncIterator[list[Stage]]:
    """A stage in a namespace of each shard, all with one driver; they end before it."""
    stages = []
    for name in _names(stage.namespace):
        await stage.client.create(NAMESPACES, "", {"metadata": {"name": name}})
        stage.namespaces.add(name)
        one = Stage(stage.cluster, name, stage.client, stage.folder)
        one.driver_url = stage.driver_url
        stages.append(one)
    try:
        yield stages
    finally:
        await stage.halt()
        for one in stages:
            await one.end()


async def _start(stage: Stage) -> dict[str, list[Process]]:
    """Start three replicas of each process; returns them when both shards are led."""
    started: dict[str, list[Process]] = {}
    for kind in WORKERS:
        replicas = started[kind] = []
        for number in range(COUNT + 1):
            replica = await stage.start(kind, "--shards", str(COUNT))
            stage.processes[f"{kind}-{number}"] = stage.processes.pop(kind)
            replicas.append(replica)

        async def both_led(replicas: list[Process] = replicas) -> bool:
            return set(range(COUNT)) == set(_shards(replicas).values())

        await stage.until(f"each shard of the {kind} is led", both_led)
    return started


def _shards(replicas: list[Process]) -> dict[Process, int]:
    """Who works, and for which shard."""
    return {
        one: one.events("shard.taken")[-1]["shard"]
        for one in replicas
        if one.runs and one.events("work.started")
    }


async def _end_leader(
    stage: Stage, replicas: list[Process], shard: int, how: signal.Signals
) -> None:
    """End the leader of a shard; returns when another one goes on."""
    leader = next(one for one, number in _shards(replicas).items() if number == shard)
    await leader.end(how)

    async def led() -> bool:
        return shard in _shards(replicas).values()

    await stage.until(f"shard {shard} is led again", led)


def _has_lost(replicas: list[Process]) -> bool:
    """Whether one has lost a Lease, on a machine that stood still for longer than that lasts."""
    return any(one.events("leader.lost") for one in replicas)


async def _calls(stage: Stage) -> Counter[tuple[str, str, str]]:
    """How often each backend was called for, by the call."""
    found = Counter[tuple[str, str, str]]()
    for operation in ("ensureBackend", "deregisterBackend"):
        for call in await stage.calls(operation):
            found[operation, call["recordID"], call["backendAddr"]] += 1
    return found


async def test_nothing_is_called_twice_when_each_shard_changes_hands(
    bare: Stage,
) -> None:
    """And what comes and goes afterwards is registered, and ended, by the successors."""
    await bare.start_driver()
    async with _namespaces(bare) as stages:
        replicas = await _start(bare)
        for number, stage in enumerate(stages):
            await stage.setting()
            await stage.until_epoch()
            await stage.add_pod("a", f"10.0.{number}.1")
            await stage.add_pod("b", f"10.0.{number}.2")
        addresses = {f"10.0.{n}.{m}:80" for n in range(COUNT) for m in (1, 2)}
        for number, stage in enumerate(stages):
            own = {f"10.0.{number}.{m}:80" for m in (1, 2)}

            async def registered(stage: Stage = stage, own: set[str] = own) -> bool:
                return await stage.registered() == own

            await bare.until(f"{own} are registered", registered)
        assert addresses == await bare.members()

        for shard in range(COUNT):
            for kind in WORKERS:
                await _end_leader(bare, replicas[kind], shard, signal.SIGTERM)
                fresh = await bare.start(kind, "--shards", str(COUNT))
                bare.processes[f"{kind}-again-{shard}"] = bare.processes.pop(kind)
                replicas[kind].append(fresh)
        for stage in stages:
            await stage.delete(objects.PODS, "a")

        async def settled() -> bool:
            left = {f"10.0.{n}.2:80" for n in range(COUNT)}
            records = [await stage.records() for stage in stages]
            return left == {a for r in records for a in r} == await bare.members()

        await bare.until("the deleted pods are out", settled)

        twice = {call: n for call, n in (await _calls(bare)).items() if n > 1}
        lost = [_has_lost(replicas[kind]) for kind in WORKERS]
        assert {} == twice or any(lost)


async def test_killed_shard_is_taken_over_by_the_standby(bare: Stage) -> None:
    """Its namespace and its records go on; the other shard's leader is the same."""
    await bare.start_driver()
    async with _namespaces(bare) as stages:
        replicas = await _start(bare)
        for number, stage in enumerate(stages):
            await stage.setting()
            await stage.add_pod("a", f"10.1.{number}.1")
        others = {kind: _shards(found) for kind, found in replicas.items()}

        for kind in WORKERS:
            await _end_leader(bare, replicas[kind], 1, signal.SIGKILL)
        for number, stage in enumerate(stages):
            await stage.delete(objects.PODS, "a")
            await stage.add_pod("b", f"10.1.{number}.2")

        async def settled() -> bool:
            wanted = {f"10.1.{number}.2:80" for number in range(COUNT)}
            found = [await stage.registered() for stage in stages]
            return wanted == set.union(*found) == await bare.members()

        await bare.until("what came is in, and what went is out", settled)
        for kind in WORKERS:
            kept = [one for one, shard in others[kind].items() if shard == 0]
            now = [one for one, shard in _shards(replicas[kind]).items() if shard == 0]
            assert kept == now or _has_lost(kept)


async def _share(bare: Stage, stages: list[Stage], name: str) -> None:
    """Create a driver and a load balancer for the namespaces of all shards."""
    driver = objects.a_driver(bare.driver_url)
    driver["metadata"]["name"] = name
    balancer = objects.a_load_balancer(name, name)
    balancer["spec"]["scope"] = [stage.namespace for stage in stages]
    await bare.client.create(objects.DRIVERS, SYSTEM_NAMESPACE, driver)
    await bare.client.create(objects.LOAD_BALANCERS, SYSTEM_NAMESPACE, balancer)


async def test_load_balancer_that_all_share_is_looked_after_by_one_shard(
    bare: Stage,
) -> None:
    """It counts all records, has all put back that it lost, and goes after the last one."""
    await bare.start_driver()
    shared = f"lbcf-{bare.namespace}"
    async with _namespaces(bare) as stages:
        await _start(bare)
        await _share(bare, stages, shared)
        for number, stage in enumerate(stages):
            await stage.create(objects.GROUPS, objects.a_group(lbs=(shared,)))
            await stage.add_pod("a", f"10.2.{number}.1")
        addresses = {f"10.2.{number}.1:80" for number in range(COUNT)}
        key = ObjectKey(SYSTEM_NAMESPACE, shared)

        async def all_in() -> bool:
            found = [await stage.registered() for stage in stages]
            status = (await bare.client.get(objects.LOAD_BALANCERS, key)).status
            return (
                addresses == set.union(*found) == await bare.members()
                and status.get("backends") == COUNT
                and status.get("epoch") == (await bare.control("members"))["epoch"]
            )

        await bare.until("all are in and counted", all_in)
        before = (await bare.control("members"))["epoch"]
        await bare.control("restart", now=True)
        await bare.until("all are back", all_in)
        assert before != (await bare.control("members"))["epoch"]

        await bare.client.delete(objects.LOAD_BALANCERS, key)
        # A policy of the cluster, where it is in place, lets no other driver go.
        draining = {"metadata": {"labels": {LABEL_DRAINING: "true"}}}
        await bare.client.patch(objects.DRIVERS, key, draining)
        await bare.client.delete(objects.DRIVERS, key)

        async def all_gone() -> bool:
            found = await bare.client.list(objects.DRIVERS)
            return shared not in {one.meta.key.name for one in found.objects}

        await bare.until("load balancer and driver are gone", all_gone)
        asked = [c["operation"] for c in (await bare.control("history"))["calls"]]
        deleted = asked.index("deleteLoadBalancer")
        assert COUNT <= asked[:deleted].count("deregisterBackend")
        assert "deregisterBackend" not in asked[deleted:]
        assert set() == await bare.members()
