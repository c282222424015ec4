"""All drivers of a process: who may call now, and the call itself.

    async with pool.slot(driver, load_balancer):     wait here, without a permission
        answer = await pool.call(driver, operation, request, timeout=...)

`lbcf.executor` calls; `lbcf.drivers.client` does the HTTP, `lbcf.drivers.access` says
with which credentials, `lbcf.wire.driver` does the JSON.
"""

import contextlib

from collections import Counter
from collections.abc import (
    AsyncIterator,
    Callable,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import timedelta
from typing import ClassVar, Final, Self, TypeVar, cast

import structlog

from prometheus_client import CollectorRegistry

from lbcf.core.lifecycle.turn import namespace_share
from lbcf.core.model.access import Secret
from lbcf.core.model.operations import SINGLE, Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.drivers.access import (
    ALLOW_ALL,
    DriverAllowlist,
    FindSecret,
    access_of,
    no_secrets,
    secrets_of,
    stamp_of,
)
from lbcf.drivers.client import AGENT, DriverClient, large_lists
from lbcf.drivers.connections import DriverConnections
from lbcf.drivers.errors import BadAnswer, DriverError, TooLate
from lbcf.drivers.metrics import CallMetrics
from lbcf.runtime import spans
from lbcf.runtime.clock import Clock
from lbcf.runtime.semaphore import KeyedSemaphores
from lbcf.runtime.spans import Span, Trace, new_trace
from lbcf.wire.driver import (
    REQUESTS,
    Answer,
    Malformed,
    Request,
    parse_answer,
    render_request,
)
from lbcf.wire.driver_answers import outcome_of


_A = TypeVar("_A", bound=Answer)

Reader = Callable[[Operation, bytes], Answer]
"""Reads the body of an operation's answer; raises Malformed if it is none."""

CANCELLED: Final = "Cancelled"
"""Outcome of a call that was cut off, as where its process ends."""

_ENDS_IN_A_ROW = 8
"""Calls of a namespace that end traffic before one that does not: what it deletes for
minutes must not keep it from being asked which members its load balancers have."""

_log = structlog.get_logger(__name__)


class DriverPool:
    """Calls drivers, each within its limit. Make it and close it in one event loop.

    Attributes:
        sends_batches: calls of drivers that take batches may be gathered.

    Args:
        clock: the time.
        registry: counts the calls.
        find: looks up the Secrets that drivers name.
        allowlist: which drivers may be called.
        agent: the User-Agent, by which drivers' logs tell callers apart.
    """

    sends_batches: ClassVar[bool] = True

    def __init__(
        self,
        clock: Clock,
        registry: CollectorRegistry,
        *,
        find: FindSecret = no_secrets,
        allowlist: DriverAllowlist = ALLOW_ALL,
        agent: str = AGENT,
    ) -> None:
        self._clock = clock
        self._agent = agent
        self._metrics = CallMetrics(registry)
        self._find = find
        self._allowlist = allowlist
        self._slots = KeyedSemaphores(in_a_row=_ENDS_IN_A_ROW)
        self._large = large_lists()
        self._connections = DriverConnections()
        self._users: Counter[ObjectKey] = Counter()
        self._gone: set[ObjectKey] = set()

    async def __aenter__(self) -> Self:
        """Use it for a block."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close it at the block's end."""
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

    def forget(self, driver: ObjectKey) -> None:
        """Close the connections of a driver that is gone, and drop its series.

        Calls that wait or are under way are finished first.
        """
        if self._users[driver]:
            self._gone.add(driver)
        else:
            self._drop(driver)

    def _drop(self, driver: ObjectKey) -> None:
        self._gone.discard(driver)
        del self._users[driver]
        self._connections.forget(driver)
        self._metrics.forget(str(driver))

    @contextlib.contextmanager
    def _used(self, driver: ObjectKey) -> Iterator[None]:
        """Keep what belongs to a driver until the block ends."""
        self._users[driver] += 1
        try:
            yield
        finally:
            self._users[driver] -= 1
            if not self._users[driver]:
                del self._users[driver]
                if driver in self._gone:
                    self._drop(driver)

    def count_item(
        self, driver: LoadBalancerDriver, operation: Operation, outcome: str
    ) -> None:
        """Count what became of one item of a batch."""
        name = str(driver.meta.key)
        self._metrics.batch_results.labels(name, operation, outcome).inc()

    def refusal(self, driver: LoadBalancerDriver) -> DriverError | None:
        """Return why a driver would not be called at all; None: it would be."""
        try:
            self._allowlist.check(driver)
            access_of(driver, secrets_of(driver, self._find))
        except DriverError as error:
            return error
        return None

    @contextlib.asynccontextmanager
    async def slot(
        self,
        driver: LoadBalancerDriver,
        load_balancer: ObjectKey | None = None,
        *,
        namespace: str | None = None,
        limit: int | None = None,
        ahead: bool = False,
    ) -> AsyncIterator[None]:
        """Wait until the driver, and its load balancer, may be called once more.

        Args:
            driver: it bears `max_concurrent_calls` at a time.
            load_balancer: what the call is about.
            namespace: for whom the call is; None: the load balancer's, or the driver's.
                Namespaces that wait for a driver take turns.
            limit: how many calls the load balancer bears at a time, None: no limit of
                its own.
            ahead: it ends traffic, and goes before calls of its namespace that do not.

        Who waits for a load balancer holds none of the driver's places.
        """
        key, most = driver.meta.key, driver.max_concurrent_calls
        whose = (load_balancer or key).namespace if namespace is None else namespace
        part = namespace_share(key, whose, most)
        gates: list[tuple[Hashable, int]] = [(("driver", key), most)]
        if part != most:
            gates.insert(0, (("driver", key, whose), part))
        if load_balancer is not None and limit is not None:
            gates.insert(0, (("load balancer", load_balancer), limit))
        async with contextlib.AsyncExitStack() as held:
            held.enter_context(self._used(driver.meta.key))
            with self._metrics.waiting.labels(str(driver.meta.key)).track_inprogress():
                for what, limit_of_it in gates:
                    place = self._slots.held(
                        what, limit_of_it, group=whose, rank=0 if ahead else 1
                    )
                    await held.enter_async_context(place)
            yield

    async def call(
        self,
        driver: LoadBalancerDriver,
        operation: Operation,
        request: Request[_A],
        *,
        timeout: timedelta,  # noqa: ASYNC109 - the driver's own, by operation
        until: float | None = None,
        read: Reader = parse_answer,
        links: Sequence[Span] = (),
    ) -> _A:
        """Call the driver once; return its valid answer, whatever that says.

        Args:
            driver: whom to call.
            operation: what to call.
            request: of that operation.
            timeout: for the whole call.
            until: monotonic seconds at which it must be over, however long this process
                stood still on the way here; None: whenever.
            read: turns the body of the answer into it.
            links: spans of the items of a batch.

        Raises:
            TooLate: that moment has passed, and nothing was sent.
            DriverError: there was no valid answer.
            ValueError: the request is another operation's.
        """
        if not isinstance(request, REQUESTS[operation]):
            raise ValueError(f"{operation} is not asked by {type(request).__name__}")  # noqa: TRY004
        name = str(driver.meta.key)
        body = render_request(request)
        items = getattr(request, "items", None)
        if items is not None:
            self._metrics.batch_items.labels(name, operation).observe(len(items))
        with (
            self._used(driver.meta.key),
            self._counted(name, operation, links) as (outcome, trace),
        ):
            self._allowlist.check(driver)
            secrets = secrets_of(driver, self._find)
            async with self._connections.to(
                driver.meta.key,
                stamp_of(driver, secrets),
                lambda: self._connect(driver, secrets),
            ) as client:
                limit = self._limit(f"{operation} of driver {name}", timeout, until)
                answer = await client.post(
                    name, operation, body, limit, headers=trace.headers()
                )
            parsed = _parsed(name, operation, answer, read)
            # A batch has no success of the whole: `count_item` tells of each.
            is_batch = operation in SINGLE
            outcome.append("Answered" if is_batch else outcome_of(parsed))
        return cast("_A", parsed)

    def _limit(self, call: str, timeout: timedelta, until: float | None) -> timedelta:
        """Return the time-out of a call by the clock as it goes out.

        Nothing that waits may stand between this and the time-out that it returns.

        Raises:
            TooLate: the call must be over by now.
        """
        if until is None:
            return timeout
        rest = timedelta(seconds=until - self._clock.monotonic())
        if rest <= timedelta(0):
            raise TooLate(f"{call}: not sent, its permission had run out")
        return min(timeout, rest)

    def _connect(
        self, driver: LoadBalancerDriver, secrets: Mapping[str, Secret]
    ) -> DriverClient:
        """Return new connections to a driver.

        Raises:
            NotSent: its credentials cannot be used.
        """
        return DriverClient(
            driver.url,
            access_of(driver, secrets),
            self._allowlist.allowed_urls,
            self._large,
            self._agent,
        )

    @contextlib.contextmanager
    def _counted(
        self, driver: str, operation: Operation, links: Sequence[Span]
    ) -> Iterator[tuple[list[str], Trace]]:
        """Count and trace a call; the block appends its outcome to the list."""
        with spans.open_span(
            operation, leaves=True, links=links, driver=driver
        ) as span:
            trace = span.trace or new_trace(self._clock.new_id())
            outcome: list[str] = []
            in_flight = self._metrics.in_flight.labels(driver)
            began = self._clock.monotonic()
            definite = False
            in_flight.inc()
            try:
                yield outcome, trace
                definite = True
            except DriverError as error:
                definite = error.definite
                outcome.append(error.reason)
                raise
            finally:
                in_flight.dec()
                seconds = self._clock.monotonic() - began
                self._metrics.duration.labels(driver, operation).observe(seconds)
                said = outcome[-1] if outcome else CANCELLED
                self._metrics.calls.labels(driver, operation, said).inc()
                if not definite:
                    self._metrics.unanswered.labels(driver, operation).inc()
                span.tell("outcome", said)
                _log.debug(
                    "driver.called",
                    driver=driver,
                    operation=operation,
                    outcome=said,
                    trace_id=trace.trace_id,
                )


def _parsed(name: str, operation: Operation, body: bytes, read: Reader) -> Answer:
    """Read the answer.

    Raises:
        BadAnswer: it is none; says where, without quoting it.
    """
    try:
        return read(operation, body)
    except Malformed as error:
        raise BadAnswer(f"{operation} of driver {name}: {error}") from error
