"""Serves the probes and the metrics over HTTP, and watches the event loop for them.

`/healthz` asks whether the process should be restarted, `/readyz` whether it does
its work; each runs named checks. Answers look like those of the API server: `ok`,
or one line per check when asked with `?verbose` or when one failed.
"""

import contextlib

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta

import attrs
import structlog

from aiohttp import web

from lbcf.runtime import metrics as series
from lbcf.runtime.clock import Clock
from lbcf.runtime.flags import BindAddress
from lbcf.runtime.metrics import Metrics


Check = Callable[[], str | None]
"""Answers at once: None when all is well, else what is wrong."""

_Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

_GRACE = timedelta(seconds=1)
"""How long an answer under way may take when the server stops."""

_log = structlog.get_logger(__name__)


@attrs.frozen
class Bound:
    """Where the server listens in fact; where one address is several, the first.

    Attributes:
        probes: port of /healthz and /readyz; None when off.
        metrics: port of /metrics; None when off.
    """

    probes: int | None
    metrics: int | None


class CannotListen(Exception):  # noqa: N818 - reads as what happened
    """An address is taken, or not of this host."""


@contextlib.asynccontextmanager
async def serve(
    *,
    probes: BindAddress | None,
    metrics: BindAddress | None,
    live: Mapping[str, Check],
    ready: Mapping[str, Check],
    registry: Metrics,
) -> AsyncIterator[Bound]:
    """Serve until the block is left.

    Args:
        probes: where to serve /healthz and /readyz; None for nowhere.
        metrics: where to serve /metrics; may be the same address; None for nowhere.
        live: the checks of /healthz, by name. They are asked at each request, so a
            mapping that grows later is fine.
        ready: the checks of /readyz; those of /healthz are not repeated.
        registry: what /metrics renders.

    Raises:
        CannotListen: an address cannot be used.
    """
    probe_routes = [
        web.get("/healthz", _probe("healthz", live)),
        web.get("/readyz", _probe("readyz", ready)),
    ]
    metric_routes = [web.get("/metrics", _metrics_page(registry))]
    async with contextlib.AsyncExitStack() as stack:
        if probes == metrics:
            both = await _listen(stack, probes, [*probe_routes, *metric_routes])
            yield Bound(both, both)
        else:
            yield Bound(
                await _listen(stack, probes, probe_routes),
                await _listen(stack, metrics, metric_routes),
            )


async def _listen(
    stack: contextlib.AsyncExitStack,
    address: BindAddress | None,
    routes: list[web.RouteDef],
) -> int | None:
    """Serve the routes at an address; return the port."""
    if address is None:
        return None
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=_GRACE.total_seconds(),
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    try:
        await web.TCPSite(runner, address.host, address.port).start()
    except OSError as error:
        raise CannotListen(f"cannot listen on {address}: {error.strerror}") from error
    port: int = runner.addresses[0][1]
    paths = [route.path for route in routes]
    _log.info("server.started", host=address.host or "*", port=port, paths=paths)
    return port


def _probe(name: str, checks: Mapping[str, Check]) -> _Answer:
    """Make the answer of one probe path."""

    async def answer(request: web.Request) -> web.StreamResponse:
        """Run the checks, without those named by `?exclude=`."""
        excluded = request.query.getall("exclude", [])
        found = {
            check: _ask(ask) for check, ask in checks.items() if check not in excluded
        }
        failed = {check: wrong for check, wrong in found.items() if wrong is not None}
        if failed:
            _log.info("probe.failed", probe=name, failed=failed)
            return web.Response(status=500, text=_listed(name, found, "failed"))
        verbose = "verbose" in request.query
        return web.Response(text=_listed(name, found, "passed") if verbose else "ok")

    return answer


def _ask(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - the other checks matter too
        return f"the check itself failed: {type(error).__name__}: {error}"


def _listed(name: str, found: Mapping[str, str | None], verdict: str) -> str:
    """Write one line per check, then the verdict, in the API server's form."""
    lines = [
        f"[+]{check} ok" if wrong is None else f"[-]{check} failed: {wrong}"
        for check, wrong in found.items()
    ]
    return "\n".join([*lines, f"{name} check {verdict}", ""])


def _metrics_page(registry: Metrics) -> _Answer:
    """Make the answer of /metrics."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        page = registry.render()
        return web.Response(body=page, headers={"Content-Type": series.CONTENT_TYPE})

    return answer


class LoopWatch:
    """Measures the loop while `run` runs; `check` is a check for `health`."""

    def __init__(
        self,
        clock: Clock,
        metrics: Metrics | None = None,
        *,
        interval: timedelta = timedelta(milliseconds=500),
        window: timedelta = timedelta(seconds=30),
        limit: timedelta = timedelta(seconds=10),
    ) -> None:
        """Get ready.

        Args:
            clock: sleeps between the beats and tells how long that took.
            metrics: gets the worst lag of the window, when it is read.
            interval: from beat to beat.
            window: how far back the worst lag is looked for.
            limit: a lag above it fails the check.
        """
        self._clock = clock
        self._interval = interval.total_seconds()
        self._window = window.total_seconds()
        self._limit = limit.total_seconds()
        self._expected: float | None = None
        # (moment, lag), the lags falling: whatever is smaller than a later lag can
        # never again be the worst.
        self._lags: deque[tuple[float, float]] = deque()
        if metrics:
            metrics.loop_lag.set_function(self.worst)

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self._expected = self._clock.monotonic() + self._interval
            await self._clock.sleep(timedelta(seconds=self._interval))
            self._note(self._overdue())

    def worst(self) -> float:
        """Return the worst lag of the window in seconds, counting one that lasts."""
        oldest = self._clock.monotonic() - self._window
        while self._lags and self._lags[0][0] < oldest:
            self._lags.popleft()
        past = self._lags[0][1] if self._lags else 0.0
        return max(past, self._overdue())

    def check(self) -> str | None:
        """Return what is wrong when the loop was too late, or was never watched."""
        if self._expected is None:
            return "the heartbeat of the event loop has not begun"
        worst = self.worst()
        if worst <= self._limit:
            return None
        return (
            f"the event loop stood still for {worst:.1f} s, more than "
            f"{self._limit:g} s, within the last {self._window:g} s"
        )

    def _overdue(self) -> float:
        if self._expected is None:
            return 0.0
        return max(0.0, self._clock.monotonic() - self._expected)

    def _note(self, lag: float) -> None:
        while self._lags and self._lags[-1][1] <= lag:
            self._lags.pop()
        self._lags.append((self._clock.monotonic(), lag))
