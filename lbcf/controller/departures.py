"""Gathers the registrations of each group that have ended, until its status tells them.

All of it is in memory, and forgotten when another replica leads.
"""

from lbcf.controller.view import View
from lbcf.core.lifecycle.departures import MOST, departure_of
from lbcf.core.model.departures import Departure
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import Reason
from lbcf.core.selection.plan import Removal
from lbcf.runtime.clock import Clock


class Departures:
    """Hears of removals, and of records that are gone.

    Args:
        view: what has been read.
        clock: the wall clock.
    """

    def __init__(self, view: View, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._reasons: dict[Uid, Reason] = {}
        self._untold: dict[ObjectKey, tuple[Departure, ...]] = {}

    def removing(self, removal: Removal) -> None:
        """Note why a record is about to be deleted."""
        self._reasons[removal.record.meta.uid] = removal.reason

    def gone(self, record: BackendRecord) -> None:
        """Take it that a record is gone."""
        reason = self._reasons.pop(record.meta.uid, None)
        if record.group is None:
            return
        driver = self._view.drivers.get(record.driver_key)
        found = departure_of(record, driver, reason, self._clock.now())
        before = self._untold.get(record.group, ())
        self._untold[record.group] = (found, *before)[:MOST]

    def untold(self, group: ObjectKey) -> tuple[Departure, ...]:
        """Return what has ended since a group's status was written, newest first."""
        return self._untold.get(group, ())

    def told(self, group: ObjectKey, written: tuple[Departure, ...]) -> None:
        """Take it that these are in the group's status; others may have come since."""
        left = tuple(one for one in self.untold(group) if one not in written)
        if left:
            self._untold[group] = left
        else:
            self._untold.pop(group, None)

    def forget(self, group: ObjectKey) -> None:
        """Forget a group that is gone."""
        self._untold.pop(group, None)
