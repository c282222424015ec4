"""Metrics of deletions: how many wait, for how long, and on whose driver.

Gauges are made of the store when somebody asks; it is small, since records that live are
not in it.
"""

from collections.abc import Iterable
from datetime import datetime

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lbcf.core.lifecycle.deregistration import DrainEnd
from lbcf.core.model import conditions
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.kube.store import Store
from lbcf.runtime.clock import Clock
from lbcf.runtime.metrics import Metrics


_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


class DeletionMetrics(Collector):
    """What /metrics says of deletions.

    Args:
        records: those that are being deleted, and others that do not count here.
        clock: the time, of the same clock as deletionTimestamps.
        metrics: of the process; None: nobody measures.
    """

    def __init__(
        self, records: Store[BackendRecord], clock: Clock, metrics: Metrics | None
    ) -> None:
        self._records = records
        self._clock = clock
        self._duration: Histogram | None = None
        self._drains: Counter | None = None
        self._cut: Counter | None = None
        if metrics is not None:
            self._duration = _make_duration(metrics)
            self._drains = _make_drains(metrics)
            self._cut = _make_cut(metrics)
            metrics.registry.register(self)

    def over(
        self, record: BackendRecord, end: DrainEnd | None, connections: int | None
    ) -> None:
        """Take in that a record is gone.

        Args:
            record: as it was last read.
            end: how its drain ended, None where that did not wait.
            connections: how many were left then, None where nobody said.
        """
        since, driver = record.meta.deleting_since, str(record.driver_key)
        if self._duration is not None and since is not None:
            seconds = (self._clock.now() - since).total_seconds()
            self._duration.labels(driver).observe(max(0.0, seconds))
        if self._drains is not None and end is not None:
            self._drains.labels(driver, end).inc()
        if self._cut is not None and end is DrainEnd.DEADLINE:
            self._cut.labels(driver).inc(connections or 0)

    def forget(self, driver: ObjectKey) -> None:
        """Remove the series of a driver that is gone."""
        for family in (self._duration, self._drains, self._cut):
            if family is not None:
                family.remove_by_labels({"driver": str(driver)})

    def collect(self) -> Iterable[Metric]:
        """Look through the records."""
        now = self._clock.now()
        held: dict[str, int] = {}
        draining: dict[str, int] = {}
        oldest: dict[str, float] = {}
        for record in filter(lambda r: r.is_deleting, self._records.values()):
            driver = str(record.driver_key)
            held[driver] = held.get(driver, 0) + 1
            draining[driver] = draining.get(driver, 0) + is_draining(record, now)
            since = record.meta.deleting_since or now
            age = (now - since).total_seconds()
            oldest[driver] = max(age, oldest.get(driver, 0.0))
        yield _family(
            "lbcf_deletions_waiting",
            "BackendRecords that are being deleted and not gone yet.",
            held,
        )
        yield _family(
            "lbcf_drains_waiting",
            "BackendRecords that drain: nothing new comes, what runs may still end.",
            draining,
        )
        yield _family(
            "lbcf_oldest_deletion_age_seconds",
            "Time since the deletion of the BackendRecord that waits for the longest.",
            oldest,
        )


def is_draining(record: BackendRecord, now: datetime) -> bool:
    """Return whether a drain that has begun may still go on."""
    drain = record.status.drain
    if drain is None or now >= drain.deadline:
        return False
    return conditions.find(record.status.conditions, conditions.DEREGISTERED) is None


def _family(name: str, text: str, values: dict[str, int] | dict[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["driver"])
    for driver, value in values.items():
        family.add_metric([driver], value)
    return family


def _make_duration(metrics: Metrics) -> Histogram:
    """Make the histogram of whole deletions."""
    return Histogram(
        "lbcf_deregistration_duration_seconds",
        "Time from a BackendRecord's deletion to its end, the drain included.",
        ["driver"],
        buckets=_BUCKETS,
        registry=metrics.registry,
    )


def _make_drains(metrics: Metrics) -> Counter:
    """Make the counter of drains."""
    return Counter(
        "lbcf_drains_total",
        "Drains that really waited, by how they ended: nothing was left (Empty), "
        "something still ran at the deadline (Deadline), or the backend did not exist "
        "any more (BackendGone).",
        ["driver", "outcome"],
        registry=metrics.registry,
    )


def _make_cut(metrics: Metrics) -> Counter:
    """Make the counter of connections that drains left."""
    return Counter(
        "lbcf_drain_connections_cut_total",
        "Connections that were left when drains ended at their deadline, as drivers "
        "last counted them; those of drivers that do not count are not in it.",
        ["driver"],
        registry=metrics.registry,
    )
