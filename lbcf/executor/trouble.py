"""Events on records that are in trouble, for both processes.

Before it: a record's conditions changed. After it: `kubectl describe br` tells since
when and how often. Success is told by conditions, and by one event per group and turn.
"""

from lbcf.core.lifecycle.trouble import new_trouble
from lbcf.core.model.names import API_VERSION
from lbcf.core.model.resources import BackendRecord
from lbcf.core.reasons import Reason
from lbcf.kube.events import EventRecorder, Reference
from lbcf.kube.store import Store


class TroubleReporter:
    """Listens to records and records events.

    Args:
        recorder: writes events.
        kinds: types of conditions that this process writes.
        action: what it tries to do.
        calls_told: somebody else tells what drivers answer.
    """

    def __init__(
        self,
        recorder: EventRecorder,
        kinds: frozenset[str],
        action: str,
        *,
        calls_told: bool = False,
    ) -> None:
        self._calls_told = calls_told
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
        if self._calls_told and _is_of_a_call(trouble.reason):
            return
        self._recorder.record(
            Reference(API_VERSION, "BackendRecord", new.meta.key, new.meta.uid),
            reason=trouble.reason,
            action=self._action,
            note=trouble.message,
            warning=True,
        )


def _is_of_a_call(reason: str) -> bool:
    """Tell whether a driver was called for it."""
    without = {Reason.DRIVER_NOT_FOUND, Reason.DRIVER_UNREADABLE}
    return reason.startswith("Driver") and reason not in without
