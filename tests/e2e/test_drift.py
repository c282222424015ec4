"""Members that somebody takes out by hand are reported, and left out."""

import signal
import uuid

from functools import partial
from typing import Any

import aiohttp
import pytest

from lbcf.core.model.names import ANNOTATION_REMOVE_ORPHANS, API_GROUP
from tests.e2e import objects
from tests.e2e.asking import ask
from tests.e2e.objects import Whole
from tests.e2e.stage import Stage


pytestmark = pytest.mark.cluster


async def _take_out(stage: Stage, record: Whole) -> None:
    """Do what a person at the load balancer's console does."""
    spec = record.body["spec"]
    body: dict[str, Any] = {
        "recordID": record.meta.uid,
        "lbInfo": spec["lbInfo"],
        "backendAddr": spec["backendAddr"],
    }
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{stage.driver_url}/deregisterBackend", json=body) as answer,
    ):
        assert "Succ" == (await answer.json(content_type=None))["status"]


async def _drifted(stage: Stage, reason: str) -> str | None:
    """The message of the load balancer's condition if it has this reason."""
    found = await stage.get(objects.LOAD_BALANCERS, "front")
    assert found is not None
    condition = found.condition("Drifted")
    return str(condition["message"]) if condition.get("reason") == reason else None


async def test_member_taken_out_by_hand_stays_out_and_is_named(stage: Stage) -> None:
    """Whoever did it is respected; a change of its parameters puts it back."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.add_pod("b", "10.0.0.2")
    await stage.until_registered("10.0.0.1:80", "10.0.0.2:80")
    record = (await stage.records())["10.0.0.1:80"]
    ensured = len(await stage.calls("ensureBackend"))

    await _take_out(stage, record)

    told = await stage.until("it is told", partial(_drifted, stage, "MembersMissing"))
    assert told is not None
    assert "1 registered members are not there" in told
    assert f"10.0.0.1:80 of {record.meta.key}" in told
    assert {"10.0.0.2:80"} == await stage.members()
    assert ensured == len(await stage.calls("ensureBackend"))

    await stage.patch(objects.GROUPS, "web", {"spec": {"parameters": {"weight": "2"}}})
    await stage.until_registered("10.0.0.1:80", "10.0.0.2:80")
    await stage.until("it is in step again", partial(_drifted, stage, "InStep"))
    await stage.until_events(("Warning", "MembersMissing"), ("Normal", "InStep"))


async def test_member_taken_out_by_hand_comes_back_under_always(stage: Stage) -> None:
    """With the next period, and without a write: its record says what it said."""
    often = {"policy": "Always", "resyncPeriodInSeconds": 10}
    await stage.create(objects.BINDS, objects.a_bind("both", ensurePolicy=often))
    await stage.until_epoch()
    await stage.add_pod("a", "10.0.0.1")

    async def twice() -> bool:
        return 2 == len((await stage.control("members"))["members"])

    await stage.until("the pod is in for the group and for the Bind", twice)
    record = await stage.until("both are registered", partial(_of_bind, stage))
    assert record is not None

    ensured = len(await stage.calls("ensureBackend"))
    await _take_out(stage, record)
    assert not await twice() or ensured < len(await stage.calls("ensureBackend"))

    await stage.until("it is put back", twice)
    after = await _of_bind(stage)
    assert after is not None
    assert record.meta.resource_version == after.meta.resource_version


async def _of_bind(stage: Stage) -> Whole | None:
    """The record of the Bind, once it and the group's are registered."""
    records = await stage.listed(objects.RECORDS)
    done = [r for r in records if r.condition("Registered").get("status") == "True"]
    found = [
        r for r in done if r.body["metadata"]["ownerReferences"][0]["kind"] == "Bind"
    ]
    return found[0] if len(done) == 2 and found else None


async def _orphaned(stage: Stage, reason: str) -> str:
    """The message of the load balancer's condition if it has this reason."""
    found = await stage.get(objects.LOAD_BALANCERS, "front")
    assert found is not None
    said = found.condition("Orphaned")
    return str(said["message"]) if said.get("reason") == reason else ""


async def _abandon(stage: Stage, pod: str, address: str) -> Whole:
    """Let a pod's record go without its driver; returns the record."""
    record = (await stage.records())[address]
    why = {"metadata": {"annotations": {f"{API_GROUP}/abandon": "a test"}}}
    await stage.patch(objects.RECORDS, record.meta.key.name, why)
    await stage.terminate_pod(pod)
    return record


async def test_member_of_an_abandoned_record_is_named(stage: Stage) -> None:
    """As long as it is there: nobody else would look for it."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    record = await _abandon(stage, "a", "10.0.0.1:80")

    told = await stage.until("it is told", partial(_orphaned, stage, "MembersOrphaned"))
    assert "1 member belongs to no record of this cluster" in told
    assert f"10.0.0.1:80 of {record.meta.uid}" in told
    assert {"10.0.0.1:80"} == await stage.members()

    await _take_out(stage, record)

    await stage.until("it is over", partial(_orphaned, stage, "NoOrphans"))
    await stage.until_events(("Warning", "MembersOrphaned"), ("Normal", "NoOrphans"))


async def _registered_elsewhere(stage: Stage, address: str, record_id: str) -> None:
    """Register a member as another cluster with the same load balancer does."""
    body = {
        "recordID": record_id,
        "lbInfo": {"name": "front"},
        "backendAddr": address,
    }
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{stage.driver_url}/ensureBackend", json=body) as answer,
    ):
        assert "Succ" == (await answer.json(content_type=None))["status"]


async def test_orphans_that_are_confirmed_are_taken_out(stage: Stage) -> None:
    """They alone, whatever becomes of the deregistrar meanwhile."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.add_pod("b", "10.0.0.2")
    await stage.until_registered("10.0.0.1:80", "10.0.0.2:80")
    record = await _abandon(stage, "a", "10.0.0.1:80")
    await stage.until("it is told", partial(_orphaned, stage, "MembersOrphaned"))
    # Nobody heeds the order before the next one runs; others are orphaned by then.
    await stage.processes["deregistrar"].end(signal.SIGKILL)
    refused = await ask(stage, "remove-orphans", "lb/front")
    assert (2, "lbcf ctl: nobody is here to confirm it: pass --yes\n") == (
        refused.status,
        refused.err,
    )
    given = await ask(stage, "remove-orphans", "lb/front", "--yes", "-o", "json")
    named = [{"address": "10.0.0.1:80", "record": record.meta.uid}]
    assert (0, named) == (given.status, given.report["left"])
    await _registered_elsewhere(stage, "10.0.0.9:80", str(uuid.uuid4()))

    await stage.start("deregistrar")

    async def is_out() -> bool:
        return {"10.0.0.2:80", "10.0.0.9:80"} == await stage.members()

    await stage.until("exactly the one that was named is out", is_out)
    await stage.until_events(("Normal", "OrphansRemoved"))
    deregistered = await stage.calls("deregisterBackend")
    assert [record.meta.uid] == [call["recordID"] for call in deregistered]

    async def other_is_told() -> bool:
        return "10.0.0.9:80" in await _orphaned(stage, "MembersOrphaned")

    await stage.until("the other one is told", other_is_told)
    done = await ask(stage, "remove-orphans", "lb/front", "--yes", "--wait")

    assert (0, {"10.0.0.2:80"}) == (done.status, await stage.members())
    assert "lb/front: nothing is left to be taken out" in done.out
    assert await _orphaned(stage, "NoOrphans")
    found = await stage.get(objects.LOAD_BALANCERS, "front")
    assert found is not None
    assert ANNOTATION_REMOVE_ORPHANS not in found.meta.annotations


async def test_orphans_that_are_known_by_address_stay(bare: Stage) -> None:
    """Refused by the command, and by the deregistrar where it is annotated by hand."""
    await bare.start_driver("Address")
    await bare.start("controller")
    await bare.start("deregistrar")
    await bare.setting(memberKey="Address")
    await bare.until_epoch()
    await bare.add_pod("a", "10.0.0.1")
    await bare.until_registered("10.0.0.1:80")
    record = await _abandon(bare, "a", "10.0.0.1:80")
    await bare.until("it is told", partial(_orphaned, bare, "MembersOrphaned"))

    refused = await ask(bare, "remove-orphans", "lb/front", "--yes")
    by_hand = {"annotations": {ANNOTATION_REMOVE_ORPHANS: record.meta.uid}}
    await bare.patch(objects.LOAD_BALANCERS, "front", {"metadata": by_hand})

    assert (2, True) == (refused.status, "memberKey: Address" in refused.err)
    await bare.until_events(("Warning", "OrphansKept"))
    assert {"10.0.0.1:80"} == await bare.members()
    assert [] == await bare.calls("deregisterBackend")
