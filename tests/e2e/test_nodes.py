"""Node ports and nodes come and go, and so do their members at the load balancer."""

from collections.abc import AsyncIterator

import pytest

from tests.e2e import objects
from tests.e2e.node_objects import SERVICES, Nodes, node_port_of
from tests.e2e.objects import Whole
from tests.e2e.stage import Stage
from tests.e2e.watched import has_event, metrics_of


pytestmark = pytest.mark.cluster
READY_BLIP = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}


@pytest.fixture(name="nodes")
async def _nodes(bare: Stage) -> AsyncIterator[Nodes]:
    """Driver, controller and deregistrar running, one load balancer, two nodes.

    The load balancer's epoch is known.
    """
    await bare.start_driver()
    await bare.start("controller")
    await bare.start("deregistrar")
    await bare.create(objects.DRIVERS, objects.a_driver(bare.driver_url))
    await bare.create(objects.LOAD_BALANCERS, objects.a_load_balancer())
    await bare.until_epoch()
    nodes = Nodes(bare)
    try:
        await nodes.add(1)
        await nodes.add(2)
        yield nodes
    finally:
        await nodes.end()


async def test_node_leaves_for_good_reasons_only(nodes: Nodes) -> None:
    """Drained and out: excluded, about to go, gone; in again when the reason is.

    And with its Service: a changed node port is another backend.
    """
    stage, port = nodes.stage, await nodes.service()
    await nodes.add(3)
    await nodes.group()
    one, two, three = (f"192.0.2.{n}:{port}" for n in (1, 2, 3))
    await stage.until_registered(one, two, three)
    record = (await stage.records())[one]
    assert {
        "name": "web",
        "port": {"port": 80, "protocol": "TCP"},
        "nodePort": port,
        "nodeName": nodes.key(1).name,
    } == record.body["spec"]["serviceBackend"]

    await nodes.exclude(1)
    await stage.until_registered(two, three)
    await nodes.taint(2, "ToBeDeletedByClusterAutoscaler")
    await stage.until_registered(three)
    await nodes.patch(2, {"spec": {"taints": None}})
    await stage.until_registered(two, three)
    await nodes.delete(3)
    await stage.until_registered(two)
    left = ["NodeExcluded", "NodeLeaving", "NodeGone"]
    assert left == await _reasons(stage, 3)

    await stage.patch(SERVICES, "web", {"spec": {"type": "ClusterIP"}})
    await stage.until_registered()
    await nodes.until_condition("Ready", "NodePortMissing")
    again = await stage.patch(SERVICES, "web", {"spec": {"type": "NodePort"}})
    await stage.until_registered(f"192.0.2.2:{node_port_of(again)}")
    await stage.delete(SERVICES, "web")
    await stage.until_registered()
    await nodes.until_condition("Ready", "ServiceNotFound")
    left += ["NodePortMissing", "ServiceNotFound"]
    assert left == await _reasons(stage, 5)
    assert [True] * 5 == [c["drained"] for c in await stage.calls("deregisterBackend")]


async def _reasons(stage: Stage, number: int) -> list[str]:
    """Why records were deleted, in order, once there are so many."""
    controller = stage.processes["controller"]
    deleted = await stage.until_logged(controller, "record.deleted", number)
    return [event["reason"] for event in deleted]


async def test_change_that_matters_to_nobody_costs_nothing(nodes: Nodes) -> None:
    """NotReady, a cordon, a label: no call of the driver, no write to the API server."""
    stage, port = nodes.stage, await nodes.service()
    await nodes.group()
    await stage.until_registered(f"192.0.2.1:{port}", f"192.0.2.2:{port}")
    await nodes.until_condition("Ready", "Reconciled")
    await stage.until("the counts are written", lambda: _counted(stage, 2))
    before = len(_writes(stage)), len(await _driver_calls(stage))

    await nodes.patch(1, {"status": {"conditions": [READY_BLIP]}}, "status")
    await nodes.patch(2, {"spec": {"unschedulable": True}})
    await nodes.mark(1, colour="blue")
    await nodes.patch(1, {"status": {"conditions": None}}, "status")
    # A change that matters, after those that do not: once it shows, they are past.
    await nodes.add(3)
    await stage.until_registered(*(f"192.0.2.{n}:{port}" for n in (1, 2, 3)))

    async def about_records() -> list[str]:
        new = [w for w in _writes(stage)[before[0] :] if "backendrecords" in w]
        return new if len(new) > 1 else []

    # What a write has changed shows before the write is in the audit log.
    new = await stage.until("both writes are in the audit log", about_records)
    assert ["create backendrecords", "patch backendrecords/status"] == new
    calls = (await _driver_calls(stage))[before[1] :]
    assert ["ensureBackend"] == calls
    slices = [e for e in stage.cluster.audit() if e.resource == "endpointslices"]
    assert not [e for e in slices if e.user == stage.user("controller")]


async def _counted(stage: Stage, number: int) -> bool:
    """Whether the group's and the load balancer's status count so many members."""
    group = await stage.get(objects.GROUPS, "web")
    balancer = await stage.get(objects.LOAD_BALANCERS, "front")
    found = (_status(group, "registeredBackends"), _status(balancer, "backends"))
    return (number, number) == found


def _status(found: Whole | None, field: str) -> object:
    """A field of a status."""
    return None if found is None else found.status.get(field)


def _writes(stage: Stage) -> list[str]:
    """What our two processes have written, but for their Leases."""
    users = {stage.user("controller"), stage.user("deregistrar")}
    return [
        f"{event.verb} {event.resource}"
        for event in stage.cluster.audit()
        if event.user in users and event.is_write and event.resource != "leases"
    ]


async def _driver_calls(stage: Stage) -> list[str]:
    """All calls about members that the driver got."""
    history = (await stage.control("history"))["calls"]
    return [c["operation"] for c in history if c["operation"].endswith("Backend")]


async def test_local_service_is_registered_where_its_pods_are(nodes: Nodes) -> None:
    """Never all at once: the last node that serves stays until another one is in."""
    stage = nodes.stage
    port = await nodes.service(externalTrafficPolicy="Local")
    one, two = (f"192.0.2.{n}:{port}" for n in (1, 2))
    await nodes.serve(n1="ready")
    await nodes.group()
    await stage.until_registered(one)

    await nodes.serve(n1="serving")
    held = await nodes.until_condition("RemovalsHeld", "LastServingNode")
    assert "To override" in held["message"]
    metrics = await metrics_of(stage, "controller")
    assert (
        f'lbcf_removals_held{{group="web",namespace="{stage.namespace}"}} 1.0'
        in metrics
    )
    await stage.until("an event tells of it", lambda: has_event(stage, "RemovalsHeld"))
    assert {one} == await stage.members()

    await nodes.serve(n1="serving", n2="ready")
    await stage.until_registered(two)
    await nodes.until_condition("RemovalsHeld", "NotHeld")
    assert "lbcf_removals_held{" not in await metrics_of(stage, "controller")

    await stage.patch(SERVICES, "web", {"spec": {"externalTrafficPolicy": "Cluster"}})
    await stage.until_registered(one, two)
    controller = stage.processes["controller"]
    assert 1 == len(controller.events("endpoints.followed"))
    await stage.until_logged(controller, "endpoints.left")


async def test_announced_switch_finds_the_nodes_as_they_must_be(nodes: Nodes) -> None:
    """Those without pods leave before kube-proxy refuses, and return after it serves."""
    stage = nodes.stage
    port = await nodes.service(externalTrafficPolicy="Cluster")
    one, two = (f"192.0.2.{n}:{port}" for n in (1, 2))
    await nodes.serve(n1="ready")
    await nodes.group()
    await stage.until_registered(one, two)

    await _announce(stage, "Local")
    await stage.until_registered(one)
    assert ["NoReadyLocalEndpoint"] == await _reasons(stage, 1)

    calls = await _driver_calls(stage)
    for policy in ("Local", "Cluster"):
        await stage.patch(SERVICES, "web", {"spec": {"externalTrafficPolicy": policy}})
        await nodes.serve(n1="ready")
    assert calls == await _driver_calls(stage)

    await _announce(stage, None)
    await stage.until_registered(one, two)
    controller = stage.processes["controller"]
    created = await stage.until_logged(controller, "record.created", 3)
    assert 3 == len(created)


async def _announce(stage: Stage, policy: str | None) -> None:
    """Say on the Service what is to become of it, or no more."""
    note = {"lbcf.tkestack.io/external-traffic-policy": policy}
    await stage.patch(SERVICES, "web", {"metadata": {"annotations": note}})


async def test_nodes_are_registered_under_the_address_asked_for(nodes: Nodes) -> None:
    """One without such an address waits, and the group says which."""
    stage = nodes.stage
    await nodes.add(3, ("InternalIP", "192.0.2.3"), ("InternalIP", "2001:db8::3"))
    expression = {"key": "colour", "operator": "NotIn", "values": ["blue"]}
    await nodes.mark(2, colour="blue")
    meant = {
        "ports": [{"port": 80}, {"port": 443}],
        "selector": nodes.label,
        "matchExpressions": [expression],
        "ipFamily": "IPv6",
    }
    await nodes.group(nodes=meant)

    await stage.until_registered("[2001:db8::3]:80", "[2001:db8::3]:443")
    doubt = await nodes.until_condition("Ready", "NodeHasNoAddress")
    missing = f"node {nodes.key(1).name} has no IPv6 address of type InternalIP"
    assert missing == doubt["message"]

    addresses = [{"type": "InternalIP", "address": "2001:db8::1"}]
    await nodes.patch(1, {"status": {"addresses": addresses}}, "status")
    await nodes.until_condition("Ready", "Reconciled")
    members = [f"[2001:db8::{n}]:{port}" for n in (1, 3) for port in (80, 443)]
    await stage.until_registered(*members)


async def test_driver_finds_the_address_of_a_node(bare: Stage) -> None:
    """It is asked with the whole Service and the node's addresses, or the whole node."""
    await bare.start_driver("Address")
    await bare.start("controller")
    await bare.start("deregistrar")
    driver = objects.a_driver(
        bare.driver_url, memberKey="Address", addressSource="Driver"
    )
    await bare.create(objects.DRIVERS, driver)
    await bare.create(objects.LOAD_BALANCERS, objects.a_load_balancer())
    nodes = Nodes(bare)
    try:
        await nodes.add(1)
        port = await nodes.service()
        await nodes.group()
        meant = {"ports": [{"port": 80}], "selector": nodes.label}
        await nodes.group("more", nodes=meant)
        await bare.until_registered(f"192.0.2.1:{port}", "192.0.2.1:80")
        await nodes.exclude(1)
        await bare.until_registered()
    finally:
        await nodes.end()
