"""Everything the controller has read of the cluster, with the indexes it asks by."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

from lbcf.controller.endpoint_slices import EndpointSliceCache
from lbcf.controller.selector_index import (
    LabelSets,
    clues_for,
    clues_of,
    does_select,
    node_clues_for,
    node_clues_of,
    template_of,
)
from lbcf.core.lifecycle import locking
from lbcf.core.lifecycle.listing import can_drift
from lbcf.core.lifecycle.turn import driver_for_namespace, find_driver
from lbcf.core.model import conditions, names
from lbcf.core.model.binds import Bind
from lbcf.core.model.cluster import Pod
from lbcf.core.model.node_backends import (
    AddressType,
    NodeRef,
    NodeSelection,
    ServiceRef,
    ServiceSelection,
)
from lbcf.core.model.nodes import Node, NodePortService
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    LoadBalancer,
    LoadBalancerDriver,
    PodRef,
    PodSelection,
    StaticRef,
)
from lbcf.core.model.services import LoadBalancerClass
from lbcf.core.model.shards import WHOLE, Shard
from lbcf.core.model.values import ObjectKey, Port, Uid, host_port
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.legacy import is_about
from lbcf.core.selection.location import may_be_marked, node_of
from lbcf.core.wording import some_of
from lbcf.kube.kinds import HasMeta
from lbcf.kube.list_watch import Selection
from lbcf.kube.store import Store


LIVING_PODS = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")
"""A pod that ends for good leaves this selection, which the watch tells as a deletion:
the finished pods of jobs never take memory here."""


_EVERYWHERE = ""


def _means(group: BackendGroup, node: Node) -> bool:
    selection = group.selection
    if not isinstance(selection, NodeSelection | ServiceSelection):
        return False
    return selection.selector.matches(node.meta.labels)


def _driver_of(owner: LoadBalancer | BackendRecord) -> Iterator[ObjectKey]:
    yield owner.driver_key


def _group_of(record: BackendRecord) -> Iterator[ObjectKey]:
    if record.group is not None:
        yield record.group


def _pod_of(record: BackendRecord) -> Iterator[tuple[ObjectKey, str]]:
    """Index records by owner and pod, or node."""
    if record.group is None:
        return
    match record.spec.backend:
        case PodRef(name=name):
            yield record.group, name
        case ServiceRef(node=name) | NodeRef(name=name):
            yield record.group, name
        case _:
            return


def _ending_of(record: BackendRecord) -> Iterator[tuple[str, ObjectKey]]:
    """Index records that are being drained by what they are about."""
    if not may_be_marked(record):
        return
    namespace, backend = record.meta.key.namespace, record.spec.backend
    if node := node_of(record):
        yield "node", ObjectKey("", node)
    if isinstance(backend, PodRef):
        yield "pod", ObjectKey(namespace, backend.name)
    elif isinstance(backend, ServiceRef):
        yield "service", ObjectKey(namespace, backend.name)


def _load_balancer_of(record: BackendRecord) -> Iterator[ObjectKey]:
    yield record.load_balancer_key


def _coming_of(record: BackendRecord) -> Iterator[ObjectKey]:
    """Index by owner the records of pods that are not registered yet."""
    is_coming = not record.is_deleting and not record.is_in
    if (
        is_coming
        and record.group is not None
        and isinstance(record.spec.backend, PodRef)
    ):
        yield record.group


def _holder_of(record: BackendRecord) -> Iterator[Uid]:
    """Index the records that wait for an address by who has it."""
    waiting = record.status.waiting
    if waiting is not None and not record.address and not record.is_deleting:
        yield waiting.holder


def _membership_of(record: BackendRecord) -> Iterator[ObjectKey]:
    if can_drift(record):
        yield record.load_balancer_key


def _identity_of(load_balancer: LoadBalancer) -> Iterator[Hashable]:
    """Index load balancers by what they are to their driver."""
    if load_balancer.info is not None:
        yield _identity(load_balancer.driver_key, load_balancer.info)


def _identity(driver: ObjectKey, info: Mapping[str, str]) -> Hashable:
    return driver, *sorted(info.items())


def load_balancers_of(group: BackendGroup) -> Iterator[ObjectKey]:
    """Return where a group's load balancers live."""
    for name in group.load_balancers:
        yield group.load_balancer_key(name)


def _service_of(group: BackendGroup) -> Iterator[ObjectKey]:
    if isinstance(group.selection, ServiceSelection):
        yield ObjectKey(group.meta.key.namespace, group.selection.name)


def _exposed_by(derived: LoadBalancer | BackendGroup) -> Iterator[ObjectKey]:
    """Index what is derived from Services by the Service."""
    if name := derived.meta.labels.get(names.LABEL_EXPOSES):
        yield ObjectKey(derived.meta.key.namespace, name)


def _balanced_by(service: NodePortService) -> Iterator[bool]:
    """Index the Services that are, or were, of type LoadBalancer."""
    if service.exposure is not None:
        yield True


def _waits_for_address(service: NodePortService) -> Iterator[bool]:
    """Index the Services whose class had no address left for them."""
    said = service.exposure.conditions if service.exposure else ()
    found = conditions.find(said, conditions.LOAD_BALANCER_READY)
    if found is not None and found.reason is Reason.ADDRESSES_EXHAUSTED:
        yield True


def _namespace_of(group: BackendGroup) -> Iterator[str]:
    yield group.meta.key.namespace


def _judge_of(group: BackendGroup) -> Iterator[ObjectKey]:
    if group.webhook_driver_key is not None:
        yield group.webhook_driver_key


def _node_name_of(pod: Pod) -> Iterator[str]:
    if pod.node:
        yield pod.node


def _awaiting_of(pod: Pod) -> Iterator[str]:
    """Index pods that wait for their readiness gate by namespace, and all of them by none."""
    if pod.awaits_gate:
        yield pod.meta.key.namespace
        yield _EVERYWHERE


class View:
    """The stores.

    Args:
        shard: whose namespaces the stores of pods, Services, groups, Binds and records
            have. Those of load balancers, drivers, classes and nodes have all there are.

    Attributes:
        shard: the same.
        others: records of other shards, at load balancers that are this one's.
    """

    def __init__(self, shard: Shard = WHOLE) -> None:
        self.shard = shard
        self.pods: Store[Pod] = Store(
            {
                "template": template_of,
                "awaiting": _awaiting_of,
                "node": _node_name_of,
            },
            where=self._is_own,
        )
        self._templates = LabelSets()
        self.pods.on_change(self._templates.pod_changed)
        self.nodes: Store[Node] = Store()
        self.services: Store[NodePortService] = Store(
            {"exposed": _balanced_by, "unaddressed": _waits_for_address},
            where=self._is_own,
        )
        self.classes: Store[LoadBalancerClass] = Store()
        self.endpoints = EndpointSliceCache()
        self.drivers: Store[LoadBalancerDriver] = Store()
        self.load_balancers: Store[LoadBalancer] = Store(
            {
                "driver": _driver_of,
                "service": _exposed_by,
                "identity": _identity_of,
            }
        )
        self.groups: Store[BackendGroup] = Store(
            {
                "namespace": _namespace_of,
                "load_balancer": load_balancers_of,
                "clue": clues_of,
                "judge": _judge_of,
                "service": _service_of,
                "exposed_by": _exposed_by,
                "node_clue": node_clues_of,
            },
            where=self._is_own,
        )
        self.binds: Store[Bind] = Store(where=self._is_own)
        self.records: Store[BackendRecord] = Store(
            {
                "driver": _driver_of,
                "group": _group_of,
                "pod": _pod_of,
                "load_balancer": _load_balancer_of,
                "membership": _membership_of,
                "ending": _ending_of,
                "coming": _coming_of,
                "holder": _holder_of,
            },
            where=self._is_own,
        )
        self.others: Store[BackendRecord] = Store(
            {"load_balancer": _load_balancer_of, "membership": _membership_of},
            where=lambda key: not self._is_own(key),
        )

    def driver(self, key: ObjectKey) -> LoadBalancerDriver | Explanation:
        """Find a driver, or say why there is none."""
        unreadable = self.drivers.unreadable.get(key)
        return find_driver(key, self.drivers.get(key), unreadable)

    def driver_of(
        self, load_balancer: LoadBalancer
    ) -> LoadBalancerDriver | Explanation:
        """Find the driver that may serve a load balancer, or say why none may."""
        found = self.driver(load_balancer.driver_key)
        return driver_for_namespace(found, load_balancer.meta.key.namespace)

    def lacks_lock_key(self, record: BackendRecord) -> bool:
        """Return whether it is unknown by which keys a record's address is locked.

        Its load balancer has none written down yet, is not there, or is another one now.
        """
        found = self.load_balancers.get(record.load_balancer_key)
        return found is None or not found.lock_keys or not found.is_of(record.spec)

    def lock_keys(self, load_balancer: ObjectKey) -> tuple[str, ...]:
        """Return under which keys addresses are locked there; empty: none is known.

        Those of all that its driver knows as the same one, in one order for all of them,
        the newest first: one whose status could not be written when a key changed, and one
        that was made since, would have no key in common.
        """
        found = self.load_balancers.get(load_balancer)
        if found is None:
            return ()
        return self.shared_lock_keys(found.driver_key, found.info)

    def shared_lock_keys(
        self, driver: ObjectKey, info: Mapping[str, str] | None
    ) -> tuple[str, ...]:
        """Return the same for a load balancer by what it is to its driver.

        Args:
            driver: its key.
            info: lbInfo; None: it has not been created.
        """
        if info is None:
            return ()
        identity = _identity(driver, info)
        same = list(self.load_balancers.by_index("identity", identity))
        same.sort(key=lambda other: str(other.meta.key))
        return locking.in_order(other.lock_keys for other in same)

    def limit(self, load_balancer: ObjectKey) -> int | None:
        """Return how many calls a load balancer bears at a time, None: any number."""
        found = self.load_balancers.get(load_balancer)
        return None if found is None else found.max_concurrent_calls

    def records_of(self, group: ObjectKey) -> Collection[BackendRecord]:
        """Find all records that a group owns."""
        return self.records.by_index("group", group)

    def pods_coming(self, group: ObjectKey) -> set[str]:
        """Return the names of a group's pods that have records not yet registered."""
        found = (r.spec.backend for r in self.records.by_index("coming", group))
        return {backend.name for backend in found if isinstance(backend, PodRef)}

    def pods_awaiting(self) -> Mapping[str, int]:
        """Count the pods that wait for their readiness gate, by namespace."""
        found = self.pods.by_index("awaiting", _EVERYWHERE)
        return Counter(pod.meta.key.namespace for pod in found)

    def nodes_gone(self, pods: Iterable[Pod]) -> frozenset[str]:
        """Return which nodes of pods that are being deleted do not exist any more."""
        names = {pod.node for pod in pods if pod.is_terminating and pod.node}
        known = (self.nodes.get, self.nodes.unreadable.get)
        return frozenset(
            name
            for name in names
            if all(get(ObjectKey("", name)) is None for get in known)
        )

    def nodes_drained(self, pods: Iterable[Pod]) -> Mapping[str, str]:
        """Return which nodes of pods are drained by hand, and why."""
        found = {
            name: self.nodes.get(ObjectKey("", name))
            for name in {pod.node for pod in pods}
        }
        return {
            name: node.meta.drained_for
            for name, node in found.items()
            if node is not None and node.meta.drained_for
        }

    def drained_by_hand(self, group: BackendGroup) -> list[str]:
        """Say what of a group is out of service by hand: all of it, nodes, and pods."""
        if group.meta.drained_for:
            return [f"all of it: {group.meta.drained_for}"]
        if isinstance(group.selection, PodSelection):
            pods = list(self.selected_pods(group))
            nodes = self.nodes_drained(pods)
            said = [(f"pod {pod.meta.key.name}", pod.meta.drained_for) for pod in pods]
        else:
            found = (n for n in self.nodes.values() if n.meta.drained_for)
            nodes = {n.name: n.meta.drained_for for n in found if _means(group, n)}
            said = []
        said = [*((f"node {name}", why) for name, why in nodes.items()), *said]
        return [f"{what}: {why}" for what, why in sorted(said) if why]

    def waiting_for(self, holder: Uid) -> Collection[BackendRecord]:
        """Find the records that wait for an address that a record has."""
        return self.records.by_index("holder", holder)

    def members_of(self, load_balancer: ObjectKey) -> Collection[BackendRecord]:
        """Find the records that are registered on a load balancer, and are to stay."""
        return self._at("membership", load_balancer)

    def records_at(self, load_balancer: ObjectKey) -> Collection[BackendRecord]:
        """Find all records of a load balancer that is this shard's, whoever has them."""
        return self._at("load_balancer", load_balancer)

    def member_count(self, load_balancer: ObjectKey) -> int:
        """Count the records that are registered on a load balancer, and are to stay."""
        return self._count_at("membership", load_balancer)

    def record_count(self, load_balancer: ObjectKey) -> int:
        """Count all records of a load balancer that is this shard's, whoever has them."""
        return self._count_at("load_balancer", load_balancer)

    def _count_at(self, index: str, load_balancer: ObjectKey) -> int:
        stores = (self.records, self.others)
        return sum(store.count(index, load_balancer) for store in stores)

    def _at(self, index: str, load_balancer: ObjectKey) -> Collection[BackendRecord]:
        own = self.records.by_index(index, load_balancer)
        others = self.others.by_index(index, load_balancer)
        return (*own, *others) if others else own

    def record(self, key: ObjectKey) -> BackendRecord | None:
        """Find a record, this shard's or one of another at its load balancers."""
        return self._store_of(key).get(key)

    def observe_record(self, record: BackendRecord) -> None:
        """Take in what a list, or an own write, has shown of a record of any shard."""
        self._store_of(record.meta.key).observe(record)

    def _store_of(self, key: ObjectKey) -> Store[BackendRecord]:
        return self.records if self._is_own(key) else self.others

    def _is_own(self, key: ObjectKey) -> bool:
        return self.shard.has_namespace(key.namespace)

    def groups_meaning(self, pod: Pod) -> Iterator[BackendGroup]:
        """Find the groups that select a pod."""
        for clue in clues_for(pod):
            for group in self.groups.by_index("clue", clue):
                if does_select(group, pod):
                    yield group

    def selected_pods(self, group: BackendGroup) -> Iterator[Pod]:
        """Find the pods that a group means."""
        selection, namespace = group.selection, group.meta.key.namespace
        if not isinstance(selection, PodSelection):
            return
        if selection.names is not None:
            found = (self.pods.get(ObjectKey(namespace, n)) for n in selection.names)
            yield from (pod for pod in found if pod is not None)
        elif selection.selector is not None:
            for template in self._templates.matching(namespace, selection.selector):
                for pod in self.pods.by_index("template", template):
                    if pod.meta.key.name not in selection.excluded:
                        yield pod

    def groups_on_nodes(self) -> Collection[BackendGroup]:
        """Find the groups whose backends are nodes."""
        return self.groups.by_index("node_clue", ())

    def groups_near(self, *nodes: Node | None) -> Iterator[BackendGroup]:
        """Find the groups that may select one of these nodes, each once."""
        clues = (c for node in nodes if node is not None for c in node_clues_for(node))
        found = (g for c in set(clues) for g in self.groups.by_index("node_clue", c))
        yield from {group.meta.key: group for group in found}.values()

    def service_of(self, group: BackendGroup) -> NodePortService | None:
        """Find the Service whose node port a group means."""
        selection = group.selection
        if not isinstance(selection, ServiceSelection):
            return None
        return self.services.get(ObjectKey(group.meta.key.namespace, selection.name))

    def is_local_used(self, service: ObjectKey) -> bool:
        """Return whether groups mean a Service whose nodes serve by their own pods."""
        found = self.services.get(service)
        used = bool(self.groups.by_index("service", service))
        return used and found is not None and found.is_local

    def has_backend(self, record: BackendRecord) -> bool:
        """Return whether the pod or node of a record still exists."""
        backend = record.spec.backend
        if isinstance(backend, PodRef):
            pod = self.pods.get(ObjectKey(record.meta.key.namespace, backend.name))
            return pod is not None and is_about(record, pod) and not pod.is_terminating
        return self.nodes.get(ObjectKey("", node_of(record))) is not None

    def _node_address(self, record: BackendRecord, node: str, port: Port) -> str:
        """Return where a record's node listens, empty where that is not known."""
        found = self.nodes.get(ObjectKey("", node))
        group = self.groups.get(record.group) if record.group is not None else None
        if found is None or group is None:
            return ""
        if isinstance(group.selection, NodeSelection):
            kind, family = group.selection.address_type, group.selection.family
            host = found.address(kind, family)
        else:
            service = self.service_of(group)
            family = None if service is None else service.family
            host = found.address(AddressType.INTERNAL_IP, family)
        return host_port(host, port) if host else ""

    def backend_address(self, record: BackendRecord) -> str:
        """Return where a record's own backend listens, empty where that is not known."""
        backend = record.spec.backend
        match backend:
            case StaticRef(address):
                return address
            case PodRef(name=name, port=port):
                pod = self.pods.get(ObjectKey(record.meta.key.namespace, name))
                if pod is None or not is_about(record, pod) or not pod.address:
                    return ""
                return host_port(pod.address, port)
            case ServiceRef(node=node, node_port=number):
                return self._node_address(record, node, Port(number))
            case NodeRef(name=node, port=port):
                return self._node_address(record, node, port)


def needs_of(view: View, driver: ObjectKey) -> list[str]:
    """Say who needs a driver; what cannot be read may need it."""
    found = {
        "LoadBalancer": _keys(view.load_balancers.by_index("driver", driver)),
        "BackendGroup": _keys(view.groups.by_index("judge", driver)),
        "BackendRecord": _keys(view.records.by_index("driver", driver)),
        "unreadable LoadBalancer": _unreadable(view.load_balancers, driver),
        "unreadable BackendGroup": _unreadable(view.groups, driver),
        "unreadable Bind": _unreadable(view.binds, driver),
        "unreadable BackendRecord": _unreadable(view.records, driver),
    }
    return [_users(kind, keys) for kind, keys in found.items() if keys]


def _keys(users: Collection[HasMeta]) -> list[ObjectKey]:
    return [user.meta.key for user in users]


def _unreadable(
    store: Store[LoadBalancer]
    | Store[BackendGroup]
    | Store[Bind]
    | Store[BackendRecord],
    driver: ObjectKey,
) -> list[ObjectKey]:
    # Only namespaces from which the driver can be used.
    serves_all = names.home_of(driver.name, "") == driver
    return [key for key in store.unreadable if serves_all or key[0] == driver.namespace]


def _users(kind: str, keys: list[ObjectKey]) -> str:
    shown = some_of([str(key) for key in sorted(keys)])
    return f"{kind}{'s' if len(keys) > 1 else ''} {shown}"
