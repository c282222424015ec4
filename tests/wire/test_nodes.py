"""Nodes, Services and EndpointSlices: what is read of them, and what is not."""

from typing import Any

import msgspec
import pytest

from lbcf.core.model.node_backends import IpFamily
from lbcf.core.model.nodes import (
    LocalState,
    Node,
    NodeStatusAddress,
    ServicePort,
    local_states,
)
from lbcf.core.model.values import Port, Protocol
from lbcf.wire.errors import Malformed
from lbcf.wire.kube import parse_endpoint_slice, parse_node, parse_service


NAMED = {"name": "n1", "uid": "u", "resourceVersion": "7"}


def whole(**fields: object) -> bytes:
    """Write an object."""
    return msgspec.json.encode({"metadata": NAMED, **fields})


def node(
    taints: tuple[str, ...] = (), cordoned: bool = False, **status: object
) -> Node:
    """Read a node."""
    spec: dict[str, Any] = {"unschedulable": True} if cordoned else {}
    marks = [{"key": key, "effect": "NoSchedule"} for key in taints]
    return parse_node(whole(spec={**spec, "taints": marks}, status=status))


def test_node_has_addresses_and_marks_of_its_end() -> None:
    """Other taints are about pods."""
    found = node(
        ("node.kubernetes.io/not-ready", "ToBeDeletedByClusterAutoscaler"),
        addresses=[{"type": "InternalIP", "address": "192.0.2.1"}],
    )

    assert (NodeStatusAddress("InternalIP", "192.0.2.1"),) == found.addresses
    assert {"ToBeDeletedByClusterAutoscaler"} == found.leaving


def test_unready_and_cordoned_node_reads_the_same() -> None:
    """What is not read cannot make anybody act."""
    blip = [{"type": "Ready", "status": "Unknown"}]

    assert node() == node(cordoned=True, conditions=blip)
    assert node() == node(("node.kubernetes.io/unreachable",))


def test_service_says_where_its_node_ports_answer() -> None:
    """A port of another protocol than TCP and UDP is no backend's."""
    ports = [
        {"port": 80, "nodePort": 30080, "name": "http"},
        {"port": 53, "protocol": "UDP", "name": "dns"},
        {"port": 9, "protocol": "SCTP"},
    ]
    spec = {
        "type": "NodePort",
        "ports": ports,
        "externalTrafficPolicy": "Local",
        "ipFamilies": ["IPv6", "IPv4"],
    }
    found = parse_service(whole(spec=spec))

    assert (
        ServicePort("http", Port(80), 30080),
        ServicePort("dns", Port(53, Protocol.UDP)),
    ) == found.ports
    assert (True, IpFamily.IPV6) == (found.is_local, found.family)


@pytest.mark.parametrize(
    ("policy", "announced", "local"),
    [
        ("Cluster", None, False),
        ("Cluster", "Local", True),
        ("Local", "Cluster", True),
        ("Cluster", "local", False),
    ],
)
def test_announced_policy_counts_as_if_it_were_there(
    policy: str, announced: str | None, local: bool
) -> None:
    """Local alone can be announced: what a Service is already nothing takes away."""
    notes = {"lbcf.tkestack.io/external-traffic-policy": announced}
    meta = {**NAMED, "annotations": {k: v for k, v in notes.items() if v}}
    spec = {"type": "NodePort", "externalTrafficPolicy": policy}

    found = parse_service(msgspec.json.encode({"metadata": meta, "spec": spec}))

    assert local is found.is_local


def test_service_of_an_unknown_family_is_malformed() -> None:
    """To guess would be to register the wrong address."""
    with pytest.raises(Malformed, match="ipFamilies"):
        parse_service(whole(spec={"ipFamilies": ["IPv7"]}))


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ({}, LocalState.READY),
        ({"ready": None}, LocalState.READY),
        ({"ready": True, "serving": True}, LocalState.READY),
        ({"ready": False}, LocalState.UNREADY),
        ({"ready": False, "serving": False}, LocalState.UNREADY),
        (
            {"ready": False, "serving": True, "terminating": True},
            LocalState.SERVING,
        ),
        ({"ready": False, "terminating": True}, LocalState.ENDING),
        (
            {"ready": False, "serving": False, "terminating": True},
            LocalState.ENDING,
        ),
        # publishNotReadyAddresses makes ready true until the very end.
        ({"ready": True, "serving": False, "terminating": True}, LocalState.ENDING),
    ],
)
def test_conditions_of_an_endpoint_say_what_it_offers(
    conditions: dict[str, object], state: LocalState
) -> None:
    """What is unsaid is ready, and serves if it is ready (discovery.k8s.io/v1)."""
    endpoint = {"nodeName": "n1", "conditions": conditions}
    found = parse_endpoint_slice(whole(endpoints=[endpoint], ports=[{"name": ""}]))

    assert {"n1": state} == found.nodes


def test_best_endpoint_of_a_node_counts_over_all_slices() -> None:
    """Those of other ports, and those on no node, do not."""
    ready = {"nodeName": "n1", "conditions": {"ready": True}}
    ending = {"nodeName": "n1", "conditions": {"ready": False, "terminating": True}}
    lost = {"conditions": {"ready": True}}
    first = whole(endpoints=[ending, lost], ports=[{"name": "http"}])
    second = whole(endpoints=[ending, ready], ports=[{"name": "http"}])
    other = whole(endpoints=[{"nodeName": "n2"}], ports=[{"name": "dns"}])
    slices = [parse_endpoint_slice(raw) for raw in (first, second, other)]

    assert {"n1": LocalState.READY} == local_states(slices, "http")
    assert {"n1": LocalState.READY} == local_states(slices[::-1], "http")
    assert {"n1": LocalState.ENDING} == local_states(slices[:1], "http")


def test_empty_slice_is_read() -> None:
    """Go writes an empty list as null at times."""
    assert {} == parse_endpoint_slice(whole(endpoints=None, ports=None)).nodes
