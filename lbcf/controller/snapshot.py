"""One complete reading of all that decides about a group, or the lack of one.

A reference that leads nowhere, or to something that cannot be read, is no empty answer:
what depends on it is undecided.
"""

from collections.abc import Collection, Iterable, Iterator

from lbcf.controller.view import View
from lbcf.core.model.cluster import Attachment, Leaving, Pod, Snapshot
from lbcf.core.model.node_backends import NodeSelection, ServiceSelection
from lbcf.core.model.nodes import LocalState, Node, NodePortService, NodeScene
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    PodSelection,
    StaticSelection,
)
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.location import node_of


def take_snapshot(
    view: View, group: BackendGroup, pods: Collection[str] | None = None
) -> Snapshot | Explanation:
    """Gather what decides about a group.

    Args:
        view: what has been read.
        group: whose records are to be decided on.
        pods: names of the only pods, or nodes, to look at, None for all of the group.
            Of a group that selects none all is looked at: what it owns beside would be
            missed.
    """
    if isinstance(group.selection, StaticSelection):
        pods = None
    doubt = _doubt(view, group)
    if doubt is not None:
        return doubt
    scene = take_scene(view, group, pods)
    if isinstance(scene, Explanation):
        return scene
    attachments: dict[str, Attachment] = {}
    undecided: dict[str, Explanation] = {}
    leaving: dict[str, Explanation] = {}
    for name in group.load_balancers:
        found = find_attachment(view, group, name)
        match found:
            case Attachment():
                attachments[name] = found
            case Explanation():
                undecided[name] = found
            case Leaving(why):
                leaving[name] = why
    selected = tuple(_pods(view, group, pods))
    return Snapshot(
        group=group,
        attachments=attachments,
        undecided=undecided,
        pods=selected,
        records=tuple(_records_in_scope(view, group, pods)),
        scene=scene,
        leaving=leaving,
        nodes_gone=view.nodes_gone(selected),
        nodes_drained=view.nodes_drained(selected),
    )


def _doubt(view: View, group: BackendGroup) -> Explanation | None:
    """Return what makes the whole reading doubtful."""
    namespace = group.meta.key.namespace
    for store, reason, kind in (
        (view.pods, Reason.POD_UNREADABLE, "pod"),
        (view.records, Reason.RECORD_UNREADABLE, "BackendRecord"),
    ):
        for key, error in store.unreadable.items():
            if key.namespace == namespace:
                message = (
                    f"{kind} {key} cannot be understood, nothing is changed: {error}"
                )
                return Explanation(reason, message)
    return None


def find_attachment(
    view: View, group: BackendGroup, name: str
) -> Attachment | Explanation | Leaving:
    """Find one load balancer of a group; one that is being deleted leaves all of them."""
    if group.meta.deleting_since is not None:
        message = f"group {group.meta.key} is being deleted: its backends leave"
        return Leaving(Explanation(Reason.GROUP_DELETING, message))
    key = group.load_balancer_key(name)
    unreadable = view.load_balancers.unreadable.get(key)
    if unreadable is not None:
        message = f"LoadBalancer {key} cannot be understood: {unreadable}"
        return Explanation(Reason.LOAD_BALANCER_UNREADABLE, message)
    found = view.load_balancers.get(key)
    if found is None:
        message = f"LoadBalancer {key} does not exist; create it or take it out of spec"
        return Explanation(Reason.LOAD_BALANCER_NOT_FOUND, message)
    if found.meta.deleting_since is not None:
        message = (
            f"LoadBalancer {key} is being deleted: its backends leave; take it out of "
            "spec or use another one"
        )
        return Leaving(Explanation(Reason.LOAD_BALANCER_DELETING, message))
    if not found.is_open_to(group.meta.key.namespace):
        message = (
            f"LoadBalancer {key} is not in scope here: backends that it has leave; take "
            "it out of spec, or have the namespace added to its scope"
        )
        return Leaving(Explanation(Reason.LOAD_BALANCER_OUT_OF_SCOPE, message))
    driver = view.driver_of(found)
    if isinstance(driver, Explanation):
        is_left = driver.reason == Reason.DRIVER_OUT_OF_SCOPE
        return Leaving(driver) if is_left else driver
    if found.info is None:
        message = f"LoadBalancer {key} is not created yet; see its conditions"
        return Explanation(Reason.LOAD_BALANCER_NOT_CREATED, message)
    return Attachment(found, driver)


def _pods(
    view: View, group: BackendGroup, names: Collection[str] | None
) -> Iterable[Pod]:
    """Find the pods to look at."""
    if names is None:
        return view.selected_pods(group)
    selection = group.selection
    namespace = group.meta.key.namespace
    found = (view.pods.get(ObjectKey(namespace, name)) for name in names)
    return [
        pod
        for pod in found
        if pod is not None
        and isinstance(selection, PodSelection)
        and selection.selects(pod.meta.key.name, pod.meta.labels)
    ]


def _records_in_scope(
    view: View, group: BackendGroup, names: Collection[str] | None
) -> Iterable[BackendRecord]:
    """Find the records to look at; a namesake of the group owns other ones."""
    key = group.meta.key
    if names is None:
        found: Iterable[BackendRecord] = view.records_of(key)
    else:
        found = (r for n in names for r in view.records.by_index("pod", (key, n)))
    return [record for record in found if record.group_uid == group.meta.uid]


_Local = dict[str, LocalState]


def take_scene(
    view: View, group: BackendGroup, names: Collection[str] | None
) -> NodeScene | Explanation | None:
    """Gather what decides about a group's nodes.

    Args:
        view: what has been read.
        group: whose nodes.
        names: of the only nodes to look at, None for all.

    Returns:
        None for groups of anything but nodes.
    """
    match group.selection:
        case NodeSelection() as selection:
            return NodeScene(
                nodes=_nodes(view, selection, names),
                unreadable=_unreadable(view),
                address_type=selection.address_type,
                family=selection.family,
            )
        case ServiceSelection() as selection:
            return _service_scene(view, group, selection, names)
        case _:
            return None


def _service_scene(
    view: View,
    group: BackendGroup,
    selection: ServiceSelection,
    names: Collection[str] | None,
) -> NodeScene | Explanation:
    """Gather the same for the node port of a Service."""
    key = ObjectKey(group.meta.key.namespace, selection.name)
    if (told := view.services.unreadable.get(key)) is not None:
        message = f"Service {key} cannot be understood, nothing is changed: {told}"
        return Explanation(Reason.SERVICE_UNREADABLE, message)
    service = view.services.get(key)
    local = None if service is None else _local_states(view, service, selection)
    if isinstance(local, Explanation):
        return local
    if local is not None:
        names = _concerned(view, group, local)
    port = None if service is None else service.find_port(selection.port)
    return NodeScene(
        nodes=_nodes(view, selection, names),
        unreadable=_unreadable(view),
        family=None if service is None else service.family,
        node_port=port.node_port if port is not None else 0,
        local=local,
        closed=_closed(key, service, selection),
    )


def _closed(
    key: ObjectKey, service: NodePortService | None, selection: ServiceSelection
) -> Explanation | None:
    """Return why a Service has no node port to register."""
    if service is None:
        message = f"Service {key} does not exist; create it"
        return Explanation(Reason.SERVICE_NOT_FOUND, message)
    if service.meta.deleting_since is not None:
        return Explanation(Reason.SERVICE_DELETING, f"Service {key} is being deleted")
    port = service.find_port(selection.port)
    if port is None:
        message = f"Service {key} has no port {selection.port}; name one that it has"
        return Explanation(Reason.NODE_PORT_MISSING, message)
    if not port.node_port:
        message = (
            f"port {selection.port} of Service {key} has no node port; give it type "
            f"NodePort, it has {service.type}"
        )
        return Explanation(Reason.NODE_PORT_MISSING, message)
    return None


def _local_states(
    view: View, service: NodePortService, selection: ServiceSelection
) -> _Local | Explanation | None:
    """Return what each node has of a Service, None where its policy is not Local."""
    port = service.find_port(selection.port)
    if not service.is_local or port is None:
        return None
    key = service.meta.key
    if (told := view.endpoints.unreadable(key)) is not None:
        message = f"endpoints of Service {key} cannot be understood: {told}"
        return Explanation(Reason.ENDPOINTS_UNREADABLE, message)
    found = view.endpoints.states(key, port.name)
    if found is None:
        message = f"the endpoints of Service {key} have not been read yet"
        return Explanation(Reason.ENDPOINTS_UNREAD, message)
    return dict(found)


def _concerned(view: View, group: BackendGroup, local: _Local) -> set[str]:
    # Under Local a node without endpoints and without records decides nothing.
    records = view.records_of(group.meta.key)
    return {*local, *(name for r in records if (name := node_of(r)))}


def _nodes(
    view: View,
    selection: NodeSelection | ServiceSelection,
    names: Collection[str] | None,
) -> dict[str, Node]:
    """Find the nodes to look at."""
    selector = selection.selector
    if names is None:
        found = list(view.nodes.values())
    else:
        known = (view.nodes.get(ObjectKey("", name)) for name in sorted(names))
        found = [node for node in known if node is not None]
    return {node.name: node for node in found if selector.matches(node.meta.labels)}


def _unreadable(view: View) -> dict[str, str]:
    return {key.name: told for key, told in view.nodes.unreadable.items()}


def is_local(view: View, group: BackendGroup) -> bool:
    """Return whether a group's nodes serve by their own pods alone."""
    service = view.service_of(group)
    return service is not None and service.is_local


def count_nodes(view: View, group: BackendGroup) -> int:
    """Count a group's backends as LBCF does: 1 for a Service, else the nodes."""
    if isinstance(group.selection, NodeSelection):
        return len(_nodes(view, group.selection, None))
    return 1


def groups_concerned(
    view: View, old: Node | None, new: Node | None
) -> Iterator[BackendGroup]:
    """Find the groups for which a change of a node can change a decision."""
    either = new or old
    if either is None:
        return
    same = old is not None and new is not None and _is_alike(old, new)
    for group in view.groups_near(old, new):
        selection = group.selection
        if not isinstance(selection, NodeSelection | ServiceSelection):
            continue
        before, after = (
            node is not None and selection.selector.matches(node.meta.labels)
            for node in (old, new)
        )
        if (before != after or (after and not same)) and _has_part(view, group, either):
            yield group


def _is_alike(old: Node, new: Node) -> bool:
    """Return whether two versions of a node differ in their labels at most."""

    def deciding(node: Node) -> tuple[object, ...]:
        meta = node.meta
        ends = (meta.uid, meta.deleting_since, meta.drained_for, node.is_excluded)
        return (*ends, node.leaving, node.addresses)

    return deciding(old) == deciding(new)


def _has_part(view: View, group: BackendGroup, node: Node) -> bool:
    """Return whether a node has anything to do with a group: under Local, few have."""
    selection, key = group.selection, group.meta.key
    if not isinstance(selection, ServiceSelection) or not is_local(view, group):
        return True
    if view.records.by_index("pod", (key, node.name)):
        return True
    service = view.service_of(group)
    port = None if service is None else service.find_port(selection.port)
    if service is None or port is None:
        return True
    states = view.endpoints.states(service.meta.key, port.name)
    return states is None or node.name in states
