"""A change of a node, a Service or its endpoints -> the groups to look at.

Before it: the stores. After it: the queue of groups, with the nodes that changed. What
changes no decision ends here: heartbeats, NotReady, cordons, labels that no group asks
for cost no look, no write and no call.
"""

from collections.abc import Callable

from lbcf.controller.node_scene import groups_concerned, is_local
from lbcf.controller.scopes import Scopes
from lbcf.controller.view import View
from lbcf.core.model.node_backends import ServiceBackend, ServiceSelection
from lbcf.core.model.nodes import Node, Service
from lbcf.core.model.resources import BackendGroup, BackendRecord
from lbcf.core.model.values import ObjectKey


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
        scopes: Scopes,
        look_at: Callable[[ObjectKey, bool], None],
        consider: Callable[[ObjectKey], None],
    ) -> None:
        self._view = view
        self._scopes = scopes
        self._look_at = look_at
        self._consider = consider

    def listen(self) -> None:
        """Begin to listen; before the informers start."""
        view = self._view
        view.nodes.on_change(self.node_changed)
        view.nodes.on_unreadable(self.node_unreadable)
        view.services.on_change(self.service_changed)
        view.services.on_unreadable(self.endpoints_changed)
        view.groups.on_change(self.group_changed)
        view.records.on_change(self.record_changed)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Look at a node in the groups for which it matters."""
        either = new or old
        if either is None:
            return
        for group in groups_concerned(self._view, old, new):
            self._scopes.note(group.meta.key, either.name)
            self._look_at(group.meta.key, True)

    def node_unreadable(self, _key: ObjectKey) -> None:
        """Look at all groups of nodes: any of them may mean this one."""
        for group in self._view.groups_on_nodes():
            self._look_whole(group.meta.key)

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Look at the groups of a Service whose node ports answer otherwise now."""
        either = new or old
        if either is None or _said_by(old) == _said_by(new):
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
        """Let a node go that was kept until another one was registered in its place."""
        if new is None or not isinstance(new.spec.backend, ServiceBackend):
            return
        came = new.is_registered and (old is None or not old.is_registered)
        group = self._view.groups.get(new.group) if new.group is not None else None
        if came and group is not None and is_local(self._view, group):
            self._look_whole(group.meta.key)

    def _look_whole(self, group: ObjectKey) -> None:
        """Look at all of a group."""
        self._scopes.widen(group)
        self._look_at(group, True)


def _said_by(service: Service | None) -> tuple[object, ...]:
    """Say all of a Service that decisions are made from."""
    if service is None:
        return ()
    known = (service.meta.uid, service.meta.deleting_since, service.type)
    return (*known, service.ports, service.is_local, service.family)
