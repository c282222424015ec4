"""Tells of removals that a guard holds: an event when it begins, a metric while it lasts.

Before it: `reconciler` decided. Beside it: `group_status` writes the same into the
group's condition RemovalsHeld.
"""

from collections.abc import Callable

from prometheus_client import Gauge

from lbcf.controller.decision import Decision
from lbcf.controller.group_status import reference_to
from lbcf.controller.view import View
from lbcf.core.model.resources import BackendGroup
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import EventReason
from lbcf.kube.events import EventRecorder
from lbcf.runtime.metrics import Metrics


class HeldRemovals:
    """Hears of decisions.

    Args:
        view: where the groups are.
        recorder: of events.
        metrics: of the process; None: nobody measures.
        then: told of each decision, too.
    """

    def __init__(
        self,
        view: View,
        recorder: EventRecorder,
        metrics: Metrics | None,
        then: Callable[[ObjectKey, Decision], None],
    ) -> None:
        self._view = view
        self._then = then
        self._recorder = recorder
        self._held: dict[ObjectKey, str] = {}
        self._gauge = None if metrics is None else _make_gauge(metrics)
        view.groups.on_change(self._group_changed)

    def decided(self, key: ObjectKey, decision: Decision) -> None:
        """Take in what was decided about a group."""
        self._then(key, decision)
        before = self._held.pop(key, "")
        if not decision.held:
            if before:
                self._count(key, 0)
            return
        first = decision.held[0]
        self._held[key] = first.reason
        self._count(key, len(decision.held))
        group = self._view.groups.get(key)
        if before != first.reason and group is not None:
            count = len(decision.held)
            noun = "removal" if count == 1 else "removals"
            note = f"{count} {noun} held ({first.reason}): {first.message}"
            self._recorder.record(
                reference_to(group),
                reason=EventReason.REMOVALS_HELD,
                action="Hold",
                note=note,
                warning=True,
            )

    def _group_changed(
        self, old: BackendGroup | None, new: BackendGroup | None
    ) -> None:
        """Forget a group that is gone."""
        if new is None and old is not None and self._held.pop(old.meta.key, ""):
            self._count(old.meta.key, 0)

    def _count(self, group: ObjectKey, held: int) -> None:
        """Show how many are held, and nothing of a group that holds none."""
        if self._gauge is None:
            return
        if held:
            self._gauge.labels(*group).set(held)
        else:
            self._gauge.remove(*group)


def _make_gauge(metrics: Metrics) -> Gauge:
    """Make the metric."""
    return Gauge(
        "lbcf_removals_held",
        "Records that are kept in their load balancer although something asks for "
        "their removal, by the guards of their group.",
        ["namespace", "group"],
        registry=metrics.registry,
    )
