"""Keeps the group and the load balancers that each Bind is derived into in the view.

The stores of groups and load balancers hold them beside their own, under keys that no object
has (`lbcf.core.model.names`): selecting pods, planning, guarding, registering and counting
are those of groups.
"""

from lbcf.controller.view import View
from lbcf.core.model.binds import Bind, as_group, as_load_balancers
from lbcf.core.model.names import bind_group_key
from lbcf.core.model.values import ObjectKey


class BindView:
    """Keeps the stores of a view in step with its Binds."""

    def __init__(self, view: View) -> None:
        self._view = view

    def listen(self) -> None:
        """Begin to listen; before the informers start."""
        self._view.binds.on_change(self.bind_changed)
        self._view.binds.on_unreadable(self.bind_unreadable)

    def bind_changed(self, old: Bind | None, new: Bind | None) -> None:
        """Put what a Bind says now into the place of what it said."""
        either = new or old
        if either is None:
            return
        balancers = list(as_load_balancers(new)) if new else []
        kept = {balancer.meta.key for balancer in balancers}
        for balancer in balancers:
            self._view.load_balancers.place(balancer)
        if new is None:
            self._view.groups.displace(either.group.meta.key)
        elif new.meta.key not in self._view.binds.unreadable:
            self._view.groups.place(as_group(new))
        for balancer in as_load_balancers(old) if old else ():
            if balancer.meta.key not in kept:
                self._view.load_balancers.displace(balancer.meta.key)

    def bind_unreadable(self, key: ObjectKey) -> None:
        """Decide nothing about the records of a Bind while it cannot be understood."""
        if key in self._view.binds.unreadable:
            self._view.groups.displace(bind_group_key(key))
            return
        found = self._view.binds.get(key)
        if found is not None:
            self.bind_changed(found, found)
