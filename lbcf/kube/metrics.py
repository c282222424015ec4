"""Counts what is asked of the API server, in the names of client-go.

It stands between `client` and `transport`: a request counts once, however often the
transport had to repeat it.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from datetime import timedelta

from prometheus_client import CollectorRegistry, Counter, Histogram

from lbcf.kube.errors import KubeError
from lbcf.kube.requests import ApiRequest, HttpTransport
from lbcf.runtime.clock import Clock


_FINE = "2xx"
"""What was asked for came: whether 200 or 201 is not told up here."""
_UNANSWERED = "<error>"
"""What client-go writes in the place of a status where there was no answer."""


class RequestMetrics:
    """The series of all requests of a process (client-go, tools/metrics).

    Args:
        registry: where they are shown.
        clock: measures.
    """

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self._clock = clock
        self._requests = Counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code and method.",
            ["code", "method"],
            registry=registry,
        )
        self._duration = Histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb. Watches are not in it.",
            ["verb"],
            buckets=(0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60),
            registry=registry,
        )

    def counting(self, real: HttpTransport) -> HttpTransport:
        """Count what passes on its way to the API server."""
        return _CountedTransport(self, real)

    def observe(self, request: ApiRequest, since: float) -> None:
        """Take in how long an answer took, from that moment of the clock on."""
        seconds = self._clock.monotonic() - since
        self._duration.labels(request.method).observe(seconds)

    @contextmanager
    def counted(self, request: ApiRequest) -> Iterator[float]:
        """Count a request by how the block ends; gives the moment it began."""
        code = _UNANSWERED
        try:
            yield self._clock.monotonic()
            code = _FINE
        except KubeError as error:
            code = _UNANSWERED if error.status is None else str(error.status)
            raise
        finally:
            self._requests.labels(code, request.method).inc()


class _CountedTransport:
    """An exchange whose requests are counted."""

    def __init__(self, series: RequestMetrics, real: HttpTransport) -> None:
        self._series = series
        self._real = real

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Send it on.

        Raises:
            KubeError: as the real one does.
        """
        with self._series.counted(request) as began:
            try:
                return await self._real.send(request, within)
            finally:
                self._series.observe(request, began)

    def stream(
        self, request: ApiRequest, silence: timedelta
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open it; what counts is the opening."""
        return self._opened(request, silence)

    @asynccontextmanager
    async def _opened(
        self, request: ApiRequest, silence: timedelta
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open the answer; gives its chunks."""
        async with AsyncExitStack() as stack:
            with self._series.counted(request):
                stream = self._real.stream(request, silence)
                chunks = await stack.enter_async_context(stream)
            yield chunks
