"""Looks once more at what a removal was decided by, before the record is deleted.

Each watch tells at its own pace. Whoever begins to lead may have the record of a pod, and not
yet the pod, its readiness, or the group that selects it: it would take a healthy member out.
"""

from lbcf.controller.backend_reader import BackendReader
from lbcf.controller.group_reader import GroupReader
from lbcf.controller.triggers import same_but_status
from lbcf.controller.view import View
from lbcf.core.model.node_backends import ServiceRef
from lbcf.core.model.resources import BackendGroup, BackendRecord, PodRef
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.core.selection.location import node_of
from lbcf.core.selection.plan import Removal
from lbcf.kube.kinds import HasMeta


class RemovalCheck:
    """Reads backends and groups.

    Args:
        view: what removals are decided by.
        backends: reads those of records.
        groups: reads those of a namespace.
    """

    def __init__(
        self, view: View, backends: BackendReader, groups: GroupReader
    ) -> None:
        self._view = view
        self._backends = backends
        self._groups = groups

    async def holds(self, removal: Removal) -> bool:
        """Return whether what a removal was decided by is still what the view has.

        The view has what was read afterwards.

        Raises:
            KubeError: nobody knows.
        """
        # No pod comes back from that: what every rollout does needs no read.
        if removal.reason == Reason.POD_TERMINATING:
            return True
        record = removal.record
        group, backend = self._group(record), self._backend(record)
        if await self._backends.is_gone(record):
            return True
        if record.group is not None:
            await self._groups.since_now(record.group.namespace)
            if not same_but_status(group, self._group(record)):
                return False
        return backend == self._backend(record)

    def _group(self, record: BackendRecord) -> BackendGroup | None:
        return None if record.group is None else self._view.groups.get(record.group)

    def _backend(self, record: BackendRecord) -> tuple[str, ...]:
        """Return the versions of what a record's backend is made of."""
        view, backend = self._view, record.spec.backend
        namespace, node = record.meta.key.namespace, node_of(record)
        found: list[HasMeta | None] = [view.nodes.get(ObjectKey("", node))]
        if isinstance(backend, PodRef):
            found.append(view.pods.get(ObjectKey(namespace, backend.name)))
        if isinstance(backend, ServiceRef):
            found.append(view.services.get(ObjectKey(namespace, backend.name)))
        return tuple("" if one is None else one.meta.resource_version for one in found)
