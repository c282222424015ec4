"""Marks records that are being drained and whose backend is gone: their drain ends.

What the view shows is only a reason to ask: a mark is written for what the API server itself
says at a quorum read, under the uid that the record names. Where it cannot be asked, nothing is written, and the drain goes on to its deadline.
"""

import attrs
import structlog

from lbcf.controller.backend_reader import BackendReader
from lbcf.controller.view import View
from lbcf.core.model.node_backends import ServiceRef
from lbcf.core.model.resources import BackendRecord, PodRef
from lbcf.core.model.values import ObjectKey
from lbcf.core.selection.location import (
    is_node_gone,
    is_pod_gone,
    is_port_gone,
    may_be_marked,
    node_of,
)
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import Conflict, NotFound
from lbcf.kube.kinds import HasMeta
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, Result
from lbcf.wire.records import render_status_update


_log = structlog.get_logger(__name__)


class GoneBackends:
    """Marks records.

    Args:
        view: what has been read.
        backends: asks the API server itself.
        records: writes records.
        queue: of the records to look at; its workers call `reconcile`.
    """

    def __init__(
        self,
        view: View,
        backends: BackendReader,
        records: ObjectWriter[BackendRecord],
        queue: WorkQueue[ObjectKey],
    ) -> None:
        self._view = view
        self._backends = backends
        self._records = records
        self._queue = queue

    def listen(self) -> None:
        """Begin to listen, and look at all records that there are."""
        view = self._view
        view.records.follow(self.record_changed)
        view.pods.on_change(lambda old, new: self._changed("pod", old, new))
        view.nodes.on_change(lambda old, new: self._changed("node", old, new))
        view.services.on_change(lambda old, new: self._changed("service", old, new))

    def record_changed(
        self, _old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Look at a record whose drain has to wait."""
        if new is not None and may_be_marked(new) and self._seems_gone(new):
            self._queue.add(new.meta.key)

    def _changed(self, kind: str, old: HasMeta | None, new: HasMeta | None) -> None:
        """Look at the records that are being drained of a pod, node or Service."""
        either = new or old
        if either is not None:
            place = (kind, either.meta.key)
            for record in self._view.records.by_index("ending", place):
                self.record_changed(None, record)

    def _seems_gone(self, record: BackendRecord) -> bool:
        """Return whether the view shows a record's backend no more."""
        view, namespace = self._view, record.meta.key.namespace
        backend = record.spec.backend
        if isinstance(backend, PodRef):
            return is_pod_gone(
                record, view.pods.get(ObjectKey(namespace, backend.name))
            )
        if is_node_gone(record, view.nodes.get(ObjectKey("", node_of(record)))):
            return True
        if not isinstance(backend, ServiceRef):
            return False
        service = view.services.get(ObjectKey(namespace, backend.name))
        return is_port_gone(record, service)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Mark one record, if its backend is gone.

        Raises:
            KubeError: nobody knows, or it was not written; to be tried again.
        """
        record = self._view.records.get(key)
        if record is None or not may_be_marked(record) or not self._seems_gone(record):
            return Done()
        if await self._backends.is_gone(record):
            await self._mark(record)
        return Done()

    async def _mark(self, record: BackendRecord) -> None:
        """Write it down, by compare-and-swap: another field of the status may be new."""
        meta = record.meta
        status = attrs.evolve(record.status, backend_gone=True)
        body = render_status_update(record, status)
        try:
            await self._records.patch(meta, body, "status")
        except NotFound:
            return
        except Conflict:
            await self._records.refresh(meta.key)
            raise
        _log.info("record.backend_gone", record=str(meta.key), address=record.address)
