"""Tells that load balancers lost their members, and when these are registered again.

An Event and a metric each for both. Condition Restored is written together with the new
epoch, which costs a write anyway; while members are put back it is False, which is
written only where that takes longer than the time between two readings.
"""

from prometheus_client import Counter

from lbcf.controller.view import View
from lbcf.core.lifecycle.listing import Loss, being_restored, can_drift, restored
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord, LoadBalancer
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.executor.object_events import reference_to
from lbcf.kube.events import EventRecorder
from lbcf.runtime.clock import Clock
from lbcf.runtime.metrics import Metrics


_KIND = "LoadBalancer"


class ResetMetrics:
    """Counts resets, and members that were put back after them.

    Args:
        metrics: of the process.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._resets = Counter(
            "lbcf_load_balancer_resets_total",
            "Load balancers that were seen to have lost all of their members: "
            "listBackends showed another epoch.",
            ["driver"],
            registry=metrics.registry,
        )
        self._restored = Counter(
            "lbcf_members_restored_total",
            "Members that were registered again after a reset of their load balancer.",
            ["driver"],
            registry=metrics.registry,
        )

    def follow(self, driver: ObjectKey) -> None:
        """Show the series of a driver: a rate needs a first sample."""
        for family in (self._resets, self._restored):
            family.labels(str(driver))

    def forget(self, driver: ObjectKey) -> None:
        """Remove the series of a driver that is gone."""
        for family in (self._resets, self._restored):
            family.remove_by_labels({"driver": str(driver)})

    def lost(self, driver: ObjectKey) -> None:
        """Count a reset."""
        self._resets.labels(str(driver)).inc()

    def restored(self, driver: ObjectKey, members: int) -> None:
        """Count members that are back."""
        self._restored.labels(str(driver)).inc(members)


class ResetReporter:
    """Follows resets of load balancers until all members are back.

    Args:
        view: where the records are.
        recorder: of events.
        series: None: nobody measures.
        clock: measures.
    """

    def __init__(
        self,
        view: View,
        recorder: EventRecorder,
        series: ResetMetrics | None,
        clock: Clock,
    ) -> None:
        self._view = view
        self._recorder = recorder
        self._series = series
        self._clock = clock
        self._losses: dict[ObjectKey, Loss] = {}

    def forget(self, key: ObjectKey) -> None:
        """Keep nothing of a load balancer."""
        self._losses.pop(key, None)

    def lost(
        self,
        found: LoadBalancer,
        before: str,
        epoch: str,
        records: tuple[BackendRecord, ...],
    ) -> None:
        """Tell of a reset; one that nobody had a member at is counted alone."""
        if self._series is not None:
            self._series.lost(found.driver_key)
        if not records:
            return
        members = frozenset(record.meta.uid for record in records)
        loss = Loss(before, epoch, members, self._clock.monotonic())
        self._losses[found.meta.key] = loss
        self._recorder.record(
            reference_to(_KIND, found.meta.key, found.meta.uid),
            reason=Reason.LOAD_BALANCER_RESET,
            action="Restore",
            note=loss.story,
            warning=True,
        )

    def is_told(self, found: LoadBalancer) -> bool:
        """Return whether nothing is left to be told of a load balancer."""
        said = conditions.find(found.conditions, conditions.RESTORED)
        is_open = said is not None and said.status is False
        return not is_open and found.meta.key not in self._losses

    def under_way(self, found: LoadBalancer) -> Condition | None:
        """Return what is to be said while members are put back; None: it is said."""
        loss = self._losses.get(found.meta.key)
        if loss is None:
            return None
        condition = being_restored(found, loss)
        said = conditions.find(found.conditions, conditions.RESTORED)
        return None if condition.says_the_same(said) else condition

    def over(self, found: LoadBalancer) -> Condition | None:
        """Return what is to be said when all are back; None: nothing was lost."""
        if self.is_told(found):
            return None
        loss = self._losses.get(found.meta.key)
        return restored(found, loss, self._back(found), self._clock.monotonic())

    def written(self, found: LoadBalancer, condition: Condition) -> None:
        """Take in that it is said that all are back: that is told once."""
        if self._series is not None:
            self._series.restored(found.driver_key, self._back(found))
        self.forget(found.meta.key)
        self._recorder.record(
            reference_to(_KIND, found.meta.key, found.meta.uid),
            reason=condition.reason,
            action="Restore",
            note=condition.message,
        )

    def _back(self, found: LoadBalancer) -> int:
        """Count who is registered again of those that were lost."""
        loss = self._losses.get(found.meta.key)
        if loss is None:
            return 0
        records = self._view.records_at(found.meta.key)
        return sum(1 for r in records if r.meta.uid in loss.members and can_drift(r))
