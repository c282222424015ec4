"""Shows until when the certificate that is served is good, when somebody asks.

Before it: `credentials`, which takes certificates up while the server runs.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class CertificateSeries(Collector):
    """What /metrics says of the certificate; no sample as long as there is none.

    Args:
        end: says until when it is good.
    """

    def __init__(self, end: Callable[[], datetime | None]) -> None:
        self._end = end

    def collect(self) -> Iterable[Metric]:
        """Look at it."""
        family = GaugeMetricFamily(
            "lbcf_admission_certificate_not_after_seconds",
            "Unix time at which the certificate ends that new connections are shown; "
            "missing before the first one is loaded.",
        )
        # A zero there would be a certificate that is over since 1970.
        if (end := self._end()) is not None:
            family.add_metric([], end.timestamp())
        yield family
