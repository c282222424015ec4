"""Binds on the real API server: load balancers and a group in one, all their life."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.e2e import objects
from tests.e2e.objects import Whole
from tests.e2e.stage import Stage


pytestmark = pytest.mark.cluster


@pytest.fixture(name="running")
async def _running(bare: Stage) -> Stage:
    """Driver, controller and deregistrar running; nothing to balance yet."""
    await bare.start_driver()
    await bare.start("controller")
    await bare.start("deregistrar")
    await bare.create(objects.DRIVERS, objects.a_driver(bare.driver_url))
    return bare


def _statuses(bind: Whole | None) -> dict[str, dict[str, Any]]:
    """The load balancers of a Bind's status, by name."""
    listed = bind.status.get("loadBalancerStatuses") if bind else None
    return {status["name"]: status for status in listed or ()}


def _condition(status: dict[str, Any], kind: str) -> tuple[str, str]:
    """Status and reason of a load balancer's condition."""
    found = {c["type"]: c for c in status.get("conditions", [])}.get(kind, {})
    return found.get("status", ""), found.get("reason", "")


async def _ready(stage: Stage, *names: str) -> bool:
    """Whether exactly these load balancers are there, and ready."""
    found = _statuses(await stage.get(objects.BINDS, "both"))
    return set(names) == found.keys() and all(
        _condition(status, "Ready")[0] == "True" for status in found.values()
    )


async def _asked(stage: Stage) -> list[str]:
    """The operations on load balancers and members that were called, in order."""
    calls = (await stage.control("history"))["calls"]
    return [c["operation"] for c in calls if c["operation"] != "listBackends"]


async def test_whole_life(running: Stage) -> None:
    """Load balancers are created, pods registered; all of it ends with the Bind."""
    front, back = objects.an_entry("front", timeout="30"), objects.an_entry("back")
    often = {"policy": "Always", "resyncPeriodInSeconds": 10}
    body = objects.a_bind("both", front, back, ensurePolicy=often)
    await running.create(objects.BINDS, body)
    await running.add_pod("a", "10.0.0.1")
    await running.until("both are ready", lambda: _ready(running, "front", "back"))

    async def four() -> bool:
        members = (await running.control("members"))["members"]
        return 4 == len(members)

    await running.add_pod("b", "10.0.0.2")
    await running.until("each pod is at each load balancer", four)
    bind = await running.get(objects.BINDS, "both")
    assert bind is not None
    status = _statuses(bind)["front"]
    assert {"name": "front"} == status["lbInfo"]
    assert {"timeout": "30"} == status["lastSyncedAttributes"]
    assert ("True", "Created") == _condition(status, "Created")
    records = await running.listed(objects.RECORDS)
    for record in records:
        _has_the_labels_of_v1(record, bind)
        period = {"policy": "Always", "minPeriod": "10s"}
        assert period == record.body["spec"]["ensurePolicy"]

    await running.delete(objects.BINDS, "both")
    await running.until("the Bind is gone", lambda: _gone(running))
    assert [] == (await running.control("members"))["members"]
    asked = await _asked(running)
    assert 2 == asked.count("deleteLoadBalancer")
    assert 2 == asked.count("createLoadBalancer")
    for name in ("front", "back"):
        await _ended_last(running, f"{bind.meta.uid}-{name}", _on(records, name))


def _on(records: Iterable[Whole], load_balancer: str) -> set[str]:
    """The uids of the records of a load balancer."""
    return {
        record.meta.uid
        for record in records
        if record.body["spec"]["lbName"] == load_balancer
    }


async def _ended_last(stage: Stage, load_balancer: str, records: set[str]) -> None:
    """A load balancer was deleted when its own members were out; others may be in."""
    calls = (await stage.control("history"))["calls"]
    ends = [c for c in calls if c["recordID"] in {load_balancer, *records}]
    operations = [c["operation"] for c in ends]
    assert 2 == len(records)
    assert records == {
        c["recordID"] for c in ends if c["operation"] == "deregisterBackend"
    }
    assert "deleteLoadBalancer" == operations[-1]


def _has_the_labels_of_v1(record: Whole, bind: Whole) -> None:
    """A record says by LBCF's labels of v1 whose it is, and belongs to the Bind."""
    spec, labels = record.body["spec"], record.body["metadata"]["labels"]
    assert {
        "lbcf.tkestack.io/bind": "both",
        "lbcf.tkestack.io/lb": spec["lbName"],
        "lbcf.tkestack.io/driver": "memory",
        "lbcf.tkestack.io/pod": spec["podBackend"]["name"],
        "lbcf.tkestack.io/backend-pod-uid": spec["podBackend"]["uid"],
    } == labels
    [owner] = record.body["metadata"]["ownerReferences"]
    assert ("lbcf.tkestack.io/v1", "Bind", bind.meta.uid, True) == (
        owner["apiVersion"],
        owner["kind"],
        owner["uid"],
        owner["controller"],
    )
    assert record.meta.key.name.startswith("both-")


async def _gone(stage: Stage) -> bool:
    """Whether neither a Bind nor a record is left."""
    left = [*await stage.listed(objects.BINDS), *await stage.listed(objects.RECORDS)]
    return not left


async def test_entry_taken_out_is_emptied_then_deleted(running: Stage) -> None:
    """Its sessions end first, the other load balancer notices nothing; then a new one."""
    front, back = objects.an_entry("front"), objects.an_entry("back")
    await running.create(objects.BINDS, objects.a_bind("both", front, back))
    await running.add_pod("a", "10.0.0.1")
    await running.until("both are ready", lambda: _ready(running, "front", "back"))
    await running.until("two members", lambda: _count(running, "front", "back"))
    record = next(
        r
        for r in await running.listed(objects.RECORDS)
        if r.body["spec"]["lbName"] == "back"
    )
    await running.control("sessions", recordID=record.meta.uid, sessions=2)

    await running.patch(objects.BINDS, "both", {"spec": {"loadBalancers": [front]}})

    leaving = await running.until_reason("Drained", "Draining")
    assert record.meta.uid == leaving.meta.uid

    async def waits() -> bool:
        status = _statuses(await running.get(objects.BINDS, "both"))["back"]
        told = ("False", "InUse") == _condition(status, "Ready")
        return told and bool(status["deletionTimestamp"])

    await running.until("its load balancer waits", waits)
    assert [] == await running.calls("deleteLoadBalancer")

    await running.control("sessions", recordID=record.meta.uid, sessions=0)
    await running.until("it is gone", lambda: _ready(running, "front"))
    assert await _count(running, "front")
    asked = await _asked(running)
    assert asked.index("deregisterBackend") < asked.index("deleteLoadBalancer")

    third = objects.an_entry("third")
    spec = {"loadBalancers": [front, third]}
    await running.patch(objects.BINDS, "both", {"spec": spec})
    await running.until("a third is ready", lambda: _ready(running, "front", "third"))
    await running.until("two members", lambda: _count(running, "front", "third"))


async def _count(stage: Stage, *names: str) -> bool:
    """Whether exactly these load balancers have a member."""
    members = (await stage.control("members"))["members"]
    return sorted(names) == sorted(m["lbInfo"]["name"] for m in members)


async def test_changed_attributes_are_ensured(running: Stage) -> None:
    """They reach the driver, and a driver's Fail is told until it succeeds."""
    bind = objects.a_bind("both", objects.an_entry("front", timeout="30"))
    await running.create(objects.BINDS, bind)
    await running.until("it is ready", lambda: _ready(running, "front"))
    await running.behave("ensureLoadBalancer", "fail", times=1000, msg="quota")

    changed = [objects.an_entry("front", timeout="60")]
    await running.patch(objects.BINDS, "both", {"spec": {"loadBalancers": changed}})

    async def failed() -> dict[str, Any]:
        status = _statuses(await running.get(objects.BINDS, "both"))["front"]
        told = ("False", "EnsureFailed") == _condition(status, "Ready")
        return status if told else {}

    async def synced() -> bool:
        status = _statuses(await running.get(objects.BINDS, "both"))["front"]
        return bool(status["lastSyncedAttributes"] == {"timeout": "60"})

    status = await running.until("the failure is told", failed)
    assert status["retryAfter"]
    await running.behave_well("ensureLoadBalancer")
    await running.until("the attributes are synced", synced)
    await running.until("it is ready", lambda: _ready(running, "front"))
    assert 1 == len(await running.calls("createLoadBalancer"))


async def test_missing_driver_is_told_and_found(bare: Stage) -> None:
    """Nothing is created without one; when it comes, all goes on by itself."""
    await bare.start_driver()
    await bare.start("controller")
    await bare.create(objects.BINDS, objects.a_bind())

    async def told() -> bool:
        status = _statuses(await bare.get(objects.BINDS, "both")).get("front", {})
        return ("False", "DriverNotFound") == _condition(status, "Created")

    await bare.until("the missing driver is told", told)
    await bare.create(objects.DRIVERS, objects.a_driver(bare.driver_url))
    await bare.until("it is ready", lambda: _ready(bare, "front"))


async def test_group_of_the_same_name_is_another_one(running: Stage) -> None:
    """A Bind and a BackendGroup, each with a load balancer `front`: two worlds."""
    await running.create(objects.LOAD_BALANCERS, objects.a_load_balancer())
    await running.create(objects.GROUPS, objects.a_group("both"))
    await running.create(objects.BINDS, objects.a_bind())
    await running.add_pod("a", "10.0.0.1")
    await running.until("two members", lambda: _count(running, "front", "front"))

    await running.delete(objects.GROUPS, "both")
    await running.delete(objects.LOAD_BALANCERS, "front")

    async def one_left() -> bool:
        left = await running.listed(objects.LOAD_BALANCERS)
        return not left and await _count(running, "front")

    await running.until("the group's part is gone, the Bind's is not", one_left)
    [record] = await running.listed(objects.RECORDS)
    assert "Bind" == record.body["metadata"]["ownerReferences"][0]["kind"]


async def test_reset_load_balancer_gets_its_members_back(running: Stage) -> None:
    """The epoch of a Bind's load balancer is kept with it."""
    await running.create(objects.BINDS, objects.a_bind())
    await running.until_epoch()
    await running.add_pod("a", "10.0.0.1")
    await running.until_registered("10.0.0.1:80")

    await running.control("restart", now=True)

    async def again() -> bool:
        return 2 == len(await running.calls("ensureBackend"))

    await running.until("it is ensured again", again)
    await running.until_registered("10.0.0.1:80")
    await running.until_events(
        ("Warning", "LoadBalancerReset"), ("Normal", "MembersPutBack")
    )


async def test_killed_controller_goes_on(running: Stage) -> None:
    """What it had learnt is in the status; nothing is created twice."""
    await running.create(objects.BINDS, objects.a_bind())
    await running.add_pod("a", "10.0.0.1")
    await running.until_registered("10.0.0.1:80")
    await running.until("it is ready", lambda: _ready(running, "front"))

    await running.processes["controller"].end()
    await running.delete(objects.BINDS, "both")
    await running.processes["controller"].start()

    await running.until("the Bind is gone", lambda: _gone(running))
    assert 1 == len(await running.calls("createLoadBalancer"))
    assert 1 == len(await running.calls("deleteLoadBalancer"))
