"""Puts the admission process together, and shows until when its certificate is good."""

import asyncio
import contextlib

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lbcf.admission.credentials import Files, Keeper, SharedSecret, Source
from lbcf.admission.flags import Webhook
from lbcf.admission.reviewer import Reviewer
from lbcf.admission.server import Endpoint, ReviewMetrics, serve
from lbcf.core.model.values import ObjectKey
from lbcf.kube.informer import Informer
from lbcf.process import Dependencies
from lbcf.runtime.health import Check
from lbcf.runtime.journal import Predecessor


class Admission:
    """The program of the admission process: all replicas work, none leads."""

    def __init__(self, parts: Dependencies, webhook: Webhook) -> None:
        self._parts = parts
        self._webhook = webhook
        self._keeper = Keeper(_source(parts, webhook), parts.clock, webhook.clients)
        parts.metrics.registry.register(CertificateMetrics(self._keeper.end))
        reviewer = Reviewer(parts.client, parts.drivers, parts.secrets, webhook.policy)
        self._endpoint = Endpoint(
            reviewer, parts.clock, ReviewMetrics(parts.metrics.registry)
        )
        self._is_serving = False

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """Nothing is read beforehand."""
        return ()

    @property
    def ready(self) -> Mapping[str, Check]:
        """It can be called once it serves, with a certificate that is good."""
        return {"certificate": self._keeper.check, "serving": self._unserved}

    def beside(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Nothing: a replica that does not lead only reads."""
        return contextlib.nullcontext()

    async def work(
        self, stop: asyncio.Event, _predecessor: Predecessor | None = None, /
    ) -> None:
        """Serve until told to stop; then finish what is under way.

        Raises:
            CannotListen: the address is taken.
        """
        loading = asyncio.create_task(self._keeper.load())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({loading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            loading.cancel()
            return
        await loading
        keeping = asyncio.create_task(self._keeper.keep())
        grace, address = self._parts.settings.grace, self._webhook.address
        try:
            async with serve(self._endpoint, address, self._keeper.context, grace):
                self._is_serving = True
                await stopped
        finally:
            keeping.cancel()

    def _unserved(self) -> str | None:
        return None if self._is_serving else "not listening yet"


def _source(parts: Dependencies, webhook: Webhook) -> Source:
    """Return the source of the certificate: files, or the shared Secret."""
    if webhook.files is not None:
        return Files(*webhook.files)
    namespace = parts.settings.namespace
    return SharedSecret(
        parts.client,
        ObjectKey(namespace, webhook.secret),
        webhook.configuration,
        webhook.names(namespace),
        clock=parts.clock,
    )


class CertificateMetrics(Collector):
    """What /metrics says of the certificate; no sample as long as there is none.

    Args:
        end: says until when it is good.
    """

    def __init__(self, end: Callable[[], datetime | None]) -> None:
        self._end = end

    def collect(self) -> Iterable[Metric]:
        """Read the end of the certificate."""
        family = GaugeMetricFamily(
            "lbcf_admission_certificate_not_after_seconds",
            "Unix time at which the certificate ends that new connections are shown; "
            "missing before the first one is loaded.",
        )
        # A zero there would be a certificate that is over since 1970.
        if (end := self._end()) is not None:
            family.add_metric([], end.timestamp())
        yield family
