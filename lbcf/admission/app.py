"""Puts the admission process together."""

import asyncio

from collections.abc import Mapping, Sequence
from typing import Any

from lbcf.admission.credentials import Files, Keeper, SharedSecret, Source
from lbcf.admission.flags import Webhook
from lbcf.admission.reviewer import Reviewer
from lbcf.admission.series import CertificateSeries
from lbcf.admission.server import Endpoint, Series, serve
from lbcf.core.model.values import ObjectKey
from lbcf.kube.informer import Informer
from lbcf.process import Dependencies
from lbcf.runtime.health import Check


class Admission:
    """The program of the admission process: all replicas work, none leads."""

    def __init__(self, parts: Dependencies, webhook: Webhook) -> None:
        self._parts = parts
        self._webhook = webhook
        self._keeper = Keeper(_source(parts, webhook), parts.clock, webhook.clients)
        parts.metrics.registry.register(CertificateSeries(self._keeper.end))
        reviewer = Reviewer(parts.client, parts.drivers, parts.secrets, webhook.policy)
        self._endpoint = Endpoint(reviewer, parts.clock, Series(parts.metrics.registry))
        self._is_serving = False

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """Nothing is read beforehand."""
        return ()

    @property
    def ready(self) -> Mapping[str, Check]:
        """It can be called once it serves, with a certificate that is good."""
        return {"certificate": self._keeper.check, "serving": self._unserved}

    async def work(self, stop: asyncio.Event) -> None:
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
        """Say that nobody can call yet."""
        return None if self._is_serving else "not listening yet"


def _source(parts: Dependencies, webhook: Webhook) -> Source:
    """Say where the certificate comes from."""
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
