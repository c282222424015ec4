"""Where a backend is, and whether the backend of a record is still there.

A driver may register a backend under a name of its own, such as the id of an instance. So
that a backend has moved is decided by what it reports itself: a pod by its IP, a node by
its address and uid. Records keep both from their create. While a record drains, a backend
that is gone ends the drain: its address may be another's at any moment, with all clients
that a load balancer keeps sending there.
"""

from collections.abc import Iterator, Mapping

import attrs

from lbcf.core.model.cluster import Pod, Snapshot
from lbcf.core.model.node_backends import NodeRef, ServiceRef
from lbcf.core.model.nodes import Node, NodePortService
from lbcf.core.model.resources import BackendRecord, PodRef, StaticRef
from lbcf.core.model.values import AddressSource, Uid
from lbcf.core.selection.legacy import is_about


@attrs.frozen
class Location:
    """What a backend reports of itself.

    Attributes:
        host: IP address or name, empty while it has none.
        node_uid: of the node, empty for pods: a pod's uid is part of who it is.
    """

    host: str
    node_uid: Uid = Uid("")


def locations_of(snapshot: Snapshot) -> Mapping[str, Location]:
    """Return where the backends of a snapshot are: pods by uid, nodes by name."""
    return dict(_locations(snapshot))


def _locations(snapshot: Snapshot) -> Iterator[tuple[str, Location]]:
    for pod in snapshot.pods:
        yield pod.meta.uid, Location(pod.address)
    scene = snapshot.scene
    if scene is not None:
        for name, node in scene.nodes.items():
            yield name, Location(scene.address(node), node.meta.uid)


def backend_key(record: BackendRecord) -> str:
    """Return the key of a record's backend in `locations_of`; empty for static ones."""
    match record.spec.backend:
        case PodRef(uid=uid):
            return uid
        case ServiceRef(node=node) | NodeRef(name=node):
            return node
        case _:
            return ""


def has_moved(record: BackendRecord, now: Location, source: AddressSource) -> bool:
    """Return whether a record's backend is certainly elsewhere than when it was made.

    Args:
        record: one that says nothing of it was made by LBCF in Go, or by a version before
            this rule: nothing is concluded then.
        now: where the backend is.
        source: who spells its address.
    """
    spec = record.spec
    if spec.host and now.host and spec.host != now.host:
        return True
    # A node of the same name and address under another uid is another machine to a driver
    # that finds members by their instance id; where the address is registered it is the
    # same member.
    if source is AddressSource.BACKEND or not spec.node_uid:
        return False
    return bool(now.node_uid) and spec.node_uid != now.node_uid


def may_be_marked(record: BackendRecord) -> bool:
    """Return whether a record's drain is under way, and its backend is not known to be gone."""
    return (
        record.is_deleting
        and record.is_held
        and record.status.drain is not None
        and not record.status.backend_gone
        and not isinstance(record.spec.backend, StaticRef)
    )


def is_pod_gone(record: BackendRecord, pod: Pod | None) -> bool:
    """Return whether a record's pod does not exist, has ended, or is at another address.

    Args:
        record: of a pod.
        pod: that has its name; None: there is none.
    """
    if pod is None or not is_about(record, pod) or pod.has_finished:
        return True
    host = record.spec.host
    return bool(host and pod.address) and pod.address != host


def is_node_gone(record: BackendRecord, node: Node | None) -> bool:
    """Return whether a record's node does not exist, or has not its address any more.

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


def is_port_gone(record: BackendRecord, service: NodePortService | None) -> bool:
    """Return whether a record's node port is no longer its Service's: it may be another's.

    Args:
        record: of a Service at a node.
        service: that has its name; None: there is none.
    """
    backend = record.spec.backend
    if service is None or not isinstance(backend, ServiceRef):
        return True
    return all(port.node_port != backend.node_port for port in service.ports)


def node_of(record: BackendRecord) -> str:
    """Return the name of a record's node, empty where it has none."""
    match record.spec.backend:
        case ServiceRef(node=node) | NodeRef(name=node):
            return node
        case _:
            return ""
