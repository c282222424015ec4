"""May this node be a backend now? A chain of checks, of which the first verdict counts.

The rules are KEP-3458's and KEP-3836's: a node is in as long as it can pass traffic on.
NotReady and cordoned speak of its kubelet and of new pods, and no check looks at them:
load balancers that acted upon them have emptied themselves.
"""

from collections.abc import Callable, Iterable, Mapping

from lbcf.core.model.node_backends import NodeRef, ServiceRef
from lbcf.core.model.nodes import EXCLUDE_LABEL, LocalState, Node, NodeScene
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.verdicts import Eligible, Ineligible, Undecided, Verdict
from lbcf.core.reasons import Reason


NodeCheck = Callable[[Node, NodeScene], Verdict | None]


def _is_closed(_node: Node, scene: NodeScene) -> Verdict | None:
    """Without a node port of the Service no node has anything to register."""
    closed = scene.closed
    return None if closed is None else Ineligible(closed.reason, closed.message)


def _is_excluded(node: Node, _scene: NodeScene) -> Verdict | None:
    """A label takes it out of all load balancers (KEP-1143)."""
    if not node.is_excluded:
        return None
    return Ineligible(
        Reason.NODE_EXCLUDED, f"node {node.name} has the label {EXCLUDE_LABEL}"
    )


def _is_leaving(node: Node, scene: NodeScene) -> Verdict | None:
    """A node about to be deleted leaves before; with Local, once its own pods have left."""
    # A scale-in also cuts connections that pass through the node to pods elsewhere, of
    # which no eviction tells.
    if scene.local is not None and scene.local.get(node.name) is LocalState.READY:
        return None
    if node.meta.deleting_since is not None:
        return Ineligible(Reason.NODE_LEAVING, f"node {node.name} is being deleted")
    if node.leaving:
        taints = ", ".join(sorted(node.leaving))
        return Ineligible(
            Reason.NODE_LEAVING, f"node {node.name} is about to go: taint {taints}"
        )
    return None


def _has_no_local_endpoint(node: Node, scene: NodeScene) -> Verdict | None:
    """With Local, kube-proxy serves nothing on a node without a pod of the Service."""
    if scene.local is None:
        return None
    state = scene.local.get(node.name)
    if state is LocalState.READY:
        return None
    if state is LocalState.UNREADY:
        message = f"no endpoint on node {node.name} is ready"
        return Ineligible(Reason.NO_READY_LOCAL_ENDPOINT, message, by_readiness=True)
    message = f"node {node.name} has no ready endpoint of its own"
    return Ineligible(Reason.NO_READY_LOCAL_ENDPOINT, message)


def _has_no_address(node: Node, scene: NodeScene) -> Verdict | None:
    """Nothing to register, and no reason to deregister."""
    if scene.address(node):
        return None
    family = f"{scene.family} " if scene.family else ""
    message = f"node {node.name} has no {family}address of type {scene.address_type}"
    return Undecided(Reason.NODE_HAS_NO_ADDRESS, message)


NODE_CHECKS: tuple[NodeCheck, ...] = (
    _is_closed,
    _is_excluded,
    _is_leaving,
    _has_no_local_endpoint,
    _has_no_address,
)


def judge_node(node: Node, scene: NodeScene) -> Verdict:
    """Judge one selected node by itself."""
    verdicts = (check(node, scene) for check in NODE_CHECKS)
    return next((v for v in verdicts if v is not None), Eligible())


def judge_nodes(
    scene: NodeScene, records: Iterable[BackendRecord], load_balancers: Iterable[str]
) -> dict[str, Verdict]:
    """Judge all nodes of a scene.

    Args:
        scene: what is known of them.
        records: of the group.
        load_balancers: names of those that a node must be registered at to count.
    """
    verdicts = {name: judge_node(node, scene) for name, node in scene.nodes.items()}
    if scene.local is not None:
        able = registered_nodes(records, load_balancers)
        verdicts = _keep_last_serving(verdicts, scene.local, able)
    for name, message in scene.unreadable.items():
        text = f"node {name} cannot be understood, nothing of it is changed: {message}"
        verdicts[name] = Undecided(Reason.NODE_UNREADABLE, text)
    return verdicts


def registered_nodes(
    records: Iterable[BackendRecord], load_balancers: Iterable[str]
) -> frozenset[str]:
    """Return the nodes that are registered at every load balancer and are to stay so."""
    found = {
        (r.spec.load_balancer, r.spec.backend.node)
        for r in records
        if isinstance(r.spec.backend, ServiceRef | NodeRef)
        and r.is_registered
        and not r.is_deleting
    }
    wanted = set(load_balancers)
    return frozenset(
        node for _, node in found if all((name, node) in found for name in wanted)
    )


def _keep_last_serving(
    verdicts: Mapping[str, Verdict],
    local: Mapping[str, LocalState],
    able: frozenset[str],
) -> dict[str, Verdict]:
    """Keep nodes whose pods end but still serve until another node has taken over.

    A new pod on another node is ready before that node is registered: to take the old
    node out in between would leave nobody.
    """
    if any(isinstance(v, Eligible) and name in able for name, v in verdicts.items()):
        return dict(verdicts)
    return {name: _kept(name, v, local.get(name)) for name, v in verdicts.items()}


def _kept(name: str, verdict: Verdict, state: LocalState | None) -> Verdict:
    # A node whose terminating pods still serve is kept until another one is registered.
    if state is not LocalState.SERVING or not isinstance(verdict, Ineligible):
        return verdict
    if verdict.reason not in {Reason.NODE_LEAVING, Reason.NO_READY_LOCAL_ENDPOINT}:
        return verdict
    message = (
        f"{verdict.message}; kept while its pods that are ending still serve, since no "
        f"other node can take over yet. To override, label node {name} with "
        f"{EXCLUDE_LABEL}"
    )
    return Undecided(Reason.LAST_SERVING_NODE, message)
