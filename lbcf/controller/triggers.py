"""Event handlers: a change in a store -> the keys that must be reconciled.

Every change costs the keys that it concerns, never a scan of all. What changes no decision
ends here: a node's heartbeats, NotReady, cordons and labels that no group asks for cost no
turn, no write and no call.
"""

from collections.abc import Callable
from datetime import timedelta

import attrs

from lbcf.controller.group_status import GroupStatusReconciler
from lbcf.controller.registrar import Registrar
from lbcf.controller.snapshot import groups_concerned, is_local
from lbcf.controller.view import View
from lbcf.core.lifecycle.serving import is_asked, is_back
from lbcf.core.model.cluster import Pod
from lbcf.core.model.node_backends import ServiceRef, ServiceSelection
from lbcf.core.model.nodes import Node, NodePortService
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    LoadBalancer,
    LoadBalancerDriver,
    PodRef,
)
from lbcf.core.model.values import ObjectKey
from lbcf.core.selection.location import node_of
from lbcf.kube.kinds import HasMeta
from lbcf.runtime.queue import WorkQueue


class ChangedBackends:
    """Names of changed pods by group; None stands for the whole group."""

    def __init__(self) -> None:
        self._changed: dict[ObjectKey, set[str] | None] = {}
        self._leaving: dict[ObjectKey, set[str]] = {}
        self._held: dict[ObjectKey, frozenset[str]] = {}
        self._strays: dict[ObjectKey, frozenset[str]] = {}

    def note(self, group: ObjectKey, pod: str) -> None:
        """Note that one pod changed, as far as this group is concerned."""
        changed = self._changed.setdefault(group, set())
        if changed is not None:
            changed.add(pod)

    def widen(self, group: ObjectKey) -> None:
        """Note that everything about a group may have changed."""
        self._changed[group] = None

    def note_leaving(self, group: ObjectKey, pod: str) -> None:
        """Note that one pod goes while the group's turn is under way."""
        self._leaving.setdefault(group, set()).add(pod)

    def hold(self, group: ObjectKey, pods: frozenset[str]) -> None:
        """Note all pods of a group that stay for now; each look looks at them again."""
        self._held.pop(group, None)
        if pods:
            self._held[group] = pods

    def is_holding(self, group: ObjectKey) -> bool:
        """Return whether pods of a group stay for now."""
        return group in self._held

    def holding(self) -> tuple[ObjectKey, ...]:
        """Return the groups of which pods stay for now."""
        return tuple(self._held)

    def keep(
        self, group: ObjectKey, scope: set[str] | None, strays: frozenset[str]
    ) -> None:
        """Note which pods and nodes stay although a group does not mean them any more.

        Args:
            group: whose records they have.
            scope: names of the only ones that were looked at, None for all.
            strays: those of them that stay.
        """
        known = self._strays.pop(group, frozenset())
        unseen = frozenset() if scope is None else known - scope
        if kept := unseen | strays:
            self._strays[group] = kept

    def keepers(self, name: str) -> list[ObjectKey]:
        """Return the groups where a pod or node stays that they do not mean any more."""
        return [group for group, strays in self._strays.items() if name in strays]

    def take_leaving(self, group: ObjectKey) -> set[str]:
        """Take the pods that went meanwhile; they are noted as changed as well."""
        return self._leaving.pop(group, set()) | self._held.get(group, frozenset())

    def take(self, group: ObjectKey) -> set[str] | None:
        """Take what changed; a group that nobody noted anything of is looked at whole."""
        changed = self._changed.pop(group, None)
        return None if changed is None else changed | self._held.get(group, frozenset())

    def pending(self, group: ObjectKey) -> set[str] | None:
        """Return what changed and is not taken yet; None stands for the whole group."""
        return self._changed.get(group, set())


_COUNT = timedelta(seconds=5)
"""How long changes are gathered before a load balancer's records are counted."""
_GATHER = timedelta(seconds=1)
"""How long changes are gathered before a group's status is looked at."""
_REPLACED = timedelta(seconds=0.2)
"""How long new pods are gathered before those go that have waited for them."""


@attrs.frozen
class Queues:
    """Where keys go.

    Attributes:
        groups: whose records are to be planned.
        departures: groups of which pods go while their turn is under way.
        load_balancers: to create, ensure, delete.
        records: to register.
        statuses: groups whose status may have something new to tell.
        drivers: whose own conditions may have something new to tell.
    """

    groups: WorkQueue[ObjectKey]
    departures: WorkQueue[ObjectKey]
    load_balancers: WorkQueue[ObjectKey]
    records: WorkQueue[ObjectKey]
    statuses: WorkQueue[ObjectKey]
    drivers: WorkQueue[ObjectKey]


def is_same_backend(old: Pod | None, new: Pod | None) -> bool:
    """Return whether a change of a pod can change no decision."""
    if old is None or new is None:
        return False
    return _deciding(old) == _deciding(new)


def _deciding(pod: Pod) -> tuple[object, ...]:
    meta = pod.meta
    known = (meta.uid, meta.deleting_since, meta.labels, meta.annotations)
    return (*known, pod.address, pod.is_ready, pod.phase)


def same_spec(old: HasMeta | None, new: HasMeta | None) -> bool:
    """Return whether it is one object with one spec, and being deleted as before, or not."""
    if old is None or new is None:
        return False
    before, after = old.meta, new.meta
    return (before.uid, before.generation, before.deleting_since) == (
        after.uid,
        after.generation,
        after.deleting_since,
    )


def _same_marks(old: HasMeta | None, new: HasMeta | None) -> bool:
    """Return whether labels, annotations and finalizers are as they were."""
    if old is None or new is None:
        return False
    before, after = old.meta, new.meta
    return (before.labels, before.annotations, before.finalizers) == (
        after.labels,
        after.annotations,
        after.finalizers,
    )


def same_but_status(old: HasMeta | None, new: HasMeta | None) -> bool:
    """Return whether nothing but the status of an object changed."""
    return same_spec(old, new) and _same_marks(old, new)


def _same_for_records(old: LoadBalancer | None, new: LoadBalancer | None) -> bool:
    """Return whether what a status adds to records is the same.

    The attributes of a Bind's load balancer are those that its driver was last given.
    """
    before, after = (one and (one.info, one.attributes) for one in (old, new))
    return before == after


def _same_drain(old: HasMeta | None, new: HasMeta | None) -> bool:
    before, after = (one.meta.drained_for if one else "" for one in (old, new))
    return before == after


def _progress(record: BackendRecord | None) -> tuple[bool, bool] | None:
    return None if record is None else (record.is_in, record.has_failed)


def _is_leaving(old: Pod | None, new: Pod | None) -> bool:
    if new is None or new.is_terminating:
        return True
    was_ready = old is not None and old.is_ready
    return (was_ready and not new.is_ready) or _is_drained_now(old, new)


def _is_drained_now(old: HasMeta | None, new: HasMeta | None) -> bool:
    """Return whether an object has the annotation that drains by hand, and had none."""
    drained = new is not None and bool(new.meta.drained_for)
    return drained and not (old is not None and old.meta.drained_for)


class Triggers:
    """Listens to the stores and fills the queues."""

    def __init__(
        self,
        view: View,
        scopes: ChangedBackends,
        queues: Queues,
        registrar: Registrar,
        statuses: GroupStatusReconciler,
    ) -> None:
        self._view = view
        self._statuses = statuses
        self._scopes = scopes
        self._queues = queues
        self._registrar = registrar

    def listen(self) -> None:
        """Begin to listen."""
        view = self._view
        view.pods.on_change(self.pod_changed)
        view.pods.on_unreadable(self.neighbour_unreadable)
        view.records.on_change(self.record_changed)
        view.records.on_unreadable(self.neighbour_unreadable)
        view.others.on_change(self.other_changed)
        view.groups.on_change(self.group_changed)
        view.groups.on_unreadable(self.look_at_group)
        view.load_balancers.on_change(self.load_balancer_changed)
        view.load_balancers.on_unreadable(self.load_balancer_unreadable)
        view.drivers.on_change(self.driver_changed)
        view.drivers.on_unreadable(self.look_at_users)

    def look_at_all(self) -> None:
        """Look at all that is there, at the groups first of which pods go."""
        view, queues = self._view, self._queues
        view.groups.tell_all(self.group_changed)
        view.pods.tell_all(self._see_pod)
        view.records.tell_all(self._see_record)
        for load_balancer in view.load_balancers.values():
            queues.load_balancers.add(load_balancer.meta.key)
        for driver in view.drivers.values():
            queues.drivers.add(driver.meta.key)

    def _see_pod(self, _old: Pod | None, pod: Pod | None) -> None:
        if _is_leaving(None, pod):
            self.pod_changed(None, pod)

    def _see_record(
        self, _old: BackendRecord | None, record: BackendRecord | None
    ) -> None:
        self._registrar.record_changed(None, record)
        backend = None if record is None else record.spec.backend
        if record and record.group and isinstance(backend, PodRef):
            self._see_new(record, record.group, backend.name)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Look at the groups that select, or selected, a pod, or keep it nevertheless."""
        if is_same_backend(old, new):
            self._judge_again(new)
            return
        either = new or old
        if either is None:
            return
        key = either.meta.key
        leaving = _is_leaving(old, new)
        pods = [pod for pod in (old, new) if pod is not None]
        groups = [g.meta.key for pod in pods for g in self._view.groups_meaning(pod)]
        keepers = self._scopes.keepers(key.name)
        groups += (group for group in keepers if group.namespace == key.namespace)
        for group in dict.fromkeys(groups):
            self._scopes.note(group, key.name)
            self._queues.groups.add(group, urgent=leaving)
            self._look_at_status(group)
            if leaving:
                self._leave(group, key.name)

    def _leave(self, group: ObjectKey, pod: str) -> None:
        # A turn may be waiting for others' records to be written: this pod's go now.
        if self._queues.groups.is_in_work(group):
            self._scopes.note_leaving(group, pod)
            self._queues.departures.add(group)

    def _judge_again(self, pod: Pod | None) -> None:
        """Requeue Webhook-policy groups whose unready pod changed in what a webhook may judge by."""
        if pod is None or pod.is_ready or pod.is_terminating:
            return
        for group in self._view.groups_meaning(pod):
            if group.webhook is not None:
                self._queues.groups.add(group.meta.key)

    def neighbour_unreadable(self, key: ObjectKey) -> None:
        """Look at all groups of a namespace in which something cannot be read."""
        for group in self._view.groups.by_index("namespace", key.namespace):
            self.look_at_group(group.meta.key)

    def look_at_group(self, key: ObjectKey) -> None:
        """Look at a whole group."""
        self._scopes.widen(key)
        self._queues.groups.add(key)
        self._look_at_status(key)

    def _look_at_status(self, key: ObjectKey) -> None:
        self._queues.statuses.add_after(key, _GATHER)

    def group_changed(self, old: BackendGroup | None, new: BackendGroup | None) -> None:
        """Look at a group whose spec changed; our own writes of its status say nothing."""
        either = new or old
        if either is None or (same_spec(old, new) and _same_drain(old, new)):
            return
        self.look_at_group(either.meta.key)

    def record_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Register what is not, and look again where a record came or went."""
        either = new or old
        if either is None:
            return
        self._registrar.record_changed(old, new)
        self._statuses.record_changed(old, new)
        self._count_again(either.load_balancer_key)
        group = either.group
        if group is None:
            return
        self._look_at_status(group)
        if same_spec(old, new):
            self._see_progress(group, old, new)
            return
        backend = either.spec.backend
        if isinstance(backend, PodRef):
            self._scopes.note(group, backend.name)
            self._see_new(either, group, backend.name)
        elif node := node_of(either):
            self._scopes.note(group, node)
        else:
            self._scopes.widen(group)
        self._queues.groups.add(group)

    def other_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Have a load balancer's records counted where one of another shard's changed."""
        if (either := new or old) is not None:
            self._count_again(either.load_balancer_key)

    def _see_progress(
        self, group: ObjectKey, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Look at the pods that wait for others, when one of those is in, or in trouble."""
        if self._scopes.is_holding(group) and _progress(old) != _progress(new):
            self._queues.departures.add_after(group, _REPLACED)

    def _see_new(self, record: BackendRecord, group: ObjectKey, pod: str) -> None:
        # The pod may have gone while its record was being created.
        found = self._view.pods.get(ObjectKey(group.namespace, pod))
        if not record.is_deleting and (found is None or found.is_terminating):
            self._queues.groups.add(group, urgent=True)
            self._leave(group, pod)

    def _count_again(self, key: ObjectKey) -> None:
        """Have a load balancer's records counted; at once if it waited for the last one."""
        found = self._view.load_balancers.get(key)
        is_ending = found is not None and found.meta.deleting_since is not None
        if is_ending and not self._view.record_count(key):
            self._queues.load_balancers.add(key)
        else:
            self._queues.load_balancers.add_after(key, _COUNT)

    def look_at_part(self, group: ObjectKey, urgent: bool) -> None:
        """Look at what was noted of a group."""
        self._queues.groups.add(group, urgent=urgent)
        self._look_at_status(group)

    def load_balancer_changed(
        self, old: LoadBalancer | None, new: LoadBalancer | None
    ) -> None:
        """Look at a load balancer, and at its groups where that may change a record."""
        either = new or old
        if either is None:
            return
        self._queues.load_balancers.add(either.meta.key)
        if is_back(old, new):
            self._registrar.load_balancer_is_back(either.meta.key)
        if same_spec(old, new) and _same_for_records(old, new):
            if is_asked(old) != is_asked(new):
                for group in self._view.groups.by_index(
                    "load_balancer", either.meta.key
                ):
                    self._look_at_status(group.meta.key)
            return
        self._look_at_groups(either.meta.key)
        if old is None:
            self._look_at_those_that_wait(either.meta.key)

    def _look_at_those_that_wait(self, load_balancer: ObjectKey) -> None:
        """Look at records that waited for a load balancer: made again, or understood again."""
        for record in self._view.records.by_index("load_balancer", load_balancer):
            if not record.is_in:
                self._queues.records.add(record.meta.key)

    def load_balancer_unreadable(self, key: ObjectKey) -> None:
        """Look at all groups of a load balancer that can, or cannot, be understood now."""
        self._look_at_groups(key)
        if key not in self._view.load_balancers.unreadable:
            self._look_at_those_that_wait(key)

    def _look_at_groups(self, key: ObjectKey) -> None:
        for group in self._view.groups.by_index("load_balancer", key):
            self.look_at_group(group.meta.key)

    def driver_changed(
        self, old: LoadBalancerDriver | None, new: LoadBalancerDriver | None
    ) -> None:
        """Look at everything that a driver operates, if it changed itself."""
        either = new or old
        if either is None or same_but_status(old, new):
            return
        self.secret_changed(either.meta.key)

    def secret_changed(self, driver: ObjectKey) -> None:
        """Look at a driver that may be called differently now, and at its users."""
        self._queues.drivers.add(driver)
        self.look_at_users(driver)

    def look_at_users(self, driver: ObjectKey) -> None:
        """Look at a driver's load balancers, their groups, and its waiting records."""
        for load_balancer in self._view.load_balancers.by_index("driver", driver):
            self._queues.load_balancers.add(load_balancer.meta.key)
            self._look_at_groups(load_balancer.meta.key)
        for group in self._view.groups.by_index("judge", driver):
            self.look_at_group(group.meta.key)
        for record in self._view.records.by_index("driver", driver):
            if not record.is_deleting and not record.is_registered:
                self._queues.records.add(record.meta.key)


class NodeTriggers:
    """Listens to what nodes depend on.

    Args:
        view: what has been read.
        scopes: takes the nodes that changed.
        look_at: puts a group into the queue, urgently or not.
        consider: told of Services whose endpoints may be worth reading, or no more.
    """

    def __init__(
        self,
        view: View,
        scopes: ChangedBackends,
        look_at: Callable[[ObjectKey, bool], None],
        consider: Callable[[ObjectKey], None],
    ) -> None:
        self._view = view
        self._scopes = scopes
        self._look_at = look_at
        self._consider = consider

    def listen(self) -> None:
        """Begin to listen, and consider the Services of all groups, which `Triggers` has looked at."""
        view = self._view
        view.nodes.on_change(self.node_changed)
        view.nodes.on_unreadable(self.node_unreadable)
        view.services.on_change(self.service_changed)
        view.services.on_unreadable(self.endpoints_changed)
        view.groups.follow(self.group_changed)
        view.records.on_change(self.record_changed)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Look at a node in the groups for which it matters."""
        either = new or old
        if either is None:
            return
        for group in groups_concerned(self._view, old, new):
            self._scopes.note(group.meta.key, either.name)
            self._look_at(group.meta.key, True)
        if not _same_drain(old, new):
            self._look_at_pods_on(either.name)
        if new is None:
            for key in self._scopes.keepers(either.name):
                self._scopes.note(key, either.name)
                self._look_at(key, True)
            for key in self._scopes.holding():
                self._look_whole(key)

    def _look_at_pods_on(self, node: str) -> None:
        """Look at the pods of a node that is drained by hand, or is not any more."""
        for pod in self._view.pods.by_index("node", node):
            for group in self._view.groups_meaning(pod):
                self._scopes.note(group.meta.key, pod.meta.key.name)
                self._look_at(group.meta.key, True)

    def node_unreadable(self, _key: ObjectKey) -> None:
        """Look at all groups of nodes: any of them may mean this one."""
        for group in self._view.groups_on_nodes():
            self._look_whole(group.meta.key)

    def service_changed(
        self, old: NodePortService | None, new: NodePortService | None
    ) -> None:
        """Look at the groups of a Service whose node ports answer otherwise now."""
        either = new or old
        if either is None or _service_parts(old) == _service_parts(new):
            return
        self._consider(either.meta.key)
        self.endpoints_changed(either.meta.key)

    def endpoints_changed(self, service: ObjectKey) -> None:
        """Look at the groups of a Service."""
        for group in self._view.groups.by_index("service", service):
            self._look_whole(group.meta.key)

    def group_changed(self, old: BackendGroup | None, new: BackendGroup | None) -> None:
        """Read the endpoints of a Service that a group names, or none does any more."""
        for group in (old, new):
            if group is not None and isinstance(group.selection, ServiceSelection):
                name = group.selection.name
                self._consider(ObjectKey(group.meta.key.namespace, name))

    def record_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Requeue Local groups: a node kept until another one is registered may go now."""
        if new is None or not isinstance(new.spec.backend, ServiceRef):
            return
        came = new.is_registered and (old is None or not old.is_registered)
        group = self._view.groups.get(new.group) if new.group is not None else None
        if came and group is not None and is_local(self._view, group):
            self._look_whole(group.meta.key)

    def _look_whole(self, group: ObjectKey) -> None:
        self._scopes.widen(group)
        self._look_at(group, True)


def _service_parts(service: NodePortService | None) -> tuple[object, ...]:
    if service is None:
        return ()
    known = (service.meta.uid, service.meta.deleting_since, service.type)
    return (*known, service.ports, service.is_local, service.family)
