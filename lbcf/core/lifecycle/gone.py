"""Is there still anybody at the address of a record that is being drained?

Before it: `lbcf.controller.gone_backends` sees a pod, node or Service go, and reads it
from the API server itself. After it: the record says so, and the deregistrar ends its drain:
a drain serves those whom the backend still answers, and an address without its backend may
be another's at any moment, with all the clients that a load balancer keeps sending there.
"""

from lbcf.core.model.cluster import Pod
from lbcf.core.model.node_backends import NodeBackend, ServiceBackend
from lbcf.core.model.nodes import Node, Service
from lbcf.core.model.resources import BackendRecord, StaticBackend
from lbcf.core.selection.legacy import is_about


_FINISHED = frozenset({"Succeeded", "Failed"})


def may_be_marked(record: BackendRecord) -> bool:
    """Tell whether a record's drain has to wait, so that it matters for whom.

    One that ends at once costs nothing more; of a static address nobody knows anything.
    """
    return (
        record.is_deleting
        and record.is_held
        and record.status.drain is not None
        and not record.status.backend_gone
        and not isinstance(record.spec.backend, StaticBackend)
    )


def is_pod_gone(record: BackendRecord, pod: Pod | None) -> bool:
    """Tell whether a record's pod does not exist, has ended, or is at another address.

    Args:
        record: of a pod.
        pod: that has its name; None: there is none.
    """
    if pod is None or not is_about(record, pod) or pod.phase in _FINISHED:
        return True
    host = record.spec.host
    return bool(host and pod.address) and pod.address != host


def is_node_gone(record: BackendRecord, node: Node | None) -> bool:
    """Tell whether a record's node does not exist, or has not its address any more.

    Args:
        record: of a node, or of a Service at one.
        node: that has its name; None: there is none.
    """
    if node is None:
        return True
    host, uid = record.spec.host, record.spec.node_uid
    addresses = {a.address for a in node.addresses}
    moved = bool(host and addresses) and host not in addresses
    return moved or bool(uid and uid != node.meta.uid)


def is_port_gone(record: BackendRecord, service: Service | None) -> bool:
    """Tell whether a record's node port is no longer its Service's: it may be another's.

    Args:
        record: of a Service at a node.
        service: that has its name; None: there is none.
    """
    backend = record.spec.backend
    if service is None or not isinstance(backend, ServiceBackend):
        return True
    return all(port.node_port != backend.node_port for port in service.ports)


def node_of(record: BackendRecord) -> str:
    """Name the node that a record is about, empty where it is about none."""
    match record.spec.backend:
        case ServiceBackend(node=node) | NodeBackend(name=node):
            return node
        case _:
            return ""
