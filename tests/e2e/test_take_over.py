"""A cluster in which LBCF in Go has worked is taken over: nobody's traffic notices."""

from typing import Any

import pytest

from tests.e2e import objects
from tests.e2e.lbcf_in_go import (
    bind_record,
    bind_status,
    leave_record,
    leave_setting,
    pod_record,
    static_record,
)
from tests.e2e.objects import Whole
from tests.e2e.stage import Stage
from tests.lab.cluster import AuditEvent


pytestmark = pytest.mark.cluster

PLAIN = {"memberKey": "Address", "addressSource": "Driver"}
"""A driver that knows only LBCF's protocol."""
FIRST, SECOND, THIRD = "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"


async def _start(stage: Stage) -> None:
    """Start what takes over."""
    await stage.start("deregistrar")
    await stage.start("controller")


async def _counted(stage: Stage, group: str, number: int) -> bool:
    """Whether a group is reconciled and counts so many registered backends."""
    found = await stage.get(objects.GROUPS, group)
    assert found is not None
    registered = found.status.get("registeredBackends")
    return found.condition("Ready").get("status") == "True" and registered == number


async def _about_members(stage: Stage) -> list[dict[str, Any]]:
    """The calls that change members."""
    return [
        *await stage.calls("ensureBackend"),
        *await stage.calls("deregisterBackend"),
    ]


def _written(stage: Stage, resource: str) -> list[AuditEvent]:
    """What both processes have written of a kind."""
    users = (stage.user("controller"), stage.user("deregistrar"))
    events = [event for user in users for event in stage.cluster.audit(user)]
    return [e for e in events if e.is_write and e.resource == resource]


@pytest.mark.parametrize("member_key", ["Record", "Address"])
async def test_take_over_touches_nothing_and_lives_on(
    bare: Stage, member_key: str
) -> None:
    """No record written, no member asked for; then a rollout, an edit and the end."""
    await bare.start_driver(member_key)
    source = "Backend" if member_key == "Record" else "Driver"
    group = await leave_setting(bare, memberKey=member_key, addressSource=source)
    for name, address in (("a", "10.0.0.1"), ("b", "10.0.0.2")):
        pod = await bare.add_pod(name, address)
        await leave_record(bare, pod_record(group, pod), f"{address}:80", "True")
    before = {r.meta.uid: r for r in await bare.listed(objects.RECORDS)}
    left = await _about_members(bare)

    await _start(bare)
    await bare.until("the group counts both", lambda: _counted(bare, "web", 2))

    holders = {f"{r.meta.key}/{r.meta.uid}" for r in before.values()}
    wanted = holders if member_key == "Address" else set()

    async def are_locked() -> bool:
        return wanted == await _lock_holders(bare)

    # A record's turn takes its lock, and the group counts it whether it had that or not.
    await bare.until("the addresses are locked", are_locked)
    assert left == await _about_members(bare)
    assert before == {r.meta.uid: r for r in await bare.listed(objects.RECORDS)}
    assert [] == _written(bare, "backendrecords")

    await bare.add_pod("c", "10.0.0.3")
    await bare.delete(objects.PODS, "a")
    await bare.until_registered(SECOND, THIRD)
    await bare.patch(objects.GROUPS, "web", {"spec": {"parameters": {"weight": "7"}}})
    await bare.until("the weight arrives", lambda: _weigh(bare, "7"))
    kept = (await bare.records())[SECOND]
    assert kept.meta.uid in before
    assert 7 == int(kept.body["spec"]["parameters"]["weight"])

    await bare.delete(objects.GROUPS, "web")
    await bare.until("no record is left", lambda: _gone(bare))
    assert set() == await bare.members()


async def _lock_holders(stage: Stage) -> set[str]:
    """Who holds locks on addresses."""
    leases = await stage.listed(objects.LEASES)
    return {
        lease.body["spec"]["holderIdentity"]
        for lease in leases
        if lease.meta.key.name.startswith("addr-")
    }


async def _weigh(stage: Stage, weight: str) -> bool:
    """Whether all members have a weight."""
    members = (await stage.control("members"))["members"]
    return all(m["parameters"] == {"weight": weight} for m in members)


async def _gone(stage: Stage) -> bool:
    """Whether no record is left."""
    return not await stage.listed(objects.RECORDS)


async def test_half_done_records_go_on(bare: Stage) -> None:
    """Without an address, with one but no answer, and after a failure: all get in."""
    await bare.start_driver("Address")
    group = await leave_setting(bare, **PLAIN)
    left: list[Whole] = []
    for name, address, registered in (
        ("a", "", ""),
        ("b", SECOND, ""),
        ("c", THIRD, "False"),
    ):
        pod = await bare.add_pod(name, f"10.0.0.{'abc'.index(name) + 1}")
        left.append(await leave_record(bare, pod_record(group, pod), address))
        if registered:
            body = {"status": {"conditions": [a_failure()]}}
            key = left[-1].meta.key.name
            left[-1] = await bare.patch(objects.RECORDS, key, body, "status")

    await _start(bare)

    await bare.until_registered(FIRST, SECOND, THIRD)
    records = await bare.listed(objects.RECORDS)
    assert {r.meta.uid for r in left} == {r.meta.uid for r in records}
    assert {f"{r.meta.key}/{r.meta.uid}" for r in left} == await _lock_holders(bare)


async def test_static_addresses_are_kept(bare: Stage) -> None:
    """A group of addresses is taken over as one of pods is."""
    await bare.start_driver("Address")
    await leave_setting(bare, **PLAIN)
    spec = {"loadBalancers": ["front"], "static": [FIRST, SECOND]}
    body = {"metadata": {"name": "fixed"}, "spec": spec}
    group = await bare.create(objects.GROUPS, body)
    for address in (FIRST, SECOND):
        await leave_record(bare, static_record(group, address), address, "True")
    left = await _about_members(bare)

    await _start(bare)
    await bare.until("the group counts both", lambda: _counted(bare, "fixed", 2))
    assert left == await _about_members(bare)
    assert [] == _written(bare, "backendrecords")

    await bare.patch(objects.GROUPS, "fixed", {"spec": {"static": [SECOND]}})
    await bare.until_registered(SECOND)


async def test_bind_is_kept(bare: Stage) -> None:
    """Its load balancer is neither created nor ensured again, its pods stay in."""
    await bare.start_driver("Address")
    driver = objects.a_driver(bare.driver_url, **PLAIN)
    await bare.create(objects.DRIVERS, driver)
    bind = objects.a_bind("web")
    bind["metadata"]["finalizers"] = ["lbcf.tkestack.io/delete-load-loadbalancer"]
    made = await bare.create(objects.BINDS, bind)
    await bare.patch(objects.BINDS, "web", bind_status(), "status")
    for name, address in (("a", "10.0.0.1"), ("b", "10.0.0.2")):
        pod = await bare.add_pod(name, address)
        body = bind_record(made, pod, address)
        await leave_record(bare, body, f"{address}:80", "True")
    left = (await bare.control("history"))["calls"]

    await _start(bare)

    async def counted() -> bool:
        found = await bare.get(objects.BINDS, "web")
        assert found is not None
        return 2 == found.status.get("registeredBackends")

    await bare.until("the Bind counts both", counted)
    calls = (await bare.control("history"))["calls"]
    assert left == [c for c in calls if c["operation"] != "listBackends"]
    assert [] == _written(bare, "backendrecords")

    await bare.delete(objects.BINDS, "web")
    await bare.until("no record is left", lambda: _gone(bare))
    await bare.until("no Bind is left", lambda: _bindless(bare))
    assert set() == await bare.members()


async def _bindless(stage: Stage) -> bool:
    """Whether no Bind is left."""
    return not await stage.listed(objects.BINDS)


async def test_reused_address_waits_for_what_lbcf_left_on_its_way_out(
    bare: Stage,
) -> None:
    """A record that LBCF was still ending keeps its address until it is gone."""
    await bare.start_driver("Address")
    group = await leave_setting(bare, **PLAIN)
    pod = await bare.add_pod("a", "10.0.0.1")
    old = await leave_record(bare, pod_record(group, pod), FIRST, "True")
    await bare.delete(objects.RECORDS, old.meta.key.name)
    await bare.delete(objects.PODS, "a")
    await bare.add_pod("b", "10.0.0.1")

    await bare.start("controller")
    waiting = await bare.until_reason("Registered", "AddressInUse")
    assert old.meta.key.name in waiting.condition("Registered")["message"]
    await bare.start("deregistrar")

    async def alone() -> bool:
        return [waiting.meta.uid] == [
            r.meta.uid for r in await bare.listed(objects.RECORDS)
        ]

    await bare.until("the old record is gone", alone)
    await bare.until_registered(FIRST)
    calls = (await bare.control("history"))["calls"]
    asked = [c["operation"] for c in calls if c["operation"].endswith("gisterBackend")]
    assert ["deregisterBackend", "deregisterBackend"] == asked
    assert "ensureBackend" == calls[-1]["operation"]


def a_failure() -> dict[str, Any]:
    """What LBCF writes when a driver answers Fail."""
    return {
        "type": "Registered",
        "status": "False",
        "reason": "OperationFailed",
        "message": "quota",
        "lastTransitionTime": "2021-03-04T05:06:07Z",
    }
