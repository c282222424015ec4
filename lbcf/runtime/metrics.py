"""The process's own Prometheus registry, in names that existing dashboards know.

Queues and the elector report here; `health` serves the text. The workqueue and
leader series carry client-go's names, help texts and the label `name`
(k8s.io/component-base, metrics/prometheus/workqueue and clientgo/leaderelection).
Steps of a dry run are counted and logged here, too.
"""

from collections.abc import Callable

import attrs
import structlog

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of what `Metrics.render` returns."""

_TEN_NANOSECONDS_TO_A_THOUSAND = tuple(10.0**power for power in range(-8, 4))
"""Bucket limits in seconds, as controller-runtime has them."""


@attrs.frozen
class QueueMetrics:
    """The series of one queue, already labelled.

    Attributes:
        adds: counts each key that was put in and was not there already.
        retries: counts each key that was put in for later.
        queued: seconds a key waited, once it was due.
        worked: seconds a key was in work.
    """

    adds: Counter
    retries: Counter
    queued: Histogram
    worked: Histogram


class Metrics:
    """A registry with the series that every process has.

    Attributes:
        registry: for further series of a process's own.
        loop_lag: worst delay of the event loop lately, in seconds.
    """

    def __init__(self) -> None:
        # A setting of the whole library: it would double the series for nothing.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.loop_lag = Gauge(
            "lbcf_event_loop_lag_seconds",
            "Worst delay of the event loop in the last half minute.",
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)
        self._leader = Gauge(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 "
            "indicates backup, 1 indicates master. 'name' is the string used to "
            "identify the lease. Please make sure to group by name.",
            ["name"],
            registry=self.registry,
        )
        self._make_queue_counters()
        self._make_queue_gauges()

    def _make_queue_counters(self) -> None:
        """Make the families that a queue adds to as things happen."""
        self._adds = Counter(
            "workqueue_adds",
            "Total number of adds handled by workqueue",
            ["name"],
            registry=self.registry,
        )
        self._retries = Counter(
            "workqueue_retries",
            "Total number of retries handled by workqueue",
            ["name"],
            registry=self.registry,
        )
        self._queued = Histogram(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            ["name"],
            buckets=_TEN_NANOSECONDS_TO_A_THOUSAND,
            registry=self.registry,
        )
        self._worked = Histogram(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes.",
            ["name"],
            buckets=_TEN_NANOSECONDS_TO_A_THOUSAND,
            registry=self.registry,
        )

    def _make_queue_gauges(self) -> None:
        """Make the families that ask the queue when somebody reads them."""
        self._depth = Gauge(
            "workqueue_depth",
            "Current depth of workqueue",
            ["name"],
            registry=self.registry,
        )
        self._unfinished = Gauge(
            "workqueue_unfinished_work_seconds",
            "How many seconds of work has done that is in progress and hasn't been "
            "observed by work_duration. Large values indicate stuck threads. One can "
            "deduce the number of stuck threads by observing the rate at which this "
            "increases.",
            ["name"],
            registry=self.registry,
        )
        self._longest = Gauge(
            "workqueue_longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been "
            "running.",
            ["name"],
            registry=self.registry,
        )

    def of_queue(
        self,
        name: str,
        *,
        depth: Callable[[], float],
        unfinished: Callable[[], float],
        longest: Callable[[], float],
    ) -> QueueMetrics:
        """Return the series of a queue of that name.

        Args:
            name: the label's value; one queue each.
            depth: keys that are due and not taken.
            unfinished: seconds that the keys now in work have been there, in sum.
            longest: seconds that the oldest of them has been there.
        """
        self._depth.labels(name).set_function(depth)
        self._unfinished.labels(name).set_function(unfinished)
        self._longest.labels(name).set_function(longest)
        return QueueMetrics(
            adds=self._adds.labels(name),
            retries=self._retries.labels(name),
            queued=self._queued.labels(name),
            worked=self._worked.labels(name),
        )

    def set_leader(self, name: str, *, leading: bool) -> None:
        """Set whether this process holds the lease of that name."""
        self._leader.labels(name).set(leading)

    def render(self) -> bytes:
        """Return all series in Prometheus' text format, of type `CONTENT_TYPE`."""
        return generate_latest(self.registry)


_log = structlog.get_logger(__name__)


class DrySteps:
    """Tells of steps that were not taken, or only for show."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._steps = Counter(
            "lbcf_dry_run_steps_total",
            "Steps of a dry run, by what would have been done and to what.",
            ["step", "target"],
            registry=registry,
        )

    def tell(self, step: str, target: str, **facts: object) -> None:
        """Count and log one step.

        Args:
            step: such as `would_create`; the log event is `dry_run.` and this.
            target: a plural of the API, or a driver's operation.
            facts: for the log.
        """
        self._steps.labels(step, target).inc()
        _log.info(f"dry_run.{step}", target=target, **facts)
