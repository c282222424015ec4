"""Tells that something was let go by a person's order, for both processes.

Before it: an object with the annotation `lbcf.tkestack.io/abandon` lost our finalizer
although its driver had not done its part. After it: an Event, and a metric.
"""

from prometheus_client import Counter

from lbcf.core.model.names import API_VERSION, BIND_VERSION
from lbcf.core.model.resources import Meta
from lbcf.core.reasons import EventReason
from lbcf.kube.events import EventRecorder, Reference
from lbcf.runtime.metrics import Metrics


class Abandonments:
    """Tells of what was let go.

    Args:
        recorder: of events.
        metrics: of the process; None: nobody measures.
    """

    def __init__(self, recorder: EventRecorder, metrics: Metrics | None) -> None:
        self._recorder = recorder
        self._counter = None if metrics is None else _make_counter(metrics)

    def tell(self, kind: str, meta: Meta, why: str) -> None:
        """Tell of one object.

        Args:
            kind: of our API.
            meta: as it was let go.
            why: what the annotation says.
        """
        if self._counter is not None:
            self._counter.labels(kind).inc()
        version = BIND_VERSION if kind == "Bind" else API_VERSION
        self._recorder.record(
            Reference(version, kind, meta.key, meta.uid),
            reason=EventReason.ABANDONED,
            action="Release",
            note=f"let go without its driver: {why}",
            warning=True,
        )


def _make_counter(metrics: Metrics) -> Counter:
    """Make the metric, with all its series: a rate needs a first sample."""
    counter = Counter(
        "lbcf_abandoned_total",
        "Objects that were let go by the annotation lbcf.tkestack.io/abandon, by kind.",
        ["kind"],
        registry=metrics.registry,
    )
    for kind in ("BackendRecord", "Bind", "LoadBalancer", "LoadBalancerDriver"):
        counter.labels(kind)
    return counter
