"""The few fields that drivers read of the whole objects of generateBackendAddr. Pure.

Whatever else they have is passed over. What cannot be read is msgspec's
`ValidationError`, which drivers turn into their own errors.
"""

from collections.abc import Sequence

import msgspec

from lbcf.sdk import NodeAddress, ServiceBackend, WholeObject


class _PodStatus(msgspec.Struct, rename="camel"):
    """Where a pod is."""

    pod_ip: str = msgspec.field(name="podIP", default="")


class _Pod(msgspec.Struct):
    """A pod, once it has an address."""

    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class NodeSpec(msgspec.Struct):
    """What a node is at its cloud: for AWS `aws:///ZONE/i-INSTANCE`."""

    provider_id: str = msgspec.field(name="providerID", default="")


class NodeStatus(msgspec.Struct):
    """Where a node is."""

    addresses: Sequence[NodeAddress] = ()


class Node(msgspec.Struct):
    """A node: what it is, and where."""

    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class _ServicePort(msgspec.Struct, rename="camel"):
    """A port of a service; `node_port` is 0 where there is none."""

    port: int
    node_port: int = 0
    protocol: str = "TCP"


class _ServiceSpec(msgspec.Struct):
    """What a service offers."""

    ports: Sequence[_ServicePort] = ()


class _Service(msgspec.Struct):
    """A service and its ports."""

    spec: _ServiceSpec = msgspec.field(default_factory=_ServiceSpec)


def pod_ip(pod: WholeObject) -> str:
    """Return where a pod is; empty: it has no address yet."""
    return msgspec.convert(pod, _Pod).status.pod_ip


def read_node(node: WholeObject) -> Node:
    """Read a node."""
    return msgspec.convert(node, Node)


def internal_ip(addresses: Sequence[NodeAddress]) -> str:
    """Return the address inside of the cluster's network; empty: there is none."""
    internal = (each.address for each in addresses if each.type == "InternalIP")
    return next(internal, "")


def node_port(backend: ServiceBackend) -> int | None:
    """Return the node port of the service's port that was selected.

    None: the service has no such port; 0: the port has no node port.
    """
    wanted = (backend.port.port, backend.port.protocol)
    for port in msgspec.convert(backend.service, _Service).spec.ports:
        if (port.port, port.protocol) == wanted:
            return port.node_port
    return None
