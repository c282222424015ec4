"""Counts objects by what their conditions say, as the stores change.

A change costs its own conditions, a look at /metrics the few series that there are: nobody
goes through ten thousand records for it.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Generic, TypeVar

import attrs

from prometheus_client import Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lbcf.controller.view import View
from lbcf.core.lifecycle.in_service import is_down
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord, LoadBalancer
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.kube.kinds import HasMeta
from lbcf.kube.store import Store
from lbcf.runtime.clock import Clock
from lbcf.runtime.metrics import Metrics


T = TypeVar("T", bound=HasMeta)

_STATUS = {True: "True", False: "False", None: "Unknown"}
_TROUBLE = frozenset({(conditions.REACHABLE, False), (conditions.DRIFTED, True)})
_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600)


def _has_all(_key: ObjectKey) -> bool:
    return True


class ConditionMetrics(Collector, Generic[T]):
    """The conditions of all objects of a kind.

    Args:
        name: of the metric.
        kind: how the metric's text calls the objects.
        store: where they are; it is empty yet.
        said: what an object's conditions are.
        always: a type that counts for each object: as Unknown where it is not set.
        has: which objects are counted; those of other shards are not.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        store: Store[T],
        said: Callable[[T], tuple[Condition, ...]],
        always: str,
        *,
        has: Callable[[ObjectKey], bool] = _has_all,
    ) -> None:
        self._has = has
        self._name = name
        self._kind = kind
        self._said = said
        self._always = always
        self._tally: Tally[tuple[str, str, str]] = Tally()
        store.on_change(self._changed)

    def collect(self) -> Iterable[Metric]:
        """Show what is not zero."""
        family = GaugeMetricFamily(
            self._name,
            f"{self._kind} by what their conditions say; each has one of type "
            f"{self._always}, Unknown where nothing is said yet.",
            labels=["condition", "status", "reason"],
        )
        for labels, count in self._tally.items():
            family.add_metric(labels, count)
        yield family

    def _changed(self, old: T | None, new: T | None) -> None:
        """Follow one change."""
        either = new or old
        if either is None or not self._has(either.meta.key):
            return
        if old is not None:
            self._tally.subtract(self._labels(old))
        if new is not None:
            self._tally.update(self._labels(new))
        if old is not None:
            self._forget(self._labels(old))

    def _forget(self, labels: Iterator[tuple[str, str, str]]) -> None:
        for one in labels:
            if not self._tally[one]:
                del self._tally[one]

    def _labels(self, value: T) -> Iterator[tuple[str, str, str]]:
        """Return what an object counts as."""
        said = self._said(value)
        for one in said:
            yield one.type, _STATUS[one.status], one.reason
        if conditions.find(said, self._always) is None:
            yield self._always, _STATUS[None], ""


class HealthMetrics(Collector):
    """The load balancers that are not well, by name: only these have series.

    Args:
        view: where they are, those of Binds among them; its store of records is empty.
    """

    def __init__(self, view: View) -> None:
        self._load_balancers = view.load_balancers
        self._has = view.shard.has
        self._down: Tally[ObjectKey] = Tally()
        view.records.on_change(self._changed)

    def collect(self) -> Iterable[Metric]:
        """Show whoever is in trouble now."""
        balancers = GaugeMetricFamily(
            "lbcf_load_balancer_in_trouble",
            "1 for each LoadBalancer that cannot be reached (Reachable) or lacks members "
            "(Drifted).",
            labels=["namespace", "load_balancer", "driver", "condition", "reason"],
        )
        for found in filter(self._is_own, self._load_balancers.values()):
            for said in found.conditions:
                if (said.type, said.status) in _TROUBLE:
                    place = found.meta.key
                    labels = (str(found.driver_key), said.type, said.reason)
                    balancers.add_metric((place.namespace, place.name, *labels), 1)
        yield balancers
        members = GaugeMetricFamily(
            "lbcf_members_down",
            "Registered members to which their LoadBalancer sends nothing new.",
            labels=["namespace", "load_balancer"],
        )
        for key, count in self._down.items():
            members.add_metric((key.namespace, key.name), count)
        yield members

    def _is_own(self, found: LoadBalancer) -> bool:
        # What all shards see is shown by one.
        return self._has(found.meta.key)

    def _changed(self, old: BackendRecord | None, new: BackendRecord | None) -> None:
        if new is not None and _sends_nothing_to(new):
            self._down[new.load_balancer_key] += 1
        if old is not None and _sends_nothing_to(old):
            self._down[old.load_balancer_key] -= 1
            if not self._down[old.load_balancer_key]:
                del self._down[old.load_balancer_key]


@attrs.frozen
class _Registration:
    """A record that is to be registered.

    Attributes:
        seen_at: monotonic seconds at which this process saw it so for the first time.
        record: as it is now.
    """

    seen_at: float
    record: BackendRecord


class RegistrationMetrics(Collector):
    """Shows how old registrations are; measures them once this process makes them.

    Args:
        records: the store of records; it is empty yet.
        clock: measures.
        metrics: of the process.
    """

    def __init__(
        self, records: Store[BackendRecord], clock: Clock, metrics: Metrics
    ) -> None:
        self._clock = clock
        self._under_way: dict[Uid, _Registration] = {}
        self._is_leading = False
        self._duration = Histogram(
            "lbcf_registration_duration_seconds",
            "Time from the moment at which a BackendRecord is to be registered, as "
            "this process saw it, until it is.",
            ["driver"],
            buckets=_BUCKETS,
            registry=metrics.registry,
        )
        metrics.registry.register(self)
        records.on_change(self._changed)

    def begin(self) -> None:
        """Measure from now on; before, somebody else registers."""
        self._is_leading = True

    def forget(self, driver: ObjectKey) -> None:
        """Remove the series of a driver that is gone."""
        self._duration.remove_by_labels({"driver": str(driver)})

    def collect(self) -> Iterable[Metric]:
        """Look through the registrations that are under way."""
        oldest: dict[tuple[str, str], float] = {}
        for one in self._under_way.values():
            age, reason = self._age_and_reason(one)
            labels = str(one.record.driver_key), reason
            oldest[labels] = max(age, oldest.get(labels, 0.0))
        family = GaugeMetricFamily(
            "lbcf_oldest_registration_age_seconds",
            "Time for which the BackendRecord waits to be registered that does for the "
            "longest, by the reason for which its condition Registered is False; empty "
            "where it is not.",
            labels=["driver", "reason"],
        )
        for labels, age in oldest.items():
            family.add_metric(labels, age)
        yield family

    def _age_and_reason(self, one: _Registration) -> tuple[float, str]:
        seen = self._clock.monotonic() - one.seen_at
        said = conditions.find(one.record.status.conditions, conditions.REGISTERED)
        if said is None or said.status is not False:
            return seen, ""
        # A process that has just begun has not seen for how long it is so.
        told = self._clock.now() - said.since if said.since else timedelta(0)
        return max(seen, told.total_seconds()), said.reason

    def _changed(self, old: BackendRecord | None, new: BackendRecord | None) -> None:
        """Note who begins to wait, and whose wait is over."""
        if new is None or new.is_deleting:
            gone = old or new
            if gone is not None:
                self._under_way.pop(gone.meta.uid, None)
        elif not new.is_registered:
            known = self._under_way.get(new.meta.uid)
            seen_at = self._clock.monotonic() if known is None else known.seen_at
            self._under_way[new.meta.uid] = _Registration(seen_at, new)
        elif (over := self._under_way.pop(new.meta.uid, None)) is not None:
            self._registered(new, over.seen_at)

    def _registered(self, record: BackendRecord, since: float) -> None:
        if self._is_leading:
            seconds = self._clock.monotonic() - since
            self._duration.labels(str(record.driver_key)).observe(seconds)


def _said_of_record(record: BackendRecord) -> tuple[Condition, ...]:
    # A record that ends waits for no registration any more, and what was not in service
    # is to be only while it is registered.
    said = record.status.conditions
    if not record.is_registered or record.is_deleting:
        said = tuple(c for c in said if c.type != conditions.IN_SERVICE)
    if not record.is_deleting:
        return said
    return tuple(c for c in said if c.type != conditions.REGISTERED or c.status is True)


def _sends_nothing_to(record: BackendRecord) -> bool:
    return is_down(record) and record.is_registered and not record.is_deleting


def measure(
    view: View, clock: Clock, metrics: Metrics | None
) -> RegistrationMetrics | None:
    """Have everything about the controller's own kinds measured; None: nobody does."""
    if metrics is None:
        return None
    for tally in (
        ConditionMetrics(
            "lbcf_records",
            "BackendRecords",
            view.records,
            _said_of_record,
            conditions.REGISTERED,
        ),
        ConditionMetrics(
            "lbcf_groups",
            "BackendGroups, and Binds as the groups that they are,",
            view.groups,
            lambda group: group.status.conditions,
            conditions.READY,
        ),
        ConditionMetrics(
            "lbcf_load_balancers",
            "LoadBalancers",
            view.load_balancers,
            lambda found: found.conditions,
            conditions.CREATED,
            has=view.shard.has,
        ),
        ConditionMetrics(
            "lbcf_drivers",
            "LoadBalancerDrivers",
            view.drivers,
            lambda driver: driver.conditions,
            conditions.ACCEPTED,
            has=view.shard.has,
        ),
    ):
        metrics.registry.register(tally)
    metrics.registry.register(HealthMetrics(view))
    return RegistrationMetrics(view.records, clock, metrics)
