"""Finds the host:port of a backend in the whole objects that generateBackendAddr brings.

Only the few fields that matter are read; `webhooks.memory` answers with the result.
"""

from lbcf import sdk
from webhooks.shared import objects


def backend_address(request: sdk.GenerateBackendAddrRequest) -> str:
    """Return host:port of the backend.

    Raises:
        Fail: it has no address (yet), or its service has no such node port.
    """
    if (pod := request.pod_backend) is not None:
        return _joined(objects.pod_ip(pod.pod), pod.port.port)
    if (node := request.node_backend) is not None:
        addresses = objects.read_node(node.node).status.addresses
        return _joined(objects.internal_ip(addresses), node.port.port)
    if (service := request.service_backend) is not None:
        host = objects.internal_ip(service.node_addresses)
        return _joined(host, _node_port(service))
    raise sdk.Fail("neither a pod, nor a service, nor a node was given")


def _node_port(backend: sdk.ServiceBackend) -> int:
    """Return the node port of the service's port that was selected.

    Raises:
        Fail: there is no such port.
    """
    found = objects.node_port(backend)
    if found is None:
        wanted = backend.port
        raise sdk.Fail(f"the service has no port {wanted.port}/{wanted.protocol}")
    return found


def _joined(host: str, port: int) -> str:
    """Write host:port, an IPv6 host in brackets.

    Raises:
        Fail: one of them is missing.
    """
    if not host or not port:
        raise sdk.Fail("the backend has no address yet")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
