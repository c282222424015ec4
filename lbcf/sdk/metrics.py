"""What Prometheus is told of a driver; `lbcf.sdk.server` counts here."""

import contextlib

from collections.abc import Callable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from lbcf.core.model.operations import Operation
from lbcf.runtime.clock import Clock


class ServiceMetrics:
    """The series of one driver.

    Attributes:
        registry: for further series, of the driver's own.
        operations: by operation and outcome (Succ, Fail, Running).
        refused: requests that became no operation, by HTTP status.
        batch_items: how many items batches have, by operation.
    """

    def __init__(self, clock: Clock, busy_members: Callable[[], float]) -> None:
        # A setting of the whole library: it would double the series for nothing.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._clock = clock
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.operations = Counter(
            "lbcf_sdk_operations_total",
            "Operations by outcome.",
            ["operation", "outcome"],
            registry=registry,
        )
        self.refused = Counter(
            "lbcf_sdk_requests_refused_total",
            "Requests that were refused before any operation, by HTTP status.",
            ["status"],
            registry=registry,
        )
        self._duration = Histogram(
            "lbcf_sdk_operation_duration_seconds",
            "Time that operations took, without waiting for their turn.",
            ["operation"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
            registry=registry,
        )
        self.batch_items = Histogram(
            "lbcf_sdk_batch_items",
            "Items of batches; each is an operation of its own, too.",
            ["operation"],
            buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
            registry=registry,
        )
        self._in_flight = Gauge(
            "lbcf_sdk_operations_in_flight", "Operations under way.", registry=registry
        )
        busy = Gauge(
            "lbcf_sdk_busy_members",
            "Members with an operation under way or waiting.",
            registry=registry,
        )
        busy.set_function(busy_members)

    @contextlib.contextmanager
    def timed(self, operation: Operation) -> Iterator[None]:
        """Measure an operation."""
        began = self._clock.monotonic()
        with self._in_flight.track_inprogress():
            try:
                yield
            finally:
                seconds = self._clock.monotonic() - began
                self._duration.labels(operation).observe(seconds)
