"""Finds the target of a backend in the whole objects that generateBackendAddr brings.

Only the few fields that matter are read; `driver` answers with the result.
"""

import msgspec

from lbcf.sdk import GenerateBackendAddrRequest, NodeBackend
from webhooks.elbv2.errors import InvalidInput
from webhooks.elbv2.targets import Target, TargetType, parse_target
from webhooks.shared import objects


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
        return _joined(objects.pod_ip(pod.pod), pod.port.port)
    if (service := request.service_backend) is not None:
        host = objects.internal_ip(service.node_addresses)
        return _joined(host, objects.node_port(service) or 0)
    raise InvalidInput("neither a pod, nor a service, nor a node was given")


def _instance(backend: NodeBackend) -> str:
    provider_id = objects.read_node(backend.node).spec.provider_id
    is_aws = provider_id.startswith("aws://")
    return provider_id.rpartition("/")[2] if is_aws else ""


def _node_ip(backend: NodeBackend) -> str:
    return objects.internal_ip(objects.read_node(backend.node).status.addresses)


def _joined(host: str, port: int) -> Target:
    """Return the target, in the form that all others have.

    Raises:
        InvalidInput: host or port are missing.
    """
    if not host or not port:
        raise InvalidInput("the backend has no address, or no node port, yet")
    return parse_target(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
