"""How long a group's nodes stay when its Service is not there.

Before it: a group is looked at. After it: `snapshot` takes the Service for gone. `kubectl
replace --force` deletes a Service and creates it again a moment later; to deregister all
of its nodes in between would empty the load balancer. One that is gone for good lets
its node port be given to another Service: so the time is short.
"""

from datetime import timedelta

import attrs

from lbcf.controller.view import View
from lbcf.core.model.node_backends import ServiceSelection
from lbcf.core.model.resources import BackendGroup
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation, Reason
from lbcf.runtime.clock import Clock


GRACE = timedelta(seconds=30)
"""From the first look that misses a Service until its nodes leave."""


@attrs.frozen
class _Missing:
    """A Service that is not there, and since when that is known, in monotonic seconds."""

    service: ObjectKey
    since: float


class ServiceGrace:
    """Remembers since when Services are missed; a new process begins to count anew."""

    def __init__(self, view: View, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._missing: dict[ObjectKey, _Missing] = {}

    def consider(self, group: BackendGroup) -> Explanation | None:
        """Say that a group's nodes stay for now; None: nothing keeps them.

        A group that has no records has nothing to keep.
        """
        key, service = group.meta.key, self._missed_by(group)
        if service is None:
            self.forget(key)
            return None
        known = self._missing.get(key)
        if known is None or known.service != service:
            known = self._missing[key] = _Missing(service, self._clock.monotonic())
        if self._left(known) <= timedelta(0):
            return None
        message = (
            f"Service {service} does not exist; its nodes stay for "
            f"{GRACE.total_seconds():.0f} s in case it is being replaced, and leave then"
        )
        return Explanation(Reason.SERVICE_NOT_FOUND, message)

    def rest(self, group: ObjectKey) -> timedelta | None:
        """Say when a group's nodes are to leave; None: not yet decided, or already."""
        known = self._missing.get(group)
        left = timedelta(0) if known is None else self._left(known)
        return left if left > timedelta(0) else None

    def forget(self, group: ObjectKey) -> None:
        """Be done with a group."""
        self._missing.pop(group, None)

    def _missed_by(self, group: BackendGroup) -> ObjectKey | None:
        """Say which Service a group names that is not there."""
        selection, key = group.selection, group.meta.key
        if not isinstance(selection, ServiceSelection):
            return None
        service = ObjectKey(key.namespace, selection.name)
        services = self._view.services
        if service in services.unreadable or services.get(service) is not None:
            return None
        return service if self._view.records_of(key) else None

    def _left(self, missing: _Missing) -> timedelta:
        """Say how much of the time is left."""
        passed = self._clock.monotonic() - missing.since
        return GRACE - timedelta(seconds=passed)
