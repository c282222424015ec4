"""Serves the API server: a question over HTTPS, a verdict back.

`reviewer` finds the verdict; `credentials` has the certificate.
"""

import asyncio
import contextlib
import ssl

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import Final

import structlog

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram

from lbcf.admission.decisions import Admitted, Verdict
from lbcf.admission.limits import RequestLimiter, RequestLimits
from lbcf.admission.review import Review, parse_review, render_review
from lbcf.admission.reviewer import Reviewer
from lbcf.runtime.clock import Clock
from lbcf.runtime.flags import BindAddress
from lbcf.runtime.health import CannotListen
from lbcf.wire.errors import Malformed
from lbcf.wire.fields import parse_duration


PATH: Final = "/validate"
_DEFAULT: Final = timedelta(seconds=10)
"""The API server's time-out where it does not say (webhook configurations, v1)."""
_RESERVE: Final = timedelta(seconds=1)
"""Kept of the API server's time-out for the way back."""
_RESOURCES: Final = frozenset({"loadbalancers", "backendgroups", "binds"})
_OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
_OTHER: Final = "other"
"""Label of what no API server asks us: who invents words shall not make series."""

_log = structlog.get_logger(__name__)


class ReviewMetrics:
    """What Prometheus is told of the questions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reviews = Counter(
            "lbcf_admission_reviews_total",
            "Questions of the API server by resource, operation and verdict.",
            ["resource", "operation", "verdict"],
            registry=registry,
        )
        self.duration = Histogram(
            "lbcf_admission_review_duration_seconds",
            "Time that verdicts took.",
            ["resource"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=registry,
        )


class Endpoint:
    """The one path that the API server calls."""

    def __init__(
        self,
        reviewer: Reviewer,
        clock: Clock,
        series: ReviewMetrics,
        limits: RequestLimits | None = None,
    ) -> None:
        self.limiter = RequestLimiter(limits or RequestLimits())
        self._reviewer = reviewer
        self._clock = clock
        self._series = series

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one question."""
        async with self.limiter.body(request) as body:
            try:
                within = time_left(request.query.get("timeout"))
                review = parse_review(body)
            except Malformed as error:
                return web.Response(status=400, text=str(error))
            began = self._clock.monotonic()
            verdict = await self._verdict(review, within)
            self._count(review, verdict, self._clock.monotonic() - began)
            return web.Response(
                body=render_review(review.uid, verdict), content_type="application/json"
            )

    async def _verdict(self, review: Review, within: timedelta) -> Verdict:
        with self.limiter.review(review.namespace) as has_room:
            if has_room:
                return await self._reviewer.review(review, within)
        return self._reviewer.crowded(review.namespace)

    def _count(self, review: Review, verdict: Verdict, seconds: float) -> None:
        """Count and log a verdict."""
        about = f"{review.namespace}/{review.name}"
        resource = review.resource if review.resource in _RESOURCES else _OTHER
        operation = review.operation if review.operation in _OPERATIONS else _OTHER
        if isinstance(verdict, Admitted):
            said = "Warned" if verdict.warnings else "Admitted"
            _log.debug("review.admitted", resource=resource, about=about)
        else:
            said = verdict.cause.value
            _log.info(
                "review.refused",
                resource=resource,
                about=about,
                operation=operation,
                message=verdict.message,
            )
        self._series.reviews.labels(resource, operation, said).inc()
        self._series.duration.labels(resource).observe(seconds)


def time_left(timeout: str | None) -> timedelta:
    """Return how long a verdict may take.

    Args:
        timeout: what the API server says of its own patience, such as `10s`.

    Raises:
        Malformed: that is no duration.
    """
    whole = _DEFAULT if timeout is None else parse_duration(timeout)
    return max(whole - _RESERVE, whole / 2)


@contextlib.asynccontextmanager
async def serve(
    endpoint: Endpoint, address: BindAddress, tls: ssl.SSLContext, grace: timedelta
) -> AsyncIterator[int]:
    """Serve until the block is left, then finish what is under way; gives the port.

    Raises:
        CannotListen: the address cannot be used.
    """
    limiter = endpoint.limiter
    app = web.Application(client_max_size=limiter.limits.largest)
    app.add_routes([web.post(PATH, endpoint.answer)])
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        lingering_time=1,  # of a body that nobody reads to its end
        keepalive_timeout=limiter.limits.idle.total_seconds(),
        shutdown_timeout=grace.total_seconds(),
    )
    await runner.setup()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(runner.cleanup)
        listening = await _listening(runner, limiter, address, tls)
        stack.callback(listening.close)
        port: int = listening.sockets[0].getsockname()[1]
        _log.info("webhook.serving", host=address.host or "*", port=port, path=PATH)
        yield port


async def _listening(
    runner: web.AppRunner,
    limiter: RequestLimiter,
    address: BindAddress,
    tls: ssl.SSLContext,
) -> asyncio.Server:
    """Listen; aiohttp's own sites know neither a time limit of TLS nor one of their number.

    Raises:
        CannotListen: the address cannot be used.
    """
    server = runner.server
    if server is None:
        raise RuntimeError("a runner that is set up has a server")
    try:
        return await asyncio.get_running_loop().create_server(
            partial(limiter.protocol, server),
            address.host,
            address.port,
            ssl=tls,
            ssl_handshake_timeout=limiter.limits.handshake.total_seconds(),
        )
    except OSError as error:
        raise CannotListen(f"cannot listen on {address}: {error.strerror}") from error
