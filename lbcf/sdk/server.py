"""Serves a driver: HTTP in, the author's methods behind, in order per member.

    request -> parsed -> [lock of its member] -> reply -> answer

Each item of a batch goes that way, too (`lbcf.sdk.batches`).

An operation that has begun is carried to its end, whether or not its caller is still
there: half an operation is what nobody could repair.
"""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Hashable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import attrs
import structlog

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import generate_latest

from lbcf.core.model.operations import SINGLE, Operation
from lbcf.core.model.values import MemberKey
from lbcf.runtime.clock import Clock, SystemClock
from lbcf.runtime.metrics import CONTENT_TYPE
from lbcf.runtime.spans import TRACE_HEADER, Trace, parse_trace
from lbcf.runtime.tasks import end_tasks
from lbcf.sdk.batches import (
    Item,
    OneByOne,
    Performer,
    answer_batch,
    batch_request,
    performer,
    refused_batch,
)
from lbcf.sdk.credentials import Guard
from lbcf.sdk.driver import Driver, Fail, Permanent
from lbcf.sdk.metrics import ServiceMetrics
from lbcf.sdk.replies import Undetermined, in_trouble, refused, served_operations
from lbcf.wire.driver import Answer, Malformed, Request, parse_request, render_answer
from lbcf.wire.driver_answers import Status, outcome_of
from lbcf.wire.driver_requests import (
    BackendRequest,
    CreateLoadBalancerRequest,
    EnsureBackendRequest,
    EnsureLoadBalancerRequest,
    GenerateBackendAddrRequest,
    LoadBalancerRequest,
    RetriedRequest,
    ValidateLoadBalancerRequest,
)


@attrs.define
class _MemberLock:
    """A lock and how many hold it or wait for it; it is forgotten at zero."""

    lock: asyncio.Lock = attrs.Factory(asyncio.Lock)
    users: int = 0


class MemberLocks:
    """One lock per key, first come, first served; idle keys take no memory.

    `len()` is the number of keys that somebody holds or waits for.
    """

    def __init__(self) -> None:
        self._locks: dict[Hashable, _MemberLock] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @contextlib.asynccontextmanager
    async def held(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the key's lock inside the block; None: no lock."""
        if key is None:
            yield
            return
        found = self._locks.setdefault(key, _MemberLock())
        found.users += 1
        try:
            async with found.lock:
                yield
        finally:
            found.users -= 1
            if not found.users:
                del self._locks[key]


def member_lock_key(member_key: MemberKey, request: Request[Answer]) -> Hashable:
    """Return the key of what the request must be alone with; None: with nothing.

    Where members are named after their record, two records with one address are two
    members.
    """
    match request:
        case BackendRequest():
            named = request.record_id if member_key is MemberKey.RECORD else ""
            return (_identity(request.lb_info), request.backend_addr, named)
        case LoadBalancerRequest():
            # What was never seen created has no identity: its creation comes first.
            return _identity(request.lb_info) if request.lb_info else request.record_id
        case CreateLoadBalancerRequest():
            return request.record_id
        case _:
            return None


_ARRIVALS = (
    ValidateLoadBalancerRequest,
    CreateLoadBalancerRequest,
    EnsureLoadBalancerRequest,
    GenerateBackendAddrRequest,
    EnsureBackendRequest,
)
"""Requests by which something comes to a load balancer."""


def _identity(lb_info: dict[str, str]) -> Hashable:
    return frozenset(lb_info.items())


LARGEST_REQUEST = 32 * 1024 * 1024
"""Bytes, unpacked; judgePodDeregister brings all pods of a group that are not ready."""

_BY_ADDRESS = (
    "nothing was done: the LoadBalancerDriver says memberKey: Record, and this driver "
    "knows members by address: one record would take the member of another. Make a "
    "LoadBalancerDriver with memberKey: Address in its place; that field cannot change"
)

_FIRST_ERROR = 400

_PATIENCE = 30.0
"""Seconds that a caller may take to send a request."""

_STOPPING = "the driver is stopping: ask again"

_log = structlog.get_logger(__name__)


class Service:
    """One driver and its operations under way, for who runs aiohttp himself.

    Make one per event loop, hand `application()` to aiohttp, and await `drain()`
    before it is closed. Give its runner a `keepalive_timeout`, as `lbcf.sdk.run` does: aiohttp
    keeps connections that ask nothing for an hour.

    Args:
        driver: performs the operations.
        clock: tells when a call is too late; None: that of the machine.
        guard: knows callers by their credentials; None: everybody may call.
    """

    def __init__(
        self, driver: Driver, clock: Clock | None = None, guard: Guard | None = None
    ) -> None:
        self._driver = driver
        self._clock = clock or SystemClock()
        self._guard = guard or Guard()
        self._locks = MemberLocks()
        self._metrics = ServiceMetrics(self._clock, lambda: len(self._locks))
        driver.register_series(self._metrics.registry)
        self._served = served_operations(driver)
        self._under_way: set[asyncio.Task[Any]] = set()
        self._stopping = False

    @property
    def busy_members(self) -> int:
        """Members that have an operation under way or waiting."""
        return len(self._locks)

    def application(self) -> web.Application:
        """Return the endpoints: operations, GET /healthz and /metrics, the driver's own.

        Whom the guard does not know gets at none of them but GET /healthz.
        """
        app = web.Application(
            client_max_size=LARGEST_REQUEST, middlewares=[self._guarded]
        )
        app.add_routes(self._driver.routes())
        app.router.add_get("/healthz", self._probe, allow_head=True)
        app.router.add_get("/metrics", self._metrics_page)
        app.router.add_route("*", "/{operation}", self._serve)
        app.on_startup.append(self._start)
        app.on_cleanup.append(self._stop)
        return app

    async def drain(self, grace: timedelta) -> None:
        """Refuse what comes from now on, wait for what has begun, cut it after the grace."""
        self._stopping = True
        if not self._under_way:
            return
        await asyncio.wait(self._under_way, timeout=grace.total_seconds())
        # Items whose turn came meanwhile may have begun another call for many.
        late = [task for task in self._under_way if not task.done()]
        for task in late:
            _log.error("operation.cut", operation=task.get_name(), grace=grace)
        await end_tasks(late)

    async def _start(self, _app: web.Application) -> None:
        await self._driver.start()

    async def _stop(self, _app: web.Application) -> None:
        await self._driver.stop()

    @web.middleware
    async def _guarded(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        """Refuse those who may not call."""
        is_probe = request.path == "/healthz" and request.method in {"GET", "HEAD"}
        response: web.StreamResponse | None = None
        if not is_probe:
            response = self._guard.refusal(request)
        if response is None:
            response = await handler(request)
        if response.status >= _FIRST_ERROR and not is_probe:
            self._metrics.refused.labels(response.status).inc()
        if self._guard.is_outdated(request):
            response.force_close()
        return response

    async def _metrics_page(self, _request: web.Request) -> web.Response:
        page = generate_latest(self._metrics.registry)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE})

    async def _probe(self, _request: web.Request) -> web.Response:
        answer = await self._replied(Operation.HEALTHZ, b"")
        healthy = getattr(answer, "healthy", False)
        return _json(render_answer(answer), 200 if healthy else 503)

    async def _serve(self, request: web.Request) -> web.Response:
        """Answer one call."""
        name = request.match_info["operation"]
        if name not in self._served:
            served = ", ".join(sorted(self._served))
            return _error(404, f"no operation {name!r} here; there are: {served}")
        if request.method != "POST":
            return _error(405, f"{name} is called with POST")
        try:
            async with asyncio.timeout(_PATIENCE):
                body = await request.read()
            trace = parse_trace(request.headers.get(TRACE_HEADER))
            answer = await self._replied(Operation(name), body, trace)
        except Malformed as error:
            return _error(400, str(error))
        except web.HTTPRequestEntityTooLarge:
            return _error(413, f"a request may have {LARGEST_REQUEST} bytes")
        except TimeoutError:
            return _error(408, f"the request took over {_PATIENCE:g} s to arrive")
        is_known = not isinstance(answer, Undetermined)
        return _json(render_answer(answer), 200 if is_known else 503)

    async def _replied(
        self, operation: Operation, body: bytes, trace: Trace | None = None
    ) -> Answer:
        """Carry out one call.

        Raises:
            Malformed: the body is not a request of this operation.
        """
        request = parse_request(operation, body)
        if operation in SINGLE:
            return await self._batch(operation, batch_request(request), trace)
        if self._stopping:
            return in_trouble(operation, _STOPPING)
        by = OneByOne(self._driver, operation, self._clock)
        # Shielded: aiohttp cancels its own task when it closes a connection.
        return cast(
            "Answer",
            await asyncio.shield(self._begun(operation, request, trace, by)),
        )

    async def _batch(
        self, operation: Operation, items: Sequence[Item], trace: Trace | None
    ) -> Answer:
        """Carry out each item of a batch as a call of its own."""
        self._metrics.batch_items.labels(operation).observe(len(items))
        one = SINGLE[operation]
        if self._stopping:
            return refused_batch(one, items, Fail(_STOPPING))
        by = performer(self._driver, one, self._clock, self._keep)
        tasks = {
            item.record_id: self._begun(one, cast("Request[Answer]", item), trace, by)
            for item in items
        }
        return await answer_batch(one, tasks, by)

    def _begun(
        self,
        operation: Operation,
        request: Request[Answer],
        trace: Trace | None,
        by: Performer,
    ) -> asyncio.Task[Answer | None]:
        # Tasks begin in the order of their creation, which is that of the arrivals.
        work = self._logged(operation, request, trace, by)
        task = asyncio.create_task(work, name=operation)
        self._keep(task)
        return task

    def _keep(self, task: asyncio.Task[Any]) -> None:
        """Have `drain` wait for a task."""
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _logged(
        self,
        operation: Operation,
        request: Request[Answer],
        trace: Trace | None,
        by: Performer,
    ) -> Answer | None:
        """Perform the operation; all that is logged meanwhile names the call."""
        said = {
            "operation": operation,
            "record_id": getattr(request, "record_id", None),
            "trace_id": trace and trace.trace_id,
            "parent_id": trace and trace.span_id,
        }
        named = {name: value for name, value in said.items() if value}
        with structlog.contextvars.bound_contextvars(**named):
            answer = await self._in_turn(operation, request, by)
            outcome = "Broken" if answer is None else outcome_of(answer)
            self._metrics.operations.labels(operation, outcome).inc()
            tell = _log.info if outcome is Status.FAIL else _log.debug
            tell("operation.ended", outcome=outcome, msg=getattr(answer, "msg", ""))
            return answer

    async def _in_turn(
        self, operation: Operation, request: Request[Answer], by: Performer
    ) -> Answer | None:
        """Perform the operation when those before it are through, if not too late."""
        if late := self._lateness(request):
            return refused(operation, Fail(late))
        if self._is_unlocked(request):
            return refused(operation, Permanent(_BY_ADDRESS))
        key = member_lock_key(self._driver.member_key, request)
        async with self._locks.held(key), by.places:
            if late := self._lateness(request):
                return refused(operation, Fail(late))
            with self._metrics.timed(operation):
                return await by.perform(cast("Item", request))

    def _is_unlocked(self, request: Request[Answer]) -> bool:
        """Tell whether it may put a member into the place of another record's.

        Under memberKey Record nobody locks addresses. Calls that take something out go on
        to the driver, which knows whose a member is: they end what was put in before.
        """
        return (
            self._driver.member_key is MemberKey.ADDRESS
            and isinstance(request, _ARRIVALS)
            and request.member_key is MemberKey.RECORD
        )

    def _lateness(self, request: Request[Answer]) -> str:
        """Return why a call is not performed whose caller has given up; empty: it has not."""
        limit = request.not_after if isinstance(request, RetriedRequest) else None
        now = self._clock.now()
        if limit is None or now <= limit:
            return ""
        return (
            f"not performed: its notAfter is {_readable(limit)}, and the driver's clock says "
            f"{_readable(now)}. It arrived late, or waited too long for its turn; if that "
            "goes on, the clocks of the driver and of its caller differ: set them by NTP"
        )


def _readable(moment: datetime) -> str:
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return f"{text[:-8]}Z"


def _json(body: bytes, status: int) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _error(status: int, text: str) -> web.Response:
    return web.json_response({"error": text}, status=status)
