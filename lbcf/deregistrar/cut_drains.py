"""Tells groups that drains were cut at their deadline, and how many connections were left.

What happens within some seconds is one Event: a node that is drained may cut hundreds.
"""

from collections import defaultdict
from datetime import timedelta
from typing import Final

import attrs

from lbcf.core.model.resources import BackendRecord, backend_name
from lbcf.core.reasons import EventReason
from lbcf.core.wording import some_of
from lbcf.executor.object_events import reference_to
from lbcf.kube.events import EventRecorder, Reference
from lbcf.runtime.clock import Clock
from lbcf.runtime.metrics import Metrics
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, Result, Workers


GATHERED: Final = timedelta(seconds=5)
"""For so long after the first one they are one Event."""


@attrs.frozen
class _Cut:
    """A drain that was cut.

    Attributes:
        subject: backend and load balancer.
        connections: how many were left, None where the driver did not say.
    """

    subject: str
    connections: int | None

    def __str__(self) -> str:
        left = "not told" if self.connections is None else self.connections
        return f"{self.subject} ({left})"


class CutDrains:
    """Gathers drains that were cut.

    Args:
        recorder: of events.
        clock: measures.
        metrics: of the process; None: nobody measures.
    """

    def __init__(
        self, recorder: EventRecorder, clock: Clock, metrics: Metrics | None
    ) -> None:
        self._recorder = recorder
        # Of groups to tell, or of records that have none.
        self._queue: WorkQueue[Reference] = WorkQueue("cut-drains", clock, metrics)
        self._workers = Workers(self._queue, self._reconcile, 1, clock)
        self._cuts: defaultdict[Reference, list[_Cut]] = defaultdict(list)

    def add(self, record: BackendRecord, connections: int | None) -> None:
        """Take in a record whose drain was cut.

        Args:
            record: as it was last read.
            connections: as the driver last said, None where it did not.
        """
        meta, group = record.meta, record.group
        about = reference_to("BackendRecord", meta.key, meta.uid)
        if group is not None:
            about = reference_to("BackendGroup", group, record.group_uid)
        subject = f"{backend_name(record.spec.backend)} at {record.spec.load_balancer}"
        self._cuts[about].append(_Cut(subject, connections))
        self._queue.add_after(about, GATHERED)

    def start(self) -> None:
        """Begin to tell."""
        self._workers.start()

    async def stop(self, grace: timedelta) -> None:
        """Tell what is gathered yet, and end."""
        await self._workers.stop(grace)
        for about in tuple(self._cuts):
            self._tell(about)

    async def _reconcile(self, about: Reference) -> Result:
        """Tell a group of all that was gathered."""
        self._tell(about)
        return Done()

    def _tell(self, about: Reference) -> None:
        cuts = self._cuts.pop(about, [])
        if not cuts:
            return
        known = [cut.connections for cut in cuts if cut.connections is not None]
        noun = "drain was" if len(cuts) == 1 else "drains were"
        left = f", with {sum(known)} connections left" if known else ""
        names = some_of([str(cut) for cut in cuts])
        self._recorder.record(
            about,
            reason=EventReason.DRAINS_CUT,
            action="Deregister",
            note=f"{len(cuts)} {noun} cut at the deadline{left}: {names}",
            warning=True,
        )
