"""What bad input and bad drivers get: a reason, another try, and nothing lost."""

import re
import signal

from functools import partial

import pytest

from lbcf.kube.kinds import Resource
from tests.e2e import objects
from tests.e2e.objects import Whole
from tests.e2e.stage import Stage
from tests.e2e.watched import has_event, metrics_of


pytestmark = pytest.mark.cluster


async def test_driver_that_is_down_is_named_and_retried(stage: Stage) -> None:
    """Nobody listens: the record says so; the driver returns and all is registered."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await stage.processes["driver"].end()
    await stage.add_pod("b", "10.0.0.2")

    record = await stage.until_reason("Registered", "DriverUnreachable")
    assert "memory" in record.condition("Registered")["message"]
    assert record.body["status"]["nextAttempt"]

    await stage.delete(objects.PODS, "a")
    await stage.start_driver()
    await stage.until_registered("10.0.0.2:80")


@pytest.mark.parametrize(
    ("mode", "reason", "told"),
    [
        ("fail", "DriverRefused", "answered Fail: full"),
        ("run", "DriverRunning", "answered Running: full"),
        ("break", "DriverRefused", "answered Fail"),
    ],
)
async def test_driver_that_does_not_register(
    stage: Stage, mode: str, reason: str, told: str
) -> None:
    """Each kind of answer has its reason; the member comes in the end."""
    await stage.behave("ensureBackend", mode, times=1000, msg="full")
    await stage.add_pod("a", "10.0.0.1")

    record = await stage.until_reason("Registered", reason)
    assert told in record.condition("Registered")["message"]
    await stage.behave_well("ensureBackend")
    await stage.until_registered("10.0.0.1:80")


async def test_driver_that_does_not_answer_in_time(bare: Stage) -> None:
    """That has its reason, too, with the time; the member comes in the end."""
    await bare.start_driver()
    await bare.start("controller")
    await bare.setting(webhooks=objects.webhooks("2s"))
    await bare.behave("ensureBackend", "late", times=1000, seconds=3)
    await bare.add_pod("a", "10.0.0.1")

    record = await bare.until_reason("Registered", "DriverTimedOut")
    message = record.condition("Registered")["message"]
    told = re.search("no whole answer within ([0-9.]+) s$", message)
    assert told
    assert 0 < float(told[1]) <= 2
    await bare.behave_well("ensureBackend")
    await bare.until_registered("10.0.0.1:80")


@pytest.mark.parametrize(
    ("mode", "reason"), [("fail", "DriverRefused"), ("run", "DriverRunning")]
)
async def test_driver_that_does_not_deregister(
    stage: Stage, mode: str, reason: str
) -> None:
    """The record stays until the driver has let go, and says what it waits for."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await stage.behave("deregisterBackend", mode, times=1000, msg="later")
    await stage.delete(objects.PODS, "a")

    record = await stage.until_reason("Deregistered", reason)
    assert "later" in record.condition("Deregistered")["message"]
    await stage.behave_well("deregisterBackend")
    await stage.until_registered()


async def test_unknown_load_balancer_holds_and_says_so(stage: Stage) -> None:
    """Other load balancers of the group go on; the unknown one is named."""
    await stage.patch(
        objects.GROUPS, "web", {"spec": {"loadBalancers": ["front", "nowhere"]}}
    )
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")

    async def told() -> bool:
        group = await stage.get(objects.GROUPS, "web")
        assert group is not None
        ready = group.condition("Ready")
        named = f"{stage.namespace}/nowhere does not exist" in ready.get("message", "")
        return named and ready["reason"] == "LoadBalancerNotFound"

    await stage.until("the group names it", told)


async def test_load_balancer_that_vanishes_keeps_its_members(stage: Stage) -> None:
    """A load balancer that is gone is no reason to remove anything."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await stage.processes["controller"].end()
    await stage.delete(objects.LOAD_BALANCERS, "front")
    await stage.patch(
        objects.LOAD_BALANCERS, "front", {"metadata": {"finalizers": None}}
    )
    await stage.start("controller")
    await stage.until("the group is undecided", lambda: _not_found(stage))

    assert {"10.0.0.1:80"} == await stage.members()
    assert {"10.0.0.1:80"} == await stage.registered()


async def _not_found(stage: Stage) -> bool:
    """Whether the group says that its load balancer does not exist."""
    group = await stage.get(objects.GROUPS, "web")
    assert group is not None
    return group.condition("Ready").get("reason") == "LoadBalancerNotFound"


async def test_unknown_driver_is_told_where_it_matters(bare: Stage) -> None:
    """The load balancer waits for its driver by name, and goes on when it comes."""
    await bare.start_driver()
    await bare.start("controller")
    await bare.create(objects.LOAD_BALANCERS, objects.a_load_balancer())
    await bare.create(objects.GROUPS, objects.a_group())
    await bare.add_pod("a", "10.0.0.1")

    async def told() -> bool:
        found = await bare.get(objects.LOAD_BALANCERS, "front")
        assert found is not None
        created = found.condition("Created")
        return (
            created.get("reason") == "DriverNotFound"
            and f"{bare.namespace}/memory" in created["message"]
        )

    await bare.until("the load balancer waits for its driver", told)
    await bare.create(objects.DRIVERS, objects.a_driver(bare.driver_url))
    await bare.until_registered("10.0.0.1:80")


async def test_abandoned_driver_holds_records_until_it_is_back(stage: Stage) -> None:
    """Without a driver nobody can deregister: the record says so and stays."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    marks = {
        "labels": {"lbcf.tkestack.io/driver-draining": "true"},
        "annotations": {"lbcf.tkestack.io/abandon": "its host has burnt down"},
    }
    await stage.patch(objects.DRIVERS, "memory", {"metadata": marks})
    await stage.delete(objects.DRIVERS, "memory")

    async def gone() -> bool:
        return await stage.get(objects.DRIVERS, "memory") is None

    await stage.until("the driver is let go", gone)
    await stage.patch(objects.GROUPS, "web", {"spec": {"loadBalancers": ["other"]}})
    await stage.until_reason("Deregistered", "DriverNotFound")
    controller = stage.processes["controller"]
    [told] = await stage.until_logged(controller, "driver.abandoned")
    assert "its host has burnt down" == told["why"]

    await stage.create(objects.DRIVERS, objects.a_driver(stage.driver_url))
    await stage.until_registered()


async def test_abandoned_record_is_let_go(stage: Stage) -> None:
    """A person may order a record to be let go without its driver."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await stage.processes["driver"].end()
    await stage.delete(objects.PODS, "a")
    record = await stage.until_reason("Drained", "DriverUnreachable")

    why = {"lbcf.tkestack.io/abandon": "the load balancer was scrapped"}
    await stage.patch(
        objects.RECORDS, record.meta.key.name, {"metadata": {"annotations": why}}
    )

    async def gone() -> bool:
        return not await stage.listed(objects.RECORDS)

    await stage.until("the record is gone", gone)
    # Once for each try: one that meets another version is made again.
    told = stage.processes["deregistrar"].events("record.abandoned")
    assert {"the load balancer was scrapped"} == {event["why"] for event in told}
    await stage.until("an event tells of it", lambda: has_event(stage, "Abandoned"))
    page = await metrics_of(stage, "deregistrar")
    assert 'lbcf_abandoned_total{kind="BackendRecord"} 1.0' in page


async def _says(
    stage: Stage, resource: Resource[Whole], name: str, **told: str
) -> bool:
    """Whether conditions have these reasons, by type."""
    found = await stage.get(resource, name)
    assert found is not None
    return told == {kind: found.condition(kind).get("reason") for kind in told}


async def test_load_balancer_that_cannot_be_created_says_why(bare: Stage) -> None:
    """Fail is shown, retried, and in the end forgotten; attributes follow."""
    await bare.start_driver()
    await bare.start("controller")
    await bare.behave("createLoadBalancer", "fail", times=1000, msg="quota")
    await bare.create(objects.DRIVERS, objects.a_driver(bare.driver_url))
    await bare.create(objects.LOAD_BALANCERS, objects.a_load_balancer())

    refused = partial(
        _says, bare, objects.LOAD_BALANCERS, "front", Created="DriverRefused"
    )
    await bare.until("the refusal is shown", refused)
    await bare.behave_well("createLoadBalancer")
    done = {"Created": "Created", "AttributesSynced": "AttributesSynced"}
    await bare.until(
        "it is created", partial(_says, bare, objects.LOAD_BALANCERS, "front", **done)
    )


async def test_load_balancer_waits_for_its_records(stage: Stage) -> None:
    """One that is being deleted goes after the last record, not before."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await stage.control("sessions", backendAddr="10.0.0.1:80", sessions=1)
    await stage.delete(objects.LOAD_BALANCERS, "front")

    waits = partial(_says, stage, objects.LOAD_BALANCERS, "front", Created="InUse")
    await stage.until("it waits", waits)
    assert [] == await stage.calls("deleteLoadBalancer")
    await stage.control("sessions", backendAddr="10.0.0.1:80", sessions=0)

    async def gone() -> bool:
        return await stage.get(objects.LOAD_BALANCERS, "front") is None

    await stage.until("it is gone", gone)
    assert 1 == len(await stage.calls("deleteLoadBalancer"))


async def test_driver_is_asked_how_it_is(bare: Stage) -> None:
    """A driver that lists healthz gets a condition Healthy, well or not."""
    await bare.start_driver()
    await bare.start("controller")
    body = objects.a_driver(bare.driver_url, webhooks=[{"name": "healthz"}])
    await bare.create(objects.DRIVERS, body)

    well = partial(
        _says, bare, objects.DRIVERS, "memory", Accepted="Accepted", Healthy="Healthy"
    )
    await bare.until("it is well", well)
    await bare.processes["driver"].end()
    down = partial(_says, bare, objects.DRIVERS, "memory", Healthy="DriverUnreachable")
    await bare.until("it is not", down)


async def test_load_balancer_that_its_driver_refuses_is_not_created(
    bare: Stage,
) -> None:
    """Its condition has the driver's words; mended, it is created."""
    await bare.start_driver()
    await bare.start("controller")
    await bare.create(objects.DRIVERS, objects.a_driver(bare.driver_url))
    body = objects.a_load_balancer()
    body["spec"]["attributes"] = {"refuse": "no such region"}
    await bare.create(objects.LOAD_BALANCERS, body)

    async def told(status: str) -> bool:
        found = await bare.get(objects.LOAD_BALANCERS, "front")
        assert found is not None
        created = found.condition("Created")
        refused = "validateLoadBalancer answered Fail: no such region"
        said = created.get("message", "")
        return created.get("status") == status and (status == "True" or refused in said)

    await bare.until("the refusal is told", partial(told, "False"))
    assert [] == await bare.calls("createLoadBalancer")
    fine = {"spec": {"attributes": {"refuse": None}}}
    await bare.patch(objects.LOAD_BALANCERS, "front", fine)
    await bare.until("it is created", partial(told, "True"))


async def test_restarted_controller_deletes_what_may_have_been_created(
    bare: Stage,
) -> None:
    """The mark is in the object: nobody has to remember that the driver was asked."""
    await bare.start_driver()
    await bare.start("controller")
    await bare.behave("createLoadBalancer", "break", times=99)
    quick = [{"name": "createLoadBalancer", "timeout": "1s"}]
    body = objects.a_driver(bare.driver_url, webhooks=quick)
    await bare.create(objects.DRIVERS, body)
    await bare.create(objects.LOAD_BALANCERS, objects.a_load_balancer())

    async def asked() -> bool:
        return bool(await bare.calls("createLoadBalancer"))

    await bare.until("it is begun", asked)
    await bare.processes["controller"].end(signal.SIGKILL)
    await bare.delete(objects.LOAD_BALANCERS, "front")
    await bare.start("controller", "--no-leader-elect")

    async def gone() -> bool:
        return await bare.get(objects.LOAD_BALANCERS, "front") is None

    await bare.until("it is gone", gone)
    assert 1 == len(await bare.calls("deleteLoadBalancer"))
