"""Services of type LoadBalancer on the real API server: an address, members, all of it away."""

import json

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from lbcf.core.model import names
from lbcf.core.model.values import ObjectKey
from tests.e2e import objects
from tests.e2e.objects import Whole
from tests.e2e.stage import Process, Stage
from tests.e2e.watched import has_event
from tests.envoy.proxy import Envoy
from tests.lab.cluster.ports import free_ports


pytestmark = pytest.mark.cluster

ADDRESS = "192.0.2.7"
FINALIZER = "service.kubernetes.io/load-balancer-cleanup"


def a_class(name: str, driver: str = "memory", **spec: object) -> dict[str, Any]:
    """A class whose load balancers are known by all that they are for."""
    known = {"name": "{service}-{port}-{protocol}", "address": ADDRESS}
    return {
        "metadata": {"name": name},
        "spec": {"driver": driver, "lbSpec": known, **spec},
    }


def a_service(
    class_name: str | None, name: str = "web", **spec: object
) -> dict[str, Any]:
    """A Service of the pods labelled app=web, at port 80."""
    named = {} if class_name is None else {"loadBalancerClass": class_name}
    return {
        "metadata": {"name": name},
        "spec": {
            "type": "LoadBalancer",
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80}],
            **named,
            **spec,
        },
    }


@pytest.fixture(name="running")
async def _running(bare: Stage) -> AsyncIterator[Stage]:
    """Driver, controller and deregistrar running, and a class named as the namespace."""
    await bare.start_driver()
    await bare.start("controller")
    await bare.start("deregistrar")
    await bare.create(objects.DRIVERS, objects.a_driver(bare.driver_url))
    await bare.client.create(objects.CLASSES, "", a_class(bare.namespace))
    yield bare
    await bare.client.delete(objects.CLASSES, ObjectKey("", bare.namespace))


def ours(stage: Stage) -> str:
    """The class of the stage, as Services name it."""
    return f"lbcf.tkestack.io/{stage.namespace}"


async def service(stage: Stage, name: str = "web") -> Whole:
    """Read a Service."""
    found = await stage.get(objects.SERVICES, name)
    assert found is not None
    return found


def reached(found: Whole) -> list[dict[str, Any]]:
    """Where a Service is reached."""
    listed: list[dict[str, Any]] = found.body["status"]["loadBalancer"].get(
        "ingress", []
    )
    return listed


async def until_told(stage: Stage, status: str, reason: str, name: str = "web") -> str:
    """Wait for the condition of a Service; return its message."""

    async def told() -> str:
        said = (await service(stage, name)).condition("LoadBalancerReady")
        matches = (status, reason) == (said.get("status"), said.get("reason"))
        return str(said["message"]) if matches else ""

    message: str = await stage.until(f"{name} says {reason}", told)
    return message


async def members(stage: Stage) -> set[tuple[str, str]]:
    """Members, by the name of their load balancer and their address."""
    listed = (await stage.control("members"))["members"]
    return {(one["lbInfo"]["name"], one["backendAddr"]) for one in listed}


async def until_members(stage: Stage, *wanted: tuple[str, str]) -> None:
    """Wait until the members are exactly these."""

    async def are() -> bool:
        return set(wanted) == await members(stage)

    await stage.until(f"the members are {wanted}", are)


async def nothing_is_left(stage: Stage) -> bool:
    """Whether nothing that was derived is there any more."""
    kinds = (objects.LOAD_BALANCERS, objects.GROUPS, objects.RECORDS)
    return not any([await stage.listed(kind) for kind in kinds])


async def test_whole_life(running: Stage) -> None:
    """An address, a member for each pod and port; ports come and go; nothing is left."""
    ports = [
        {"name": "http", "port": 80, "targetPort": 8080},
        {"name": "dns", "port": 80, "targetPort": "dns", "protocol": "UDP"},
    ]
    body = a_service(ours(running), ports=ports)
    await running.create(objects.SERVICES, body)
    pod = objects.a_pod("a")
    named = [{"name": "dns", "containerPort": 53, "protocol": "UDP"}]
    pod["spec"]["containers"][0]["ports"] = named
    await running.create(objects.PODS, pod)
    await running.set_pod("a", "10.0.0.1", ready=True)

    assert f"reached at {ADDRESS}" == await until_told(running, "True", "Ready")
    found = await service(running)
    assert [{"ip": ADDRESS, "ipMode": "Proxy"}] == reached(found)
    assert (FINALIZER,) == found.meta.finalizers
    get = ("get", "service", "web", "-n", running.namespace)
    assert ADDRESS in running.cluster.kubectl(*get)
    http, dns = ("web-80-TCP", "10.0.0.1:8080"), ("web-80-UDP", "10.0.0.1:53")
    await until_members(running, http, dns)

    elsewhere = {"spec": {"ports": [{**ports[0], "port": 81}]}}
    await running.patch(objects.SERVICES, "web", elsewhere)
    moved = ("web-81-TCP", "10.0.0.1:8080")
    await until_members(running, moved)
    await running.until("one is left", lambda: _is_alone(running, "svc-web-81-tcp"))

    await running.delete(objects.SERVICES, "web")
    await running.until("it is gone", lambda: _gone(running))
    assert await nothing_is_left(running)
    assert set() == await members(running)
    assert 3 == len(await running.calls("deleteLoadBalancer"))
    for done in ("Ensuring", "Ensured", "Deleting", "Deleted"):
        told = partial(has_event, running, f"{done}LoadBalancer")
        await running.until(f"an Event tells of {done}", told)


async def _is_alone(stage: Stage, name: str) -> bool:
    """Whether there is one load balancer, of this name."""
    listed = await stage.listed(objects.LOAD_BALANCERS)
    return [name] == [one.meta.key.name for one in listed]


async def _gone(stage: Stage, name: str = "web") -> bool:
    return await stage.get(objects.SERVICES, name) is None


async def test_type_taken_away_cleans_up(running: Stage) -> None:
    """Its pods are drained, and the Service lives on as if we had never been there."""
    await running.create(objects.SERVICES, a_service(ours(running)))
    await running.add_pod("a", "10.0.0.1")
    await until_members(running, ("web-80-TCP", "10.0.0.1:80"))
    [record] = await running.listed(objects.RECORDS)
    await running.control("sessions", recordID=record.meta.uid, sessions=1)

    plain = {"type": "ClusterIP", "loadBalancerClass": None}
    await running.patch(objects.SERVICES, "web", {"spec": plain})
    await running.until_reason("Drained", "Draining")
    assert FINALIZER in (await service(running)).meta.finalizers
    await running.control("sessions", recordID=record.meta.uid, sessions=0)

    async def is_plain() -> bool:
        found = await service(running)
        marks = [*found.meta.finalizers, *found.meta.annotations]
        return not marks and not found.condition("LoadBalancerReady")

    await running.until("it is a plain Service", is_plain)
    assert await nothing_is_left(running)
    assert [] == reached(await service(running))
    assert set() == await members(running)


async def test_what_is_not_ours_is_left_alone(running: Stage) -> None:
    """Another controller's class, and Services without one as long as none is default."""
    await running.create(objects.SERVICES, a_service("example.com/other", "other"))
    await running.create(objects.SERVICES, a_service(None, "plain"))
    await running.create(objects.SERVICES, a_service(ours(running), "web"))
    await until_told(running, "True", "Ready")
    for name in ("other", "plain"):
        found = await service(running, name)
        assert not found.meta.finalizers
        assert not found.body["status"].get("conditions")

    await running.client.patch(
        objects.CLASSES, ObjectKey("", running.namespace), {"spec": {"default": True}}
    )
    await until_told(running, "True", "Ready", "plain")
    assert not (await service(running, "other")).meta.finalizers
    await running.client.patch(
        objects.CLASSES,
        ObjectKey("", running.namespace),
        {"spec": {"default": False, "attributes": {"seen": "yes"}}},
    )

    async def is_seen() -> bool:
        found = await running.get(objects.LOAD_BALANCERS, "svc-web-80-tcp")
        assert found is not None
        return "seen" in found.body["spec"].get("attributes", {})

    await running.until("the class is seen not to be default any more", is_seen)
    await running.create(objects.SERVICES, a_service(None, "late"))
    await running.patch(objects.SERVICES, "plain", {"spec": {"ports": [{"port": 82}]}})

    async def moved() -> bool:
        names_there = {
            one.meta.key.name for one in await running.listed(objects.LOAD_BALANCERS)
        }
        return {"svc-plain-82-tcp", "svc-web-80-tcp"} == names_there

    # Who has a class keeps it.
    await running.until("plain follows its Service", moved)
    assert not (await service(running, "late")).meta.finalizers


async def until_event(stage: Stage, name: str, words: str) -> None:
    """Wait for an Event which says in these words why a Service is not served."""

    async def is_there() -> bool:
        return any(
            event.body["reason"] == "SyncLoadBalancerFailed"
            and event.body["regarding"]["name"] == name
            and words in event.body["note"]
            for event in await stage.listed(objects.EVENTS)
        )

    await stage.until(f"an Event says of {name}: {words}", is_there)


async def _end_all(running: Stage, *services: str) -> None:
    """Delete Services, whatever is the matter with them."""
    for name in services:
        await running.delete(objects.SERVICES, name)
        await running.until(f"{name} is gone", partial(_gone, running, name))


async def test_bad_input_is_told(running: Stage) -> None:
    """Each on its own Service, in its condition and an Event; the others are served."""
    create, own = running.create, ours(running)
    await create(objects.SERVICES, a_service("lbcf.tkestack.io/none", "lost"))
    nobody = f"{running.namespace}-nobody"
    await running.client.create(objects.CLASSES, "", a_class(nobody, "nobody"))
    await create(
        objects.SERVICES, a_service(f"lbcf.tkestack.io/{nobody}", "driverless")
    )
    signal = [
        {"name": "s", "port": 90, "protocol": "SCTP"},
        {"name": "http", "port": 80},
    ]
    await create(objects.SERVICES, a_service(own, "signal", ports=signal))
    await create(objects.SERVICES, a_service(own, "aimless", selector=None))
    await create(objects.LOAD_BALANCERS, objects.a_load_balancer("svc-second-80-tcp"))
    await create(objects.SERVICES, a_service(own, "second"))
    await create(objects.SERVICES, a_service(own))
    await running.add_pod("a", "10.0.0.1")

    await until_told(running, "True", "Ready")
    await until_told(running, "False", "ClassNotFound", "lost")
    assert not (await service(running, "lost")).meta.finalizers
    message = await until_told(running, "False", "DriverNotFound", "driverless")
    assert f"LoadBalancerDriver {running.namespace}/nobody does not exist" in message
    message = await until_told(running, "False", "ProtocolNotServed", "signal")
    assert "port 90/SCTP: only TCP and UDP" in message
    await until_told(running, "False", "SelectorMissing", "aimless")
    await until_told(running, "False", "NameTaken", "second")
    await until_members(
        running, ("web-80-TCP", "10.0.0.1:80"), ("signal-80-TCP", "10.0.0.1:80")
    )

    for name, words in (
        ("lost", "LoadBalancerClass none does not exist; create it"),
        ("driverless", "nobody does not exist; create it"),
        ("signal", "port 90/SCTP: only TCP and UDP"),
        ("aimless", "selector"),
        ("second", "svc-second-80-tcp"),
    ):
        await until_event(running, name, words)
    await _end_all(running, "driverless", "second", "lost")
    assert await running.get(objects.LOAD_BALANCERS, "svc-second-80-tcp") is not None
    await running.client.delete(objects.CLASSES, ObjectKey("", nobody))


@pytest.fixture(name="edge")
async def _edge(bare: Stage) -> AsyncIterator[int]:
    """The driver of an Envoy, and a class; yields the one port that it may listen on."""
    port, serving, xds = free_ports(3)
    argv = [
        *bare.recorded("webhooks.envoy"),
        *("--bind-address", f"127.0.0.1:{serving}"),
        *("--xds-address", f"127.0.0.1:{xds}"),
        *("--state-directory", str(bare.folder / "envoy")),
        *("--allow-listeners", f"edge/127.0.0.1:{port}"),
    ]
    driver = Process("envoy", argv, bare.folder / "envoy-0.log")
    bare.processes["envoy"] = driver
    await driver.start()
    known = {"fleet": "edge", "listen": "127.0.0.1:{port}/{protocol}"}
    async with Envoy.running(xds):
        await bare.start("controller")
        await bare.start("deregistrar")
        url = f"http://127.0.0.1:{serving}"
        await bare.create(objects.DRIVERS, objects.a_driver(url))
        body = a_class(bare.namespace, lbSpec=known)
        await bare.client.create(objects.CLASSES, "", body)
        yield port
        await bare.client.delete(objects.CLASSES, ObjectKey("", bare.namespace))


@pytest.mark.envoy
async def test_port_that_envoy_may_not_listen_on(bare: Stage, edge: int) -> None:
    """Its Service and its load balancer say what to do; another port is served."""
    ports = [{"name": "open", "port": edge}, {"name": "closed", "port": 9}]
    await bare.create(objects.SERVICES, a_service(ours(bare), "half", ports=ports))

    why = (
        "listen: edge/127.0.0.1:9 is not allowed by this driver; it may use "
        f"edge/127.0.0.1:{edge}: choose one of these, or have its operator allow it "
        "(--allow-listeners)"
    )
    assert why in await until_told(bare, "False", "DriverRefused", "half")
    await until_event(bare, "half", why)
    refused = await bare.get(objects.LOAD_BALANCERS, "svc-half-9-tcp")
    assert refused is not None
    said = refused.condition("Created")
    assert ("False", "DriverRefused") == (said["status"], said["reason"])
    assert why in said["message"]

    async def is_served() -> bool:
        found = await bare.get(objects.LOAD_BALANCERS, f"svc-half-{edge}-tcp")
        said = {} if found is None else found.condition("Created")
        return said.get("status") == "True"

    await bare.until("the other port is served", is_served)
    only_open = {"spec": {"ports": ports[:1]}}
    await bare.patch(objects.SERVICES, "half", only_open)
    await until_told(bare, "True", "Ready", "half")
    await _end_all(bare, "half")


async def test_options_reach_the_driver_or_are_refused(running: Stage) -> None:
    """What a Service asks for is an attribute; a driver that cannot serve it says so."""
    body = a_service(
        ours(running),
        publishNotReadyAddresses=True,
        loadBalancerSourceRanges=["198.51.100.0/24", "203.0.113.0/24"],
        sessionAffinity="ClientIP",
        externalTrafficPolicy="Local",
    )
    await running.create(objects.SERVICES, body)
    await running.add_pod("a", "10.0.0.1", ready=False)
    await until_members(running, ("web-80-TCP", "10.0.0.1:80"))
    await until_told(running, "True", "Ready")
    found = await running.get(objects.LOAD_BALANCERS, "svc-web-80-tcp")
    assert found is not None
    assert {
        "sessionAffinity": "ClientIP",
        "sessionAffinityTimeoutSeconds": "10800",
        "externalTrafficPolicy": "Local",
        "loadBalancerSourceRanges": "198.51.100.0/24,203.0.113.0/24",
    } == found.body["spec"]["attributes"]

    refusing = {"spec": {"attributes": {"refuse": "source ranges are not for us"}}}
    key = ObjectKey("", running.namespace)
    await running.client.patch(objects.CLASSES, key, refusing)
    message = await until_told(running, "False", "DriverRefused")
    assert "source ranges are not for us" in message
    await until_event(running, "web", "source ranges are not for us")
    # What is in stays in.
    assert {("web-80-TCP", "10.0.0.1:80")} == await members(running)
    await running.client.patch(
        objects.CLASSES,
        key,
        {"spec": {"attributes": None, "ignoredOptions": ["sessionAffinity"]}},
    )
    await until_told(running, "True", "Ready")
    found = await running.get(objects.LOAD_BALANCERS, "svc-web-80-tcp")
    assert found is not None
    assert "sessionAffinity" not in found.body["spec"]["attributes"]


async def test_class_moves_to_another_load_balancer(running: Stage) -> None:
    """Another lbSpec is another load balancer: the old one is emptied and deleted first."""
    await running.create(objects.SERVICES, a_service(ours(running)))
    await running.add_pod("a", "10.0.0.1")
    await until_members(running, ("web-80-TCP", "10.0.0.1:80"))
    spec = {"lbSpec": {"name": "{namespace}/{service}", "address": "192.0.2.8"}}
    await running.client.patch(
        objects.CLASSES, ObjectKey("", running.namespace), {"spec": spec}
    )

    await until_members(running, (f"{running.namespace}/web", "10.0.0.1:80"))

    async def is_there() -> bool:
        return [{"ip": "192.0.2.8", "ipMode": "Proxy"}] == reached(
            await service(running)
        )

    await running.until("the new address is told", is_there)


async def test_node_ports_by_annotation(running: Stage) -> None:
    """Where its pods cannot be reached: the node port of each node, as of groups."""
    body = a_service(ours(running), allocateLoadBalancerNodePorts=False)
    body["metadata"]["annotations"] = {names.ANNOTATION_BACKENDS: "nodes"}
    await running.create(objects.SERVICES, body)
    await until_told(running, "False", "NodePortMissing")

    ports = [{"name": "http", "port": 80, "nodePort": 31789}]
    await running.patch(objects.SERVICES, "web", {"spec": {"ports": ports}})
    await until_told(running, "True", "Ready")
    found = await running.get(objects.GROUPS, "svc-web-80-tcp")
    assert found is not None
    assert {"name": "web", "port": {"port": 80, "protocol": "TCP"}} == found.body[
        "spec"
    ]["service"]
    # And back to its pods: by another group, since none changes what it is a group of.
    annotation = {"metadata": {"annotations": {names.ANNOTATION_BACKENDS: None}}}
    await running.patch(objects.SERVICES, "web", annotation)
    await running.add_pod("a", "10.0.0.1")
    await until_members(running, ("web-80-TCP", "10.0.0.1:80"))


def pooled(name: str, network: str) -> dict[str, Any]:
    """A class that gives addresses, which its load balancers have as an attribute."""
    return a_class(
        name,
        lbSpec={"name": "{service}-{port}-{protocol}"},
        attributes={"address": "{address}"},
        addresses=[network],
    )


async def _given(stage: Stage, name: str) -> dict[str, str]:
    """Which Service has which address, by the record of a class."""
    found = await stage.client.get(objects.CLASSES, ObjectKey("", name))
    listed = found.status.get("addresses", [])
    return {one["service"]: one["address"] for one in listed}


async def test_addresses_are_given_to_one_service_each(running: Stage) -> None:
    """The last one is told that there is none, and has it as soon as another is gone."""
    name, create = f"{running.namespace}-pool", running.create
    await running.client.create(objects.CLASSES, "", pooled(name, "198.51.100.0/31"))
    own = f"lbcf.tkestack.io/{name}"
    two = [{"name": "a", "port": 80}, {"name": "b", "port": 443}]
    await create(objects.SERVICES, a_service(own, "first", ports=two))
    await until_told(running, "True", "Ready", "first")
    shared = a_service(own, "second")
    shared["metadata"]["annotations"] = {names.ANNOTATION_SHARED: "front"}
    await create(objects.SERVICES, shared)
    await create(
        objects.SERVICES,
        {**shared, "metadata": {**shared["metadata"], "name": "beside"}},
    )
    await until_told(running, "True", "Ready", "second")
    await until_told(running, "True", "Ready", "beside")
    await create(objects.SERVICES, a_service(own, "third"))
    message = await until_told(running, "False", "AddressesExhausted", "third")
    assert f"LoadBalancerClass {name} has no IPv4 address left" in message
    await until_event(running, "third", "address left; add to its addresses, or delete")
    one, other = "198.51.100.0", "198.51.100.1"
    assert {"first": one, "second": other, "beside": other} == await _given(
        running, name
    )
    assert [one] == [at["ip"] for at in reached(await service(running, "first"))]
    assert 4 == len(await running.calls("createLoadBalancer"))

    await running.processes["controller"].end()
    await running.delete(objects.SERVICES, "first")
    await running.processes["controller"].start()
    await until_told(running, "True", "Ready", "third")
    assert [one] == [at["ip"] for at in reached(await service(running, "third"))]
    await _end_all(running, "second", "beside", "third")
    assert {} == await _given(running, name)
    await running.client.delete(objects.CLASSES, ObjectKey("", name))


async def test_classes_that_overlap_give_nothing(running: Stage) -> None:
    """Else one could give what the other has given."""
    pool = f"{running.namespace}-pool"
    for name, network in ((pool, "203.0.113.0/28"), (f"{pool}-2", "203.0.113.8/29")):
        await running.client.create(objects.CLASSES, "", pooled(name, network))
    await running.create(objects.SERVICES, a_service(f"lbcf.tkestack.io/{pool}"))
    message = await until_told(running, "False", "PoolsOverlap")
    assert f"203.0.113.0/28 of LoadBalancerClass {pool} overlaps" in message

    await running.client.delete(objects.CLASSES, ObjectKey("", f"{pool}-2"))
    await until_told(running, "True", "Ready")
    await running.client.delete(objects.CLASSES, ObjectKey("", pool))


async def test_address_stays_with_its_service_whatever_becomes_of_classes(
    running: Stage,
) -> None:
    """A class is made anew, and gives its network to another one: nobody else gets it."""
    name, network = f"{running.namespace}-pool", "198.51.100.16/31"
    one, other = "198.51.100.16", "198.51.100.17"
    own = f"lbcf.tkestack.io/{name}"
    await running.client.create(objects.CLASSES, "", pooled(name, network))
    for service_name in ("first", "second"):
        await running.create(objects.SERVICES, a_service(own, service_name))
        await until_told(running, "True", "Ready", service_name)
    assert {"first": one, "second": other} == await _given(running, name)
    await _end_all(running, "first")

    await running.client.delete(objects.CLASSES, ObjectKey("", name))
    await until_told(running, "False", "ClassNotFound", "second")
    await running.client.create(objects.CLASSES, "", pooled(name, network))
    await running.create(objects.SERVICES, a_service(own, "third"))
    await until_told(running, "True", "Ready", "third")
    await until_told(running, "True", "Ready", "second")
    assert {"second": other, "third": one} == await _given(running, name)
    assert 1 == len(await running.calls("deleteLoadBalancer"))

    elsewhere = {"spec": {"addresses": ["198.51.100.32/31"]}}
    await running.client.patch(objects.CLASSES, ObjectKey("", name), elsewhere)
    await running.client.create(objects.CLASSES, "", pooled(f"{name}-2", network))
    await running.create(
        objects.SERVICES, a_service(f"lbcf.tkestack.io/{name}-2", "fourth")
    )
    await until_told(running, "False", "AddressesExhausted", "fourth")
    await running.client.delete(objects.CLASSES, ObjectKey("", name))
    await until_told(running, "False", "ClassNotFound", "second")
    await _end_all(running, "second")
    await until_told(running, "True", "Ready", "fourth")
    assert {"fourth": other} == await _given(running, f"{name}-2")
    await _end_all(running, "third", "fourth")
    await running.client.delete(objects.CLASSES, ObjectKey("", f"{name}-2"))


async def test_killed_controller_goes_on(running: Stage) -> None:
    """A new process takes nothing twice, and cleans up what the old one began."""
    await running.create(objects.SERVICES, a_service(ours(running)))
    await running.add_pod("a", "10.0.0.1")
    await until_told(running, "True", "Ready")
    await until_members(running, ("web-80-TCP", "10.0.0.1:80"))
    before = json.dumps((await service(running)).body["metadata"]["resourceVersion"])

    await running.processes["controller"].end()
    await running.processes["controller"].start()
    await running.create(objects.SERVICES, a_service(ours(running), "next"))
    await until_told(running, "True", "Ready", "next")
    after = json.dumps((await service(running)).body["metadata"]["resourceVersion"])
    assert before == after

    await running.processes["controller"].end()
    await running.delete(objects.SERVICES, "web")
    await running.processes["controller"].start()
    await running.until("it is gone", lambda: _gone(running))
    assert 2 == len(await running.calls("createLoadBalancer"))
    assert 1 == len(await running.calls("deleteLoadBalancer"))
