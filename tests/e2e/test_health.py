"""What a real HAProxy says of itself and of its servers reaches people; it serves a Service."""

import sys
import tempfile

from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from aiohttp import ClientSession

from lbcf.core.model.names import READINESS_GATE
from lbcf.core.model.values import ObjectKey
from tests.e2e import objects
from tests.e2e.objects import Whole
from tests.e2e.stage import Process, Stage
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import an_identity
from tests.haproxy.web import WebServer, ask
from tests.lab.cluster.ports import free_ports


pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(name="proxy")
async def _proxy() -> AsyncIterator[Haproxy]:
    """A running HAProxy."""
    # Short: a unix socket's path has no room for the test's name.
    with tempfile.TemporaryDirectory(prefix="lbcf-haproxy-", dir="/tmp") as folder:
        proxy = await Haproxy.start(Path(folder))
        try:
            yield proxy
        finally:
            await proxy.stop()


@pytest.fixture(name="stage")
async def _stage(bare: Stage, proxy: Haproxy) -> Stage:
    """Its driver, a controller, and a load balancer that is this HAProxy."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    argv = [
        *(sys.executable, "-m", "webhooks.haproxy", "--bind-address", address),
        *("--allow-sockets", f"{proxy.folder}/*.sock"),
        *("--allow-addresses", "127.0.0.0/8"),
    ]
    driver = Process("haproxy", argv, bare.folder / "haproxy-0.log")
    bare.processes["haproxy"] = driver
    await driver.start()
    body = objects.a_driver(f"http://{address}")
    await bare.create(objects.DRIVERS, body)
    front = objects.a_load_balancer()
    front["spec"]["lbSpec"] = an_identity(proxy)
    await bare.create(objects.LOAD_BALANCERS, front)
    await bare.start("controller")
    await bare.until("it is reachable", partial(until_said, bare, "Reachable"))
    return bare


async def until_said(stage: Stage, reason: str) -> Whole | None:
    """The load balancer, once its condition Reachable has a reason."""
    found = await stage.get(objects.LOAD_BALANCERS, "front")
    assert found is not None
    return found if found.condition("Reachable").get("reason") == reason else None


async def add_gated(stage: Stage, name: str, address: str) -> None:
    """Add a pod with our readiness gate, its containers ready."""
    body = objects.a_pod(name)
    body["spec"]["readinessGates"] = [{"conditionType": READINESS_GATE}]
    await stage.create(objects.PODS, body)
    said = objects.pod_status(address, ready=False)
    ready = {"type": "ContainersReady", "status": "True"}
    waits = {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"}
    said["status"]["conditions"] = [ready, waits]
    await stage.patch(objects.PODS, name, said, "status")


async def opened(stage: Stage, name: str) -> Mapping[str, str] | None:
    """The condition of a pod's gate; None: it is shut."""
    pod = await stage.get(objects.PODS, name)
    assert pod is not None
    return pod.condition(READINESS_GATE) or None


async def nobody_serves(stage: Stage) -> bool:
    """Return whether the group tells that all of its members are down."""
    group = await stage.get(objects.GROUPS, "web")
    assert group is not None
    said = group.condition("Serving").get("reason")
    return ("AllMembersDown", 0) == (said, group.body["status"].get("inService"))


async def until_told(stage: Stage, expected: set[tuple[str, str]]) -> bool:
    """Return whether there are Events of these types and reasons, each once."""
    found = [
        (event.body["type"], event.body["reason"])
        for event in await stage.listed(objects.EVENTS)
        if (event.body["type"], event.body["reason"]) in expected
    ]
    return sorted(expected) == sorted(found)


async def test_load_balancer_that_is_down_is_told_until_it_is_back(
    stage: Stage, proxy: Haproxy
) -> None:
    """In its driver's words, and with the first epoch in one write."""
    before = await until_said(stage, "Reachable")
    assert before is not None
    assert "True" == before.condition("Reachable")["status"]
    assert before.body["status"]["epoch"]

    await proxy.stop()

    down = await stage.until("it is down", partial(until_said, stage, "DriverRefused"))
    assert down is not None
    told = down.condition("Reachable")
    assert "False" == told["status"]
    assert "admin.sock" in told["message"]

    await proxy.restart()

    await stage.until("it is back", partial(until_said, stage, "Reachable"))
    both = {("Warning", "DriverRefused"), ("Normal", "Reachable")}
    await stage.until("Events tell both", partial(until_told, stage, both))


async def test_member_whose_server_is_down_is_told(
    stage: Stage, proxy: Haproxy
) -> None:
    """In HAProxy's own word, while the record is Registered; the pod's gate waits so long."""
    await stage.create(objects.GROUPS, objects.a_group())
    await add_gated(stage, "web-1", "127.0.3.1")

    new = await stage.until_reason("InService", "AwaitingChecks")
    assert "True" == new.condition("Registered")["status"]

    record = await stage.until_reason("InService", "MemberDown")

    assert await opened(stage, "web-1") is None
    assert "True" == record.condition("Registered")["status"]
    told = record.condition("InService")
    down = {("Warning", "MembersDown")}
    await stage.until("an Event tells it", partial(until_told, stage, down))
    await stage.until("the group says so", partial(nobody_serves, stage))
    assert "False" == told["status"]
    assert "it says DOWN" in told["message"]
    assert "InService" == record.body["status"]["conditions"][0]["type"]

    async with WebServer.running("web-1", "127.0.3.1", 80):
        await stage.until_reason("InService", "InService")
        gate = await stage.until("the gate opens", partial(opened, stage, "web-1"))
        assert gate is not None
        assert "AllRegistered" == gate["reason"]

        await proxy.ask(f"set server web/lbcf-{record.meta.uid} state maint")
        maint = await stage.until_reason("InService", "MemberDown")
        assert "it says MAINT" in maint.condition("InService")["message"]


async def test_service_has_its_address_and_is_served(
    stage: Stage, proxy: Haproxy
) -> None:
    """HAProxy answers no address: it is that of the class. The end takes its server out."""
    await stage.start("deregistrar")
    port = int(proxy.url.rstrip("/").rpartition(":")[2])
    known = {"driver": "memory", "lbSpec": an_identity(proxy)}
    spec = {**known, "ingress": [{"ip": "127.0.0.1"}]}
    key = ObjectKey("", stage.namespace)
    await stage.client.create(
        objects.CLASSES, "", {"metadata": {"name": key.name}, "spec": spec}
    )
    wanted = {
        "type": "LoadBalancer",
        "loadBalancerClass": f"lbcf.tkestack.io/{key.name}",
        "selector": {"app": "web"},
        "ports": [{"port": port, "targetPort": 80}],
    }
    await stage.create(objects.SERVICES, {"metadata": {"name": "web"}, "spec": wanted})
    await stage.add_pod("web-1", "127.0.3.1")

    async def address() -> str:
        found = await stage.get(objects.SERVICES, "web")
        assert found is not None
        listed = found.body["status"]["loadBalancer"].get("ingress") or [{}]
        return str(listed[0].get("ip", ""))

    reached = await stage.until("the Service has an address", address)
    async with WebServer.running("web-1", "127.0.3.1", 80), ClientSession() as client:

        async def is_served() -> bool:
            return await ask(client, f"http://{reached}:{port}/") == "web-1"

        await stage.until("the pod answers", is_served)
        await stage.delete(objects.SERVICES, "web")

        async def is_gone() -> bool:
            return await stage.get(objects.SERVICES, "web") is None

        await stage.until("the Service is gone", is_gone)
        assert "503" == await ask(client, f"http://{reached}:{port}/")
    await stage.client.delete(objects.CLASSES, key)
