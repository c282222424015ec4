"""Writes Binds: what was learnt of their load balancers, and our finalizer."""

from collections.abc import Mapping
from datetime import timedelta

from lbcf.core.lifecycle.bind_status import Change, changed
from lbcf.core.model import names
from lbcf.core.model.binds import Bind, EntryStatus
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import Conflict
from lbcf.wire.binds import render_statuses


_TRIES = 3


class BindWriter:
    """Writes by compare-and-swap.

    Args:
        writer: writes Binds, and reads those that have changed meanwhile.
    """

    def __init__(self, writer: ObjectWriter[Bind]) -> None:
        self._writer = writer

    def rest(self, bind: Bind) -> timedelta | None:
        """Return for how long its status cannot be written; None: it can, for all we know.

        Nobody is asked meanwhile: the answers could not be written down.
        """
        return self._writer.rest(bind.meta)

    async def hold(self, bind: Bind) -> Bind:
        """Put our finalizer on.

        Raises:
            KubeError: it could not be written.
        """
        return await self._writer.hold(bind.meta, names.FINALIZER_LOAD_BALANCER)

    async def record(self, bind: Bind, statuses: tuple[EntryStatus, ...]) -> Bind:
        """Write all statuses, if it is still the version that was read.

        Raises:
            KubeError: they could not be written.
        """
        return await self._writer.patch(bind.meta, render_statuses(statuses), "status")

    async def write(self, bind: Bind, changes: Mapping[str, Change]) -> Bind | None:
        """Put what was learnt into the statuses, whatever else has changed meanwhile.

        None: it is another Bind of that name by now.

        Raises:
            Conflict: it changes faster than it can be written.
            NotFound: it is gone.
            KubeError: the API server could not be asked.
        """
        for attempt in range(1, _TRIES + 1):
            statuses = changed(bind.statuses, changes)
            if statuses == bind.statuses:
                break
            try:
                return await self.record(bind, statuses)
            except Conflict:
                if attempt == _TRIES:
                    raise
            fresh = await self._writer.read(bind.meta.key)
            if fresh.meta.uid != bind.meta.uid:
                return None
            bind = fresh
        return bind

    async def release(self, bind: Bind) -> None:
        """Take our finalizer off.

        Raises:
            KubeError: it could not be written.
        """
        await self._writer.release(bind.meta, names.FINALIZER_LOAD_BALANCER)
