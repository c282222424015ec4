"""Shows what a process has read, and how fresh that is, when somebody asks.

Before it: `lbcf.kube.informer` and `lbcf.kube.events`. Nothing is counted as things
happen: the stores know.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lbcf.kube.events import EventRecorder
from lbcf.kube.informer import Informer
from lbcf.runtime.clock import Clock


class ReadSeries(Collector):
    """What /metrics says of informers and events.

    Args:
        informers: of the process; each of another kind.
        recorder: of events.
        clock: says how long ago something was heard.
    """

    def __init__(
        self, informers: Sequence[Informer[Any]], recorder: EventRecorder, clock: Clock
    ) -> None:
        self._informers = informers
        self._recorder = recorder
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """Look at all of them."""
        yield self._by_resource(
            "lbcf_watch_silence_seconds",
            "Time since the API server last said anything of a kind, bookmarks "
            "included. /healthz fails above 300.",
            self._silence,
        )
        yield self._by_resource(
            "lbcf_objects_held",
            "Objects of a kind in memory.",
            lambda informer: len(informer.store),
        )
        yield self._by_resource(
            "lbcf_objects_unreadable",
            "Objects of a kind that cannot be understood; what they decide is held.",
            lambda informer: len(informer.store.unreadable),
        )
        yield CounterMetricFamily(
            "lbcf_events_dropped",
            "Kubernetes Events that were not written: too many, or refused.",
            value=self._recorder.dropped,
        )

    def _silence(self, informer: Informer[Any]) -> float | None:
        """Say for how long a watch has heard nothing, None before the first list."""
        heard = informer.last_heard
        return None if heard is None else self._clock.monotonic() - heard

    def _by_resource(
        self, name: str, text: str, ask: Callable[[Informer[Any]], float | None]
    ) -> Metric:
        """Make one family; what has no value is left out."""
        family = GaugeMetricFamily(name, text, labels=["resource"])
        for informer in self._informers:
            if (value := ask(informer)) is not None:
                family.add_metric([informer.resource.plural], value)
        return family
