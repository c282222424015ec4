"""Where backends are by their own word, and whether a record still means that place.

Before it: a `Snapshot`. After it: `lbcf.core.selection.plan` ends records whose backend is elsewhere.
What is registered may be spelled by a driver in words of its own, such as the id of an
instance. That a backend has moved is seen by what it says of itself: a pod by its IP, a
node by its address and its uid. Both are kept in each record from its create.
"""

from collections.abc import Iterator, Mapping

import attrs

from lbcf.core.model.cluster import Snapshot
from lbcf.core.model.node_backends import NodeBackend, ServiceBackend
from lbcf.core.model.resources import BackendRecord, PodBackend
from lbcf.core.model.values import AddressSource, Uid


@attrs.frozen
class Whereabouts:
    """What a backend says of itself.

    Attributes:
        host: IP address or name, empty while it has none.
        node_uid: of the node, empty for pods: a pod's uid is part of who it is.
    """

    host: str
    node_uid: Uid = Uid("")


def whereabouts_of(snapshot: Snapshot) -> Mapping[str, Whereabouts]:
    """Say where the backends of a snapshot are: pods by uid, nodes by name."""
    return dict(_found(snapshot))


def _found(snapshot: Snapshot) -> Iterator[tuple[str, Whereabouts]]:
    """Say the same one by one."""
    for pod in snapshot.pods:
        yield pod.meta.uid, Whereabouts(pod.address)
    scene = snapshot.scene
    if scene is not None:
        for name, node in scene.nodes.items():
            yield name, Whereabouts(scene.address(node), node.meta.uid)


def backend_key(record: BackendRecord) -> str:
    """Say under which key a record's backend is found; empty for a static address."""
    match record.spec.backend:
        case PodBackend(uid=uid):
            return uid
        case ServiceBackend(node=node) | NodeBackend(name=node):
            return node
        case _:
            return ""


def has_moved(record: BackendRecord, now: Whereabouts, source: AddressSource) -> bool:
    """Tell whether a record's backend is certainly elsewhere than when it was made.

    A node of the same name and address under another uid is another machine to a driver
    that finds members by what the cloud calls them; where the address itself is
    registered it is the same member.

    Args:
        record: one that says nothing of it was made by LBCF in Go, or by a version before
            this rule: nothing is concluded then.
        now: where the backend is.
        source: who spells its address.
    """
    spec = record.spec
    if spec.host and now.host and spec.host != now.host:
        return True
    if source is AddressSource.BACKEND or not spec.node_uid:
        return False
    return bool(now.node_uid) and spec.node_uid != now.node_uid
