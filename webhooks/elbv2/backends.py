"""Finds the target of a backend in the whole objects that generateBackendAddr brings.

Only the few fields that matter are read; `driver` answers with the result.
"""

from collections.abc import Sequence

import msgspec

from lbcf.sdk import (
    GenerateBackendAddrRequest,
    NodeAddress,
    NodeBackend,
    ServiceBackend,
)
from webhooks.elbv2.errors import InvalidInput
from webhooks.elbv2.targets import Target, TargetType, parse_target


class _PodStatus(msgspec.Struct, rename="camel"):
    """Where a pod is."""

    pod_ip: str = msgspec.field(name="podIP", default="")


class _Pod(msgspec.Struct):
    """A pod, once it has an address."""

    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _NodeSpec(msgspec.Struct):
    """What a node is at its cloud: `aws:///ZONE/i-INSTANCE`."""

    provider_id: str = msgspec.field(name="providerID", default="")


class _NodeStatus(msgspec.Struct):
    """Where a node is."""

    addresses: Sequence[NodeAddress] = ()


class _Node(msgspec.Struct):
    """A node."""

    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
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


def backend_target(request: GenerateBackendAddrRequest, wanted: TargetType) -> Target:
    """Return the target that a backend is.

    Raises:
        InvalidInput: it cannot be one of this type, or has no address (yet).
    """
    try:
        return _target(request, wanted)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the backend cannot be read: {error}") from error


def _target(request: GenerateBackendAddrRequest, wanted: TargetType) -> Target:
    """Return the target that a backend is, if its object can be read."""
    is_instance = wanted is TargetType.INSTANCE
    if (node := request.node_backend) is not None:
        host = _instance(node) if is_instance else _node_ip(node)
        return _joined(host, node.port.port)
    if is_instance:
        raise InvalidInput(
            "a target group of instances takes nodes only: what a pod or a service "
            "brings does not name an instance; use a target group of type ip"
        )
    if (pod := request.pod_backend) is not None:
        host = msgspec.convert(pod.pod, _Pod).status.pod_ip
        return _joined(host, pod.port.port)
    if (service := request.service_backend) is not None:
        return _joined(_internal(service.node_addresses), _node_port(service))
    raise InvalidInput("neither a pod, nor a service, nor a node was given")


def _instance(backend: NodeBackend) -> str:
    """Return the instance that a node is; empty if it does not say."""
    provider_id = msgspec.convert(backend.node, _Node).spec.provider_id
    is_aws = provider_id.startswith("aws://")
    return provider_id.rpartition("/")[2] if is_aws else ""


def _node_ip(backend: NodeBackend) -> str:
    """Return the address of a node inside of its network."""
    return _internal(msgspec.convert(backend.node, _Node).status.addresses)


def _internal(addresses: Sequence[NodeAddress]) -> str:
    """Return the address inside of the cluster's network, empty if there is none."""
    internal = (each.address for each in addresses if each.type == "InternalIP")
    return next(internal, "")


def _node_port(backend: ServiceBackend) -> int:
    """Return the node port of the service's port that was selected; 0: there is none."""
    wanted = (backend.port.port, backend.port.protocol)
    for port in msgspec.convert(backend.service, _Service).spec.ports:
        if (port.port, port.protocol) == wanted:
            return port.node_port
    return 0


def _joined(host: str, port: int) -> Target:
    """Return the target, in the form that all others have.

    Raises:
        InvalidInput: host or port are missing.
    """
    if not host or not port:
        raise InvalidInput("the backend has no address, or no node port, yet")
    return parse_target(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
