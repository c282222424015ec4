"""What Prometheus is told of the calls; `lbcf.drivers.pool` counts here."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class CallMetrics:
    """The series of all driver calls of a process.

    Attributes:
        calls: by driver, operation and outcome (a status, or a DriverError's reason).
        unanswered: those of them that may have had their effect, although no valid
            answer came; by driver and operation.
        duration: seconds from the request to the outcome, without waiting for a slot.
        batch_items: how many members batches are about, by driver and operation.
        batch_results: what became of each of them, by driver, operation and outcome.
        in_flight: calls under way, by driver.
        waiting: calls that wait for a slot, by driver.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.calls = Counter(
            "lbcf_driver_calls_total",
            "Driver calls by driver, operation and outcome.",
            ["driver", "operation", "outcome"],
            registry=registry,
        )
        self.unanswered = Counter(
            "lbcf_driver_calls_without_answer_total",
            "Driver calls that may have had their effect although no valid answer came.",
            ["driver", "operation"],
            registry=registry,
        )
        self.duration = Histogram(
            "lbcf_driver_call_duration_seconds",
            "Time that driver calls took.",
            ["driver", "operation"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
            registry=registry,
        )
        self.batch_items = Histogram(
            "lbcf_driver_batch_items",
            "Members that calls of batches are about.",
            ["driver", "operation"],
            buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
            registry=registry,
        )
        self.batch_results = Counter(
            "lbcf_driver_batch_results_total",
            "Members of batches by driver, operation and outcome.",
            ["driver", "operation", "outcome"],
            registry=registry,
        )
        self.in_flight = Gauge(
            "lbcf_driver_calls_in_flight",
            "Driver calls under way.",
            ["driver"],
            registry=registry,
        )
        self.waiting = Gauge(
            "lbcf_driver_calls_waiting",
            "Driver calls that wait until the driver may be called.",
            ["driver"],
            registry=registry,
        )

    def forget(self, driver: str) -> None:
        """Remove what is told of a driver that is gone: its name may never come again."""
        for family in (
            self.calls,
            self.unanswered,
            self.duration,
            self.batch_items,
            self.batch_results,
            self.in_flight,
            self.waiting,
        ):
            family.remove_by_labels({"driver": driver})
