"""Two replicas of each process: how fast the other one goes on.

How long it takes is printed, not asserted: the machine that runs this may be busy.
"""

import asyncio
import signal
import time

from collections import Counter
from functools import partial

import pytest

from lbcf.core.model.values import ObjectKey
from lbcf.kube.leases import LEASES
from tests.e2e import objects
from tests.e2e.stage import Stage


pytestmark = pytest.mark.cluster

WORKERS = ("controller", "deregistrar")


async def _end_leaders(
    stage: Stage,
    how: signal.Signals,
    *,
    elsewhere: bool,
    ready: str = "process.started",
) -> None:
    """Have a second replica of each wait, end the leaders, and print who goes on when.

    Args:
        stage: where they run.
        how: the leaders are ended.
        elsewhere: the second replicas run as in pods of their own.
        ready: what the second replicas say when they are to go on.
    """
    leaders = [stage.processes.pop(name) for name in WORKERS]
    for leader in leaders:
        await stage.until_working(leader)
    for name in WORKERS:
        start = stage.start_elsewhere if elsewhere else stage.start
        standby = await start(name)
        await stage.until_logged(standby, ready)
    began = time.monotonic()
    await asyncio.gather(*(leader.end(how) for leader in leaders))
    for name in WORKERS:
        await stage.until_working(stage.processes[name])
        print(f"{name} took over {time.monotonic() - began:.1f} s after {how.name}")


@pytest.mark.parametrize(
    "how", [signal.SIGTERM, signal.SIGKILL], ids=["clean stop", "kill"]
)
async def test_other_replica_goes_on(stage: Stage, how: signal.Signals) -> None:
    """Both leaders end in the middle: what they had begun and what comes is done."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await _end_leaders(stage, how, elsewhere=False)

    await stage.add_pod("b", "10.0.0.2")
    await stage.delete(objects.PODS, "a")
    await stage.until_registered("10.0.0.2:80")


async def _warnings(stage: Stage) -> Counter[tuple[str, str]]:
    """How often each trouble was told: kind of the object, and reason."""
    told = Counter[tuple[str, str]]()
    for event in await stage.listed(objects.EVENTS):
        if event.body["type"] == "Warning":
            times = (event.body.get("series") or {}).get("count", 1)
            told[event.body["regarding"]["kind"], event.body["reason"]] += times
    return told


async def _is_told(stage: Stage, kind: str, reason: str, times: int) -> bool:
    return (await _warnings(stage))[kind, reason] >= times


@pytest.mark.parametrize(
    "how", [signal.SIGTERM, signal.SIGKILL], ids=["clean stop", "kill"]
)
async def test_trouble_is_told_once_by_all_replicas(
    stage: Stage, how: signal.Signals
) -> None:
    """A reset, and a refusal that goes on: not by the one that waits, nor by a successor."""
    leader = stage.processes.pop("controller")
    await stage.until_working(leader)
    standby = await stage.start("controller")
    await stage.until_logged(standby, "process.started")
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await stage.control("restart", now=True)
    await stage.until_events(
        ("Warning", "LoadBalancerReset"), ("Normal", "MembersPutBack")
    )
    await stage.behave("ensureBackend", "fail", times=1000, msg="the pool is full")
    await stage.add_pod("b", "10.0.0.2")
    await stage.until_events(("Warning", "DriverRefused"))

    await leader.end(how)
    await stage.until_working(standby)
    await stage.add_pod("c", "10.0.0.3")
    # What it tells of this one comes after all that it could tell of the others.
    last = partial(_is_told, stage, "BackendRecord", "DriverRefused", 2)
    await stage.until("the successor tells, too", last)
    assert 0 == await standby.end()  # events are flushed

    told = {("LoadBalancer", "LoadBalancerReset"): 1}
    assert {**told, ("BackendRecord", "DriverRefused"): 2} == await _warnings(stage)


@pytest.mark.nodes
async def test_leader_in_another_pod_is_known_to_be_gone_by_its_port(
    stage: Stage,
) -> None:
    """Where process ids mean nothing, the standby notices that nobody listens any more."""
    await _end_leaders(stage, signal.SIGTERM, elsewhere=True)
    # A port that refuses from the beginning tells nothing: the standby has to have
    # reached the leader before that is killed.
    await _end_leaders(stage, signal.SIGKILL, elsewhere=True, ready="leader.followed")

    for name in WORKERS:
        assert stage.processes[name].events("leader.ended")


async def test_leader_that_starts_again_does_not_wait_for_itself(stage: Stage) -> None:
    """Killed and started in its place: its Lease is taken at the first look."""
    for name in WORKERS:
        leader = stage.processes[name]
        await stage.until_working(leader)
        await leader.end(signal.SIGKILL)
        began = time.monotonic()
        again = await stage.start(name)
        await stage.until_working(again)
        print(f"{name} worked {time.monotonic() - began:.1f} s after its start")
        assert again.events("leader.ended")


async def test_leader_that_loses_its_lease_begins_anew_in_its_process(
    stage: Stage,
) -> None:
    """Somebody else's name in the Lease ends its work, not its container; it pauses at the second."""
    leader = stage.processes["deregistrar"]
    await stage.until_working(leader)
    key = ObjectKey(stage.namespace, "lbcf-deregistrar")
    stolen = {"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 1}}
    await stage.client.patch(LEASES, key, stolen)

    await stage.until_logged(leader, "work.started", 2)
    assert leader.runs
    assert leader.events("leader.lost")
    assert not leader.events("process.paused")

    await stage.client.patch(LEASES, key, stolen)

    await stage.until_logged(leader, "work.started", 3)
    assert leader.runs
    assert leader.events("process.paused")
