"""Finds the host:port of a backend in the whole objects that generateBackendAddr brings.

Only the few fields that matter are read; `webhooks.memory` answers with the result.
"""

from collections.abc import Sequence

import msgspec

from lbcf import sdk


class _PodStatus(msgspec.Struct, rename="camel"):
    """Where a pod is."""

    pod_ip: str = msgspec.field(name="podIP", default="")


class _Pod(msgspec.Struct):
    """A pod, once it has an address."""

    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _NodeStatus(msgspec.Struct):
    """Where a node is."""

    addresses: Sequence[sdk.NodeAddress] = ()


class _Node(msgspec.Struct):
    """A node and its addresses."""

    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


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


def backend_address(request: sdk.GenerateBackendAddrRequest) -> str:
    """Return host:port of the backend.

    Raises:
        Fail: it has no address (yet), or its service has no such node port.
    """
    if (pod := request.pod_backend) is not None:
        host = msgspec.convert(pod.pod, _Pod).status.pod_ip
        return _joined(host, pod.port.port)
    if (node := request.node_backend) is not None:
        addresses = msgspec.convert(node.node, _Node).status.addresses
        return _joined(_internal(addresses), node.port.port)
    if (service := request.service_backend) is not None:
        return _joined(_internal(service.node_addresses), _node_port(service))
    raise sdk.Fail("neither a pod, nor a service, nor a node was given")


def _node_port(backend: sdk.ServiceBackend) -> int:
    """Return the node port of the service's port that was selected.

    Raises:
        Fail: there is none.
    """
    wanted = backend.port
    for port in msgspec.convert(backend.service, _Service).spec.ports:
        if (port.port, port.protocol) == (wanted.port, wanted.protocol):
            return port.node_port
    raise sdk.Fail(f"the service has no port {wanted.port}/{wanted.protocol}")


def _internal(addresses: Sequence[sdk.NodeAddress]) -> str:
    """Return the address inside of the cluster's network, empty if there is none."""
    internal = (each.address for each in addresses if each.type == "InternalIP")
    return next(internal, "")


def _joined(host: str, port: int) -> str:
    """Write host:port, an IPv6 host in brackets.

    Raises:
        Fail: one of them is missing.
    """
    if not host or not port:
        raise sdk.Fail("the backend has no address yet")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
