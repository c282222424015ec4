"""Pods come and go, and so do their members at the load balancer."""

import asyncio

from collections import Counter
from itertools import pairwise

import pytest

from tests.e2e import objects
from tests.e2e.stage import Stage


pytestmark = pytest.mark.cluster


async def test_ready_pods_are_registered_and_deleted_ones_are_not(stage: Stage) -> None:
    """A ready pod is in; an unready one is out; a deleted one leaves no record."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.add_pod("b", "10.0.0.2")
    await stage.add_pod("c", "10.0.0.3", ready=False)
    await stage.until_registered("10.0.0.1:80", "10.0.0.2:80")

    await stage.set_pod("c", "10.0.0.3", ready=True)
    await stage.delete(objects.PODS, "a")

    await stage.until_registered("10.0.0.2:80", "10.0.0.3:80")
    await stage.until("two records are left", lambda: _count(stage, 2))


async def _count(stage: Stage, number: int) -> bool:
    """Whether there are so many records."""
    return len(await stage.listed(objects.RECORDS)) == number


async def test_group_by_name_takes_only_those_named(stage: Stage) -> None:
    """A pod that the list does not name is not registered."""
    pods = {"ports": [{"port": 81}], "byName": ["b"]}
    await stage.create(objects.GROUPS, objects.a_group("named", pods=pods))
    await stage.add_pod("a", "10.0.0.1")
    await stage.add_pod("b", "10.0.0.2")

    await stage.until_registered("10.0.0.1:80", "10.0.0.2:80", "10.0.0.2:81")


async def test_excepted_pod_leaves_and_several_ports_come(stage: Stage) -> None:
    """A group that is edited takes effect on the pods it has."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.add_pod("b", "10.0.0.2")
    await stage.until_registered("10.0.0.1:80", "10.0.0.2:80")

    pods = {
        "ports": [{"port": 80}, {"port": 443}],
        "byLabel": {"selector": {"app": "web"}, "except": ["a"]},
    }
    await stage.patch(objects.GROUPS, "web", {"spec": {"pods": pods}})

    await stage.until_registered("10.0.0.2:80", "10.0.0.2:443")


async def test_several_load_balancers_have_a_record_each(stage: Stage) -> None:
    """One pod at two load balancers is two records; leaving one ends one."""
    await stage.create(objects.LOAD_BALANCERS, objects.a_load_balancer("back"))
    await stage.patch(
        objects.GROUPS, "web", {"spec": {"loadBalancers": ["front", "back"]}}
    )
    await stage.add_pod("a", "10.0.0.1")
    await stage.until("it is in both", lambda: _is_in(stage, "back", "front"))

    await stage.patch(objects.GROUPS, "web", {"spec": {"loadBalancers": ["back"]}})

    await stage.until("one record", lambda: _count(stage, 1))
    assert await _is_in(stage, "back")


async def _is_in(stage: Stage, *load_balancers: str) -> bool:
    """Whether just these load balancers have a member each."""
    members = (await stage.control("members"))["members"]
    return list(load_balancers) == sorted(m["lbInfo"]["name"] for m in members)


async def test_changed_parameters_are_ensured_and_nothing_is_deregistered(
    stage: Stage,
) -> None:
    """Parameters reach the member under the record it already has."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    [before] = await stage.listed(objects.RECORDS)

    await stage.patch(objects.GROUPS, "web", {"spec": {"parameters": {"weight": "7"}}})

    async def weighted() -> bool:
        members = (await stage.control("members"))["members"]
        return [{"weight": "7"}] == [m["parameters"] for m in members]

    await stage.until("the weight has arrived", weighted)
    [after] = await stage.listed(objects.RECORDS)
    assert before.meta.uid == after.meta.uid
    assert [] == await stage.calls("deregisterBackend")


async def test_drain_waits_for_the_last_session(stage: Stage) -> None:
    """A member with sessions drains until they end, and is deregistered as drained."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await stage.control("sessions", backendAddr="10.0.0.1:80", sessions=3)
    await stage.terminate_pod("a")

    record = await stage.until_reason("Drained", "Draining")
    assert 3 == record.body["status"]["drain"]["activeConnections"]
    assert [] == await stage.calls("deregisterBackend")

    await stage.control("sessions", backendAddr="10.0.0.1:80", sessions=0)
    await stage.until("the record is gone", lambda: _count(stage, 0))
    assert [True] == [c["drained"] for c in await stage.calls("deregisterBackend")]
    assert 0 == (await stage.control("members"))["cut"]


async def test_drain_ends_at_its_deadline(stage: Stage) -> None:
    """Sessions that never end are given up at the deadline, and the driver knows."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    drain = {"timeoutSeconds": 2}
    await stage.patch(objects.GROUPS, "web", {"spec": {"drain": drain}})

    async def limited() -> bool:
        [record] = await stage.listed(objects.RECORDS)
        registered = record.condition("Registered")["observedGeneration"]
        return (drain, record.meta.generation) == (
            record.body["spec"].get("drain"),
            registered,
        )

    await stage.until("the record has the deadline", limited)
    await stage.control("sessions", backendAddr="10.0.0.1:80", sessions=3)

    await stage.terminate_pod("a")

    await stage.until("the record is gone", lambda: _count(stage, 0))
    assert [False] == [c["drained"] for c in await stage.calls("deregisterBackend")]
    await stage.until_events(("Warning", "DrainsCut"))
    [note] = [
        event.body["note"]
        for event in await stage.listed(objects.EVENTS)
        if event.body["reason"] == "DrainsCut"
    ]
    assert (
        "1 drain was cut at the deadline, with 3 connections left: a:80 at front (3)"
        == note
    )


async def test_returning_pod_is_back_before_its_drain_ends(stage: Stage) -> None:
    """A pod that flaps gets a record beside the one that is being drained."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await stage.control("sessions", backendAddr="10.0.0.1:80", sessions=1)
    await stage.set_pod("a", "10.0.0.1", ready=False)
    draining = await stage.until_reason("Drained", "Draining")

    await stage.set_pod("a", "10.0.0.1", ready=True)

    async def back() -> bool:
        records = await stage.listed(objects.RECORDS)
        return any(
            r.meta.uid != draining.meta.uid
            and r.condition("Registered").get("status") == "True"
            for r in records
        )

    await stage.until("another record is registered", back)
    states = [m["state"] for m in (await stage.control("members"))["members"]]
    assert ["Active", "Draining"] == sorted(states)


async def test_lost_members_are_put_back(bare: Stage) -> None:
    """A load balancer with a new epoch gets every member again."""
    await bare.start_driver()
    await bare.start("controller", "--list-backends-period", "0.2", "--no-leader-elect")
    await bare.setting()
    # Members on their way in when the first epoch is read may be ensured twice.
    await bare.until_epoch()
    for number in range(5):
        await bare.add_pod(f"p{number}", f"10.0.0.{number}")
    wanted = [f"10.0.0.{number}:80" for number in range(5)]
    await bare.until_registered(*wanted)

    await bare.control("restart", now=True)

    await bare.until_registered(*wanted)
    assert 10 == len(await bare.calls("ensureBackend"))
    told = await bare.until("it is told", lambda: _restored(bare))
    assert "5 of 5 members that were lost are registered again" in told
    await bare.until_events(
        ("Warning", "LoadBalancerReset"), ("Normal", "MembersPutBack")
    )


async def _restored(stage: Stage) -> str:
    """The message of the load balancer's condition, once all members are back."""
    found = await stage.get(objects.LOAD_BALANCERS, "front")
    assert found is not None
    said = found.condition("Restored")
    return str(said["message"]) if said.get("status") == "True" else ""


async def test_deleted_group_takes_its_members_along(stage: Stage) -> None:
    """The group's end is its records' end, and then the load balancer may go."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")

    await stage.delete(objects.LOAD_BALANCERS, "front")
    await stage.until_registered()
    await stage.delete(objects.GROUPS, "web")

    async def gone() -> bool:
        return await stage.get(objects.LOAD_BALANCERS, "front") is None

    await stage.until("the load balancer is gone", gone)
    assert ["Succ"] == [c["outcome"] for c in await stage.calls("deleteLoadBalancer")]


async def test_static_addresses_are_registered(stage: Stage) -> None:
    """Addresses that the user gives are members like any other."""
    body = objects.a_group("fixed")
    body["spec"] = {
        "loadBalancers": ["front"],
        "static": ["10.9.0.1:80", "10.9.0.2:80"],
    }
    await stage.create(objects.GROUPS, body)
    await stage.until_registered("10.9.0.1:80", "10.9.0.2:80")

    await stage.patch(objects.GROUPS, "fixed", {"spec": {"static": ["10.9.0.2:80"]}})

    await stage.until_registered("10.9.0.2:80")


async def test_status_of_a_group_counts(stage: Stage) -> None:
    """Selected pods, registered ones, and an event on the group."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.add_pod("b", "10.0.0.2", ready=False)

    async def counted() -> bool:
        group = await stage.get(objects.GROUPS, "web")
        assert group is not None
        status = group.status
        return (2, 1) == (status.get("backends"), status.get("registeredBackends"))

    async def noted() -> list[str]:
        return [event.body["note"] for event in await stage.listed(objects.EVENTS)]

    await stage.until("two selected, one registered", counted)
    notes = await stage.until("an event tells of it", noted)
    assert ["1 backend registered: a:80"] == notes


async def test_api_writes_per_lifecycle(bare: Stage) -> None:
    """With idle drains a lifecycle costs four writes.

    What is told of the group and its load balancer comes by the clock, a write per five
    seconds at most: it is printed, and not compared. The driver has LBCF's time-outs, so
    that a busy machine makes no call look lost.
    """
    stage = bare
    await stage.start_driver()
    for process in ("controller", "deregistrar"):
        await stage.start(process, "--no-leader-elect")
    await stage.setting(webhooks=[{"name": "drainBackend", "timeout": "10s"}])
    lifecycles = 200
    names = [f"p{number}" for number in range(lifecycles)]
    await asyncio.gather(
        *(stage.add_pod(name, f"10.0.1.{i}") for i, name in enumerate(names))
    )
    await stage.until_registered(*(f"10.0.1.{i}:80" for i in range(lifecycles)))
    await asyncio.gather(*(stage.delete(objects.PODS, name) for name in names))
    await stage.until("all records are gone", lambda: _count(stage, 0))

    # All that they have asked is in the audit log once they have had the answers.
    for process in ("controller", "deregistrar"):
        await stage.processes[process].end()
    writes = [
        event
        for process in ("controller", "deregistrar")
        for event in stage.cluster.audit(stage.user(process))
        if event.is_write and event.resource != "leases"
    ]

    kinds = Counter(f"{w.verb} {w.resource} {w.code}" for w in writes)
    own = [write for write in writes if write.resource.startswith("backendrecords")]
    print(
        f"API writes per lifecycle: {len(own) / lifecycles:.2f} for its record, "
        f"{len(writes) / lifecycles:.2f} with those for the group"
    )
    assert 4 <= len(own) / lifecycles <= 4.1, kinds


async def test_load_balancer_that_bears_one_call_gets_one_at_a_time(
    bare: Stage,
) -> None:
    """MaxConcurrentCalls of a load balancer holds for all its members together."""
    await bare.start_driver()
    await bare.start("controller")
    await bare.create(objects.DRIVERS, objects.a_driver(bare.driver_url))
    alone = objects.a_load_balancer()
    alone["spec"]["maxConcurrentCalls"] = 1
    await bare.create(objects.LOAD_BALANCERS, alone)
    await bare.behave("ensureBackend", "slow", times=5, seconds=0.2)
    for number in range(5):
        await bare.add_pod(f"p{number}", f"10.0.0.{number}")
    await bare.create(objects.GROUPS, objects.a_group())

    await bare.until_registered(*(f"10.0.0.{n}:80" for n in range(5)))

    calls = sorted(await bare.calls("ensureBackend"), key=lambda call: call["began"])
    assert all(a["ended"] <= b["began"] for a, b in pairwise(calls))
