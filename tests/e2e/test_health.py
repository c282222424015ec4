"""What a real HAProxy says of itself and of its servers reaches people; it serves a Service.

`kubectl lbcf status` names what whoever is on call meets. How soon is printed and not
asserted, since the machine may be busy: `tests.monitoring.test_symptoms` and
`tests.ctl.test_leaders` count the periods.
"""

import asyncio
import signal
import tempfile
import time

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import attrs
import pytest

from aiohttp import ClientSession

from lbcf.core.lifecycle.in_service import GRACE
from lbcf.core.model.names import READINESS_GATE
from lbcf.core.model.values import ObjectKey
from tests.e2e import objects
from tests.e2e.asking import ask as ask_lbcf
from tests.e2e.objects import Whole
from tests.e2e.stage import Process, Stage
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import an_identity
from tests.haproxy.web import WebServer, ask
from tests.lab.cluster.ports import free_ports
from tests.monitoring.symptoms import SYMPTOMS, Symptom, is_named


pytestmark = pytest.mark.cluster


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


async def start_driver(bare: Stage, proxy: Haproxy) -> str:
    """Start HAProxy's driver; return its URL."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    argv = [
        *(*bare.recorded("webhooks.haproxy"), "--bind-address", address),
        *("--allow-sockets", f"{proxy.folder}/*.sock"),
        *("--allow-addresses", "127.0.0.0/8"),
    ]
    driver = Process("haproxy", argv, bare.folder / "haproxy-0.log")
    bare.processes["haproxy"] = driver
    await driver.start()
    return f"http://{address}"


async def add_load_balancer(bare: Stage, proxy: Haproxy, driver: str) -> None:
    """Create the driver's object and a load balancer that is this HAProxy."""
    await bare.create(objects.DRIVERS, objects.a_driver(driver))
    front = objects.a_load_balancer()
    front["spec"]["lbSpec"] = an_identity(proxy)
    await bare.create(objects.LOAD_BALANCERS, front)


@pytest.fixture(name="stage")
async def _stage(bare: Stage, proxy: Haproxy) -> Stage:
    """Its driver, a controller, and a load balancer that is this HAProxy."""
    await add_load_balancer(bare, proxy, await start_driver(bare, proxy))
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
    return ("AllMembersDown", 0) == (said, group.status.get("inService"))


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
    await stage.until_events(("Warning", "DriverRefused"), ("Normal", "Reachable"))


async def test_all_at_once_before_the_load_balancer_is_up(
    bare: Stage, proxy: Haproxy
) -> None:
    """Applied in one go while HAProxy is not there: nothing told twice, all registered."""
    await proxy.stop()
    driver = await start_driver(bare, proxy)
    for process in ("controller", "deregistrar"):
        await bare.start(process)
    both = ("127.0.9.1", "127.0.9.2")
    await asyncio.gather(
        add_load_balancer(bare, proxy, driver),
        bare.create(objects.GROUPS, objects.a_group()),
        *(bare.add_pod(f"web-{n}", address) for n, address in enumerate(both)),
    )
    await bare.until("it cannot be created", partial(_is_refused, bare))

    await proxy.restart()

    await bare.until("both are registered", partial(_are_registered, bare, *both))
    await bare.until("it is reachable", partial(until_said, bare, "Reachable"))
    warnings = Counter[str]()
    for event in await bare.listed(objects.EVENTS):
        if event.body["type"] == "Warning":
            times = (event.body.get("series") or {}).get("count", 1)
            warnings[event.body["reason"]] += times
    # The condition says why: a load balancer that is not created has no Event of its own.
    assert [] == [reason for reason, times in warnings.items() if times > 1]


async def test_member_whose_server_is_down_is_told(
    stage: Stage, proxy: Haproxy
) -> None:
    """In HAProxy's own word, while the record is Registered; the pod's gate waits so long."""
    await stage.create(objects.GROUPS, objects.a_group())
    await add_gated(stage, "web-1", "127.0.3.1")

    record = await stage.until_reason("InService", "MemberDown")

    assert await opened(stage, "web-1") is None
    assert "True" == record.condition("Registered")["status"]
    told = record.condition("InService")
    await stage.until_events(("Warning", "MembersDown"))
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


@attrs.define
class OnCall:
    """Somebody who asks `kubectl lbcf status` until it names what has just begun.

    Attributes:
        seconds: from the beginning of each symptom, by its name, to the end of the answer.
    """

    stage: Stage
    seconds: dict[str, float] = attrs.Factory(dict)

    async def is_told(self, subject: str, reason: str, *words: str) -> None:
        """Wait until a symptom is named, with these words and what to do about it.

        Args:
            subject: kind of the object.
            reason: of the symptom.
            words: that tell the cause, or the remedy.
        """
        [symptom] = [s for s in SYMPTOMS if (s.subject, s.reason) == (subject, reason)]
        began = time.monotonic()
        await self.stage.until(
            f"status names {reason}", partial(self._names, symptom, words)
        )
        self.seconds[symptom.name] = time.monotonic() - began
        print(f"{self.seconds[symptom.name]:4.1f} s: {symptom.name}")

    async def _names(self, symptom: Symptom, words: tuple[str, ...]) -> bool:
        report = (await ask_lbcf(self.stage, "status", "-o", "json")).report
        told = [*report["problems"], *report["lately"]]
        return is_named(told, symptom, words)


async def _is_refused(stage: Stage) -> bool:
    """Return whether the load balancer says that its driver does not create it."""
    found = await stage.get(objects.LOAD_BALANCERS, "front")
    assert found is not None
    told = found.condition("Created")
    assert "True" != told.get("status")
    return "DriverRefused" == told.get("reason") and "admin.sock" in told["message"]


async def _are_registered(stage: Stage, *addresses: str) -> bool:
    return await stage.registered() == {f"{address}:80" for address in addresses}


async def _is_down(proxy: Haproxy, name: str) -> bool:
    """Return whether HAProxy's own checks have a server down."""
    return (await proxy.rows())[name]["srv_op_state"] == "0"


async def test_status_names_what_is_wrong(stage: Stage, proxy: Haproxy) -> None:
    """Each trouble with its cause and remedy, in the first answer that can have it."""
    on_call = OnCall(stage)
    deregistrar = await stage.start("deregistrar")
    await stage.create(
        objects.GROUPS, objects.a_group(protection={"maxUnreadyPercent": 50})
    )
    await on_call.is_told("bg", "NothingSelected", "selector")
    await stage.create(objects.GROUPS, objects.a_group("stray", lbs=("missing",)))
    await on_call.is_told("bg", "LoadBalancerNotFound", "missing", "create it")
    await stage.delete(objects.GROUPS, "stray")
    async with (
        WebServer.running("web-1", "127.0.9.1", 80) as server,
        WebServer.running("web-2", "127.0.9.2", 80),
    ):
        await _name_members(stage, proxy, on_call, server)
        # One of the two may go, the other one is held.
        for name in ("1", "2"):
            await stage.set_pod(f"web-{name}", f"127.0.9.{name}", ready=False)
        await on_call.is_told("bg", "TooManyUnready", "kubectl patch bg web")
    await proxy.reload()
    await on_call.is_told("lb", "MembersPutBack", "are registered again", "often?")
    await proxy.stop()
    await on_call.is_told("lb", "DriverRefused", "admin.sock", "kubectl lbcf why")
    await stage.processes["haproxy"].end()
    await stage.delete(objects.GROUPS, "web")
    await on_call.is_told("br", "DriverUnreachable", "is it running?", "abandon br/")
    await deregistrar.end(signal.SIGKILL)
    await on_call.is_told("lease", "NoLeader", "lbcf-deregistrar", "describe pods")
    assert {symptom.name for symptom in SYMPTOMS} == set(on_call.seconds)


async def _name_members(
    stage: Stage, proxy: Haproxy, on_call: OnCall, server: WebServer
) -> None:
    """Register two, have one refused, one taken out by hand, and one go down."""
    both = ("127.0.9.1", "127.0.9.2")
    for number, address in enumerate(both, start=1):
        await stage.add_pod(f"web-{number}", address)
    await stage.until("both are registered", partial(_are_registered, stage, *both))
    registered = time.monotonic()
    await stage.add_pod("web-3", "169.254.0.9")
    await on_call.is_told("br", "DriverRefused", "--allow-addresses", "mend")
    await stage.delete(objects.PODS, "web-3")
    uids = {a: record.meta.uid for a, record in (await stage.records()).items()}
    await proxy.ask(f"set server web/lbcf-{uids['127.0.9.2:80']} state maint")
    await proxy.ask(f"del server web/lbcf-{uids['127.0.9.2:80']}")
    await on_call.is_told("lb", "MembersMissing", "127.0.9.2:80", "taken out")
    # A new member has some time for its first checks.
    await asyncio.sleep(registered + GRACE.total_seconds() - time.monotonic())
    await server.stop()
    down = partial(_is_down, proxy, f"lbcf-{uids['127.0.9.1:80']}")
    await stage.until("its server is down", down)
    await on_call.is_told("br", "MemberDown", "it says DOWN", "health checks")
