"""Events on records that are in trouble, for both processes.

Before it: a record's conditions changed. After it: `kubectl describe br` tells since
when and how often. Success is told by conditions, and by one event per group and turn.
"""

from lbcf.core.names import API_VERSION
from lbcf.core.resources import BackendRecord
from lbcf.core.trouble import new_trouble
from lbcf.kube.events import EventRecorder, Reference
from lbcf.kube.store import Store


class TroubleReporter:
    """Listens to records and records events.

    Args:
        recorder: writes events.
        kinds: types of conditions that this process writes.
        action: what it tries to do.
    """

    def __init__(
        self, recorder: EventRecorder, kinds: frozenset[str], action: str
    ) -> None:
        self._recorder = recorder
        self._kinds = kinds
        self._action = action

    def listen(self, records: Store[BackendRecord]) -> None:
        """Begin to listen."""
        records.on_change(self.record_changed)

    def record_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Tell of new trouble."""
        trouble = new_trouble(old, new, self._kinds)
        if trouble is None or new is None:
            return
        self._recorder.record(
            Reference(API_VERSION, "BackendRecord", new.meta.key, new.meta.uid),
            reason=trouble.reason,
            action=self._action,
            note=trouble.message,
            warning=True,
        )
