"""Looks once more at what a removal was decided by, before the record is deleted.

Each watch tells at its own pace. Whoever begins to lead may have the record of a pod, and not
yet the pod, its readiness, or the group that selects it: it would take a healthy member out.
"""

import asyncio

import attrs

from lbcf.controller.backend_reader import BackendReader
from lbcf.controller.group_reader import GroupReader
from lbcf.controller.triggers import same_but_status
from lbcf.controller.view import View
from lbcf.core.model.cluster import Pod
from lbcf.core.model.node_backends import ServiceRef
from lbcf.core.model.nodes import Node, NodePortService
from lbcf.core.model.resources import BackendGroup, BackendRecord, PodRef
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.core.selection.location import node_of
from lbcf.core.selection.plan import Removal


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

        The view has what was read afterwards. All is read at once: from a node that has no
        ready pod left, kube-proxy drops what comes until the load balancer sends no more.

        Raises:
            KubeError: nobody knows.
        """
        # No pod comes back from that: what every rollout does needs no read.
        if removal.reason == Reason.POD_TERMINATING:
            return True
        record = removal.record
        group, backend = self._group(record), self._backend(record)
        is_gone, _ = await asyncio.gather(
            self._backends.is_gone(record), self._read_groups(record)
        )
        if is_gone:
            return True
        if record.group is not None and not same_but_status(group, self._group(record)):
            return False
        return backend == self._backend(record)

    async def _read_groups(self, record: BackendRecord) -> None:
        if record.group is not None:
            await self._groups.since_now(record.group.namespace)

    def _group(self, record: BackendRecord) -> BackendGroup | None:
        return None if record.group is None else self._view.groups.get(record.group)

    def _backend(
        self, record: BackendRecord
    ) -> tuple[Pod | Node | NodePortService, ...]:
        """Return what a record's backend is made of, without the versions that it has.

        Nodes and pods get a new one with each heartbeat and each probe.
        """
        view, backend = self._view, record.spec.backend
        namespace = record.meta.key.namespace
        found: list[Pod | Node | NodePortService | None] = [
            view.nodes.get(ObjectKey("", node_of(record)))
        ]
        if isinstance(backend, PodRef):
            found.append(view.pods.get(ObjectKey(namespace, backend.name)))
        if isinstance(backend, ServiceRef):
            found.append(view.services.get(ObjectKey(namespace, backend.name)))
        return tuple(
            attrs.evolve(one, meta=attrs.evolve(one.meta, resource_version=""))
            for one in found
            if one is not None
        )
