"""`kubectl lbcf` about Binds, nodes and drivers, beside the real processes."""

import asyncio

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from lbcf.core.model.names import LABEL_DRAINING
from lbcf.core.model.values import ObjectKey
from tests.e2e import objects
from tests.e2e.asking import Answer, a_tenant, ask
from tests.e2e.node_objects import Nodes
from tests.e2e.stage import Stage


pytestmark = pytest.mark.cluster

HEALTHZ = {"name": "healthz", "timeout": "2s"}
DRAINING = {"metadata": {"labels": {LABEL_DRAINING: "true"}}}


@pytest.fixture(name="running")
async def _running(bare: Stage) -> Stage:
    """Driver, controller and deregistrar running; nothing to balance yet."""
    await bare.start_driver()
    await bare.start("controller")
    await bare.start("deregistrar")
    driver = objects.a_driver(bare.driver_url)
    driver["spec"]["webhooks"].append(HEALTHZ)
    await bare.create(objects.DRIVERS, driver)
    return bare


def lines(answer: Answer) -> list[tuple[str, str, str]]:
    """Return the lines of a report: mark, subject, and reason where there is one."""
    return [
        (line["mark"], line["subject"], line["reason"])
        for section in answer.report["sections"]
        for line in section["lines"]
    ]


async def test_bind_is_told_as_the_group_that_it_is(running: Stage) -> None:
    """Under its own name, with load balancers that only it has."""
    stage = running
    await stage.create(objects.BINDS, objects.a_bind())
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    asked = ("bind/both", "-o", "json")

    async def settled() -> bool:
        """Whether the Bind's status has been written, and says the same as we."""
        told = (await ask(stage, "why", *asked)).report["headline"]
        return "1 registered, 0 on their way out, 1 selected" in str(told)

    await stage.until("the Bind counts its pod", settled)
    status, why, pod, balancer = await asyncio.gather(
        ask(stage, "status", "-o", "json"),
        ask(stage, "why", *asked),
        ask(stage, "why", "pod/a", "-o", "json"),
        ask(stage, "why", "lb/bind/both/front", "-o", "json"),
    )
    await stage.processes["controller"].end()
    await stage.add_pod("b", "10.0.0.2")
    plan = await ask(stage, "plan", *asked)

    assert (0, []) == (status.status, status.report["problems"])
    [row] = status.report["groups"]
    assert ("bind/both", 1, 1) == (row["name"], row["selected"], row["registered"])
    assert ["lb/bind/both/front"] == [
        one["name"] for one in status.report["loadBalancers"]
    ]
    assert "bind/both" == why.report["subject"]
    assert "bind/both" in {part["title"] for part in pod.report["sections"]}
    assert ("-", "groups", "") in lines(balancer)
    [change] = plan.report["changes"]
    assert ("create", "b:80") == (change["what"], change["backend"])
    assert change["record"].startswith("both-")


@pytest.fixture(name="nodes")
async def _nodes(running: Stage) -> AsyncIterator[Nodes]:
    """A load balancer, a Service's node port behind it, two nodes."""
    await running.create(objects.LOAD_BALANCERS, objects.a_load_balancer())
    nodes = Nodes(running)
    try:
        await nodes.add(1)
        await nodes.add(2)
        yield nodes
    finally:
        await nodes.end()


async def test_node_is_told_with_the_checks_of_nodes(nodes: Nodes) -> None:
    """While it is in, once it is excluded, and of one that there is not."""
    stage, port = nodes.stage, await nodes.service()
    await nodes.group(drain={"timeoutSeconds": 300})
    one, two = (f"192.0.2.{n}:{port}" for n in (1, 2))
    await stage.until_registered(one, two)
    name = f"node/{nodes.key(1).name}"
    inside = await ask(stage, "why", name, "-o", "json")
    await stage.control("sessions", backendAddr=one, sessions=1)
    await nodes.exclude(1)
    await stage.until_reason("Drained", "Draining")
    leaving, foreign, missing = await asyncio.gather(
        ask(stage, "why", name, "-o", "json"),
        ask(stage, "why", "node/none-of-ours"),
        ask(stage, "why", f"{name}-x"),
    )
    await stage.control("sessions", backendAddr=one, sessions=0)
    await stage.until_registered(two)

    assert "registered at front" == inside.report["headline"]
    # Of a new member its load balancer may not have said anything yet.
    marks = {mark for mark, name, _ in lines(inside) if name != "InService"}
    assert {"ok"} == marks
    assert leaving.report["headline"].startswith("on its way out of front")
    assert "NodeExcluded" in {
        reason for mark, _, reason in lines(leaving) if mark == "NO"
    }
    assert ("wait", "Drained False", "Draining") in lines(leaving)
    assert [2, 2] == [foreign.status, missing.status]
    assert "there is no node/none-of-ours" in foreign.err


async def _told(stage: Stage, *, mark: str, subject: str) -> Mapping[str, Any] | None:
    """The report on the driver, once it has such a line."""
    answer = await ask(stage, "why", "driver/memory", "-o", "json")
    found = {(one, about) for one, about, _ in lines(answer)}
    report: Mapping[str, Any] = answer.report
    return report if (mark, subject) in found else None


async def test_driver_is_told_from_its_first_answer_to_its_end(running: Stage) -> None:
    """Called, used, in trouble, drained, deleted: and who is waited for."""
    stage = running
    await stage.create(objects.LOAD_BALANCERS, objects.a_load_balancer())
    await stage.create(objects.GROUPS, objects.a_group())
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await stage.until(
        "it is well", lambda: _told(stage, mark="ok", subject="Healthy True")
    )
    well = await ask(stage, "why", "driver/memory")
    await stage.behave("ensureBackend", "fail", times=1000, msg="the pool is full")
    await stage.add_pod("b", "10.0.0.2")
    await stage.until_reason("Registered", "DriverRefused")
    full = await ask(stage, "why", "lbd/memory")
    await stage.patch(objects.DRIVERS, "memory", DRAINING)
    await stage.delete(objects.DRIVERS, "memory")
    ending = await _told(stage, mark="wait", subject="being deleted")

    assert ending is not None
    where = stage.namespace
    kept = f"being deleted; waits for LoadBalancer {where}/front; BackendRecords "
    assert ending["headline"].startswith(kept)
    assert "can be called, and nothing is wrong with it" == well.out.splitlines()[1]
    assert "1 registered, 0 not yet, 0 on their way out" in well.out
    assert "can be called; in trouble: driver " in full.out.splitlines()[1]
    assert "answered Fail: the pool is full (for " in full.out
    said = ending["headline"].removeprefix("being deleted; ")

    async def written() -> bool:
        """Whether the controller has written what we said."""
        driver = await stage.get(objects.DRIVERS, "memory")
        return driver is not None and said in str(driver.condition("Accepted"))

    await stage.until("the controller says the same", written)


async def test_shared_driver_is_told_with_its_users_everywhere(bare: Stage) -> None:
    """One of kube-system; no controller has looked at it yet, and no tenant may."""
    name = f"lbcf-{bare.namespace}"
    key = ObjectKey("kube-system", name)
    driver = {**objects.a_driver("http://127.0.0.1:1"), **DRAINING}
    driver["metadata"] = {**driver["metadata"], "name": name}
    await bare.client.create(objects.DRIVERS, key.namespace, driver)
    try:
        balancer = objects.a_load_balancer(driver=name)
        await bare.create(objects.LOAD_BALANCERS, balancer)
        answer = await ask(bare, "why", f"driver/{name}")
        login = await a_tenant(bare)
        balancer_told, driver_told = await asyncio.gather(
            ask(bare, "why", "lb/front", login=login),
            ask(bare, "why", f"driver/{name}", login=login),
        )
    finally:
        await bare.client.delete(objects.DRIVERS, key)

    said = answer.out.splitlines()
    assert [f"driver/{name} in namespace kube-system"] == said[:1]
    assert "no controller has looked at it yet" == said[1]
    assert f"lb/front in {bare.namespace}" in answer.out
    assert f"needed by       LoadBalancer {bare.namespace}/front" in answer.out
    right = "may not list loadbalancerdrivers.lbcf.tkestack.io in namespace kube-system"
    assert "not created yet, as far as we may read" in balancer_told.out
    assert f"NotRead: {key}: we {right}\n" in balancer_told.out
    assert (2, f"lbcf ctl: driver/{name}: {right}\n") == (
        driver_told.status,
        driver_told.err,
    )
