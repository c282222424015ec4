"""Tells of statuses that the API server refused: an event, a metric and the log.

Below it: `lbcf.kube.refusals`, which keeps them from being sent again at once.
"""

from datetime import timedelta

import structlog

from prometheus_client import Counter

from lbcf.core.model.names import API_VERSION, BIND_VERSION
from lbcf.core.model.resources import Meta
from lbcf.core.reasons import Reason
from lbcf.kube.errors import Invalid
from lbcf.kube.events import EventRecorder, Reference
from lbcf.runtime.metrics import Metrics


_log = structlog.get_logger(__name__)


class RefusalReporter:
    """Tells of each refusal.

    Args:
        recorder: of events.
        metrics: of the process; None: nobody measures.
    """

    def __init__(self, recorder: EventRecorder, metrics: Metrics | None) -> None:
        self._recorder = recorder
        self._counter = None if metrics is None else _make_counter(metrics)

    def tell(self, kind: str, meta: Meta, error: Invalid, pause: timedelta) -> None:
        """Tell of one; `pause` is how long it is not sent again."""
        if self._counter is not None:
            self._counter.labels(kind).inc()
        _log.warning(
            "status.refused",
            kind=kind,
            object=str(meta.key),
            error=str(error),
            retry_after=pause,
        )
        version = BIND_VERSION if kind == "Bind" else API_VERSION
        self._recorder.record(
            Reference(version, kind, meta.key, meta.uid),
            reason=Reason.STATUS_REFUSED,
            action="WriteStatus",
            note=(
                "its status is as old as this event; the API server refuses to store the "
                "new one, which is tried again every 2 minutes at the latest. Install the "
                "CustomResourceDefinitions of this version (manifests/crds), or look for "
                f"an admission rule that refuses it: {error}"
            ),
            warning=True,
        )


def _make_counter(metrics: Metrics) -> Counter:
    """Make the metric, with all its series: a rate needs a first sample."""
    counter = Counter(
        "lbcf_status_refusals_total",
        "Writes of a status that the API server refused as invalid, by kind.",
        ["kind"],
        registry=metrics.registry,
    )
    for kind in ("BackendGroup", "Bind", "LoadBalancer", "LoadBalancerDriver"):
        counter.labels(kind)
    return counter
