"""Quota of records by namespace: what is beyond is not created until others are gone.

One group of 1,024 addresses and 64 load balancers wants 65,536 records, which every process
here holds in memory: without a quota one namespace decides about the memory of all.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import attrs

from prometheus_client import Gauge

from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.plan import Plan
from lbcf.kube.store import Store
from lbcf.runtime.metrics import Metrics


_UNUSED = timedelta(seconds=5)
"""After how long room that a group did not use is offered to another. What could not be
created is tried again, by groups in turn: at once would be without a pause."""


class RecordQuota:
    """Counts records by namespace, and lets no plan create more than are allowed.

    Args:
        records: all of them; the store is empty yet.
        most: records per namespace, 0 for any number.
        look_after: has a whole group looked at in a while, or at once: there is room for it.
        metrics: of the process; None: nobody measures.
    """

    def __init__(
        self,
        records: Store[BackendRecord],
        most: int,
        look_after: Callable[[ObjectKey, timedelta], None],
        metrics: Metrics | None,
    ) -> None:
        self._most = most
        self._look_after = look_after
        self._held: Counter[str] = Counter()
        self._booked: dict[ObjectKey, int] = {}
        self._waiting: dict[ObjectKey, int] = {}
        self._gauge = None if metrics is None else _make_gauge(metrics)
        if most:
            records.on_change(self._record_changed)

    def is_waiting(self, group: ObjectKey) -> bool:
        """Return whether a group wants records that it may not have yet."""
        return group in self._waiting

    def consider(
        self, group: ObjectKey, plan: Plan
    ) -> tuple[Plan, tuple[Explanation, ...]]:
        """Take out of a plan what it creates beyond the quota, and say so.

        The plan is about all of a group that `is_waiting`; it may leave nothing out.
        """
        room = self._room(group)
        beyond = 0 if room is None else max(0, len(plan.creates) - room)
        self._note(group, beyond)
        if not beyond:
            self._wake(group.namespace)
            return plan, ()
        message = (
            f"namespace {group.namespace} has {self._held[group.namespace]} BackendRecords; "
            f"{beyond} of this group are not made, because --max-records-per-namespace "
            f"allows {self._most}: delete groups, or have the operator raise it"
        )
        kept = plan.creates[: len(plan.creates) - beyond]
        doubt = Explanation(Reason.RECORD_QUOTA_EXCEEDED, message)
        return attrs.evolve(plan, creates=kept), (doubt,)

    @contextmanager
    def booked(self, group: ObjectKey, count: int) -> Iterator[None]:
        """Keep room for what is being created, until the block ends.

        Groups of one namespace are written side by side: none may count on the same room.
        What is left of it is another group's: who tried knows itself when to come again.
        """
        if not (self._most and count):
            yield
            return
        self._booked[group] = count
        try:
            yield
        finally:
            del self._booked[group]
            self._wake(group.namespace, _UNUSED, but=group)

    def forget(self, group: ObjectKey) -> None:
        """Forget a group that is gone, or wants nothing for now; the next one has its room."""
        self._note(group, 0)
        self._wake(group.namespace)

    def _room(self, group: ObjectKey) -> int | None:
        """Return how many records a group may create, None for any number."""
        if not self._most:
            return None
        others = sum(
            count
            for key, count in self._booked.items()
            if key.namespace == group.namespace and key != group
        )
        return max(0, self._most - self._held[group.namespace] - others)

    def _record_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Count, and let the next group have the room of a record that is gone."""
        either = new or old
        if either is None or (old is not None and new is not None):
            return
        namespace = either.meta.key.namespace
        self._held[namespace] += 1 if old is None else -1
        if not self._held[namespace]:
            del self._held[namespace]
        if new is None:
            self._wake(namespace)

    def _wake(
        self,
        namespace: str,
        after: timedelta = timedelta(0),
        but: ObjectKey | None = None,
    ) -> None:
        """Have the group looked at that has waited longest, if there is room for it."""
        for group in self._waiting:
            if group.namespace == namespace and group != but:
                if self._room(group):
                    self._look_after(group, after)
                return

    def _note(self, group: ObjectKey, beyond: int) -> None:
        """Note for how many records of a group there is no room; the last one queues up."""
        had = self._waiting.pop(group, 0)
        if beyond:
            self._waiting[group] = beyond
        if self._gauge is None or had == beyond:
            return
        if beyond:
            self._gauge.labels(*group).set(beyond)
        else:
            self._gauge.remove(*group)


def _make_gauge(metrics: Metrics) -> Gauge:
    """Make the metric."""
    return Gauge(
        "lbcf_records_beyond_quota",
        "BackendRecords that a group wants and that are not made, because its namespace "
        "has as many as --max-records-per-namespace allows.",
        ["namespace", "group"],
        registry=metrics.registry,
    )
