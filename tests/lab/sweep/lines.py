"""A process's ways out: to the API server, and to the driver.

`ApiLine` stands in `Transport`'s place below `KubeClient`, `DriverLine` has a fake
client below the real `DriverPool`. Both only say what a step is; `Process.carry` says
how it goes. Each line sees the API server's history at its own speed.
"""

import asyncio
import contextvars

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import msgspec

from prometheus_client import CollectorRegistry

from lbcf.core.model.access import Secret
from lbcf.core.model.operations import SINGLE, Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.drivers.client import DriverClient
from lbcf.drivers.errors import (
    BadStatus,
    ConnectionLost,
    DriverError,
    NotSent,
    TimedOut,
)
from lbcf.drivers.metrics import CallMetrics
from lbcf.drivers.pool import DriverPool
from lbcf.kube.errors import Conflict, KubeError, Throttled, Unavailable
from lbcf.kube.requests import ApiRequest
from lbcf.runtime.clock import Clock
from lbcf.wire.driver import Answer, parse_answer, parse_request
from lbcf.wire.driver import Request as DriverRequest
from lbcf.wire.driver_answers import BackendResult, DrainResult, Status
from lbcf.wire.driver_requests import RetriedRequest
from tests.kube.tiny_history import TOO_OLD, Watch
from tests.kube.tiny_rules import metadata_of, place_of
from tests.lab.sweep.faults import Ending, Io, Kind


if TYPE_CHECKING:
    from tests.lab.sweep.process import Process
    from tests.lab.sweep.world import World


API_LATENCY = 0.005
WATCH_LAG = 0.02
API_LIMIT = 30.0
API_LATE = 8.0
"""Seconds after the sender gave up at which a write still comes through."""
DRIVER_BEHIND = 2.9
"""Seconds that a driver's clock is behind; it goes by `notAfter`, and by that clock."""
_JUST_UNDER = 0.01
WATCHED = (
    "backendgroups",
    "backendrecords",
    "binds",
    "endpointslices",
    "leases",
    "loadbalancerclasses",
    "loadbalancerdrivers",
    "loadbalancers",
    "namespaces",
    "nodes",
    "pods",
    "services",
)
"""The kinds that the processes watch."""


class ApiLine:
    """Implements `HttpTransport` for one process."""

    def __init__(self, process: "Process", world: "World", behind: int) -> None:
        self._process = process
        self._world = world
        begins_at = max(0, world.api.history.version - behind)
        self._listed_at = begins_at if behind else None
        self._listed: set[str] = set()
        self._sights: defaultdict[str, _Sight]
        self._sights = defaultdict(lambda: _Sight(begins_at))
        self._is_open = True

    def close(self) -> None:
        """Tell nothing more."""
        self._is_open = False

    def arrived(self, plural: str, version: int) -> None:
        """Note that the server has something new; it comes with the watch's lag."""
        if self._is_open and not self._sights[plural].holds:
            self._world.later(WATCH_LAG, self._sights[plural].show, version)

    def hold(self, seconds: float, *, gap: bool = False, only: str = "") -> None:
        """Let the watches tell nothing for a while: all of them, or those of a kind."""
        for plural in [only] if only else WATCHED:
            sight = self._sights[plural]
            sight.holds += 1
            self._world.later(seconds, self._release, sight, gap)

    def _release(self, sight: "_Sight", gap: bool) -> None:
        """Let watches go on, or tell them that they missed too much."""
        sight.holds -= 1
        sight.gaps += gap
        self._listed_at = None
        sight.show(self._world.api.history.version)

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Send one request; it is one step."""
        limit = within.total_seconds() if within else API_LIMIT
        what = str(request)
        io = Io(
            _kind_of(request),
            what,
            partial(self._perform, request, self._meant(request)),
            API_LATENCY,
            limit,
            limit + API_LATE,
            partial(_api_error, what),
        )
        return await self._process.carry(io)

    def _meant(self, request: ApiRequest) -> object:
        """Say the uid of the object that a request can mean at most."""
        found = self._world.api.objects.get(place_of(request.path).path)
        return None if found is None else metadata_of(found)["uid"]

    def _perform(self, request: ApiRequest, meant: object) -> bytes:
        """Let the server act; a list may be older than it should be.

        A write that arrives late may find a namesake in the place of what was meant.
        """
        hit = self._meant(request)
        answer = self._world.api.perform(request, at=self._age_of(request))
        if request.method in {"PATCH", "DELETE"} and hit != meant:
            self._world.fail(f"S3: {request} was meant for {meant} and hit {hit}")
        return answer

    def _age_of(self, request: ApiRequest) -> int | None:
        """Say the version that an answer may show; None: what is true now.

        No API server answers a list that names no version with an older one, and ours
        name none. What an informer reads first may be older here all the same: nothing
        is to rest on it. What is read later, to decide by it, is true.
        """
        place = place_of(request.path)
        if request.method != "GET" or place.name or place.plural in self._listed:
            return None
        self._listed.add(place.plural)
        return self._listed_at

    @asynccontextmanager
    async def stream(
        self, request: ApiRequest, silence: timedelta
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch; opening it is one step, and it lasts until it is broken."""
        _ = silence
        plural = place_of(request.path).plural
        io = Io(
            Kind.WATCH,
            f"WATCH {request.path}",
            lambda: b"",
            API_LATENCY,
            API_LIMIT,
            API_LIMIT,
            partial(_api_error, str(request)),
            watch=plural,
        )
        await self._process.carry(io)
        told = partial(self._world.told, self._process, plural)
        yield self._sights[plural].chunks(self._world.api.watch(request), told)


class _Sight:
    """How much of one kind a process is shown: each watch has a pace of its own.

    Attributes:
        holds: how many troubles keep it from being shown anything now.
        gaps: how often its watches have been told to list again.
    """

    def __init__(self, begins_at: int) -> None:
        self.holds = 0
        self.gaps = 0
        self._visible = begins_at
        self._waiting: list[asyncio.Future[None]] = []

    def show(self, version: int) -> None:
        """Let the watches see up to a version."""
        if self.holds:
            return
        self._visible = max(self._visible, version)
        waiting, self._waiting = self._waiting, []
        for news in waiting:
            if not news.done():
                news.set_result(None)

    async def chunks(
        self, watch: Watch, told: Callable[[], None]
    ) -> AsyncIterator[bytes]:
        """Give out what is to be seen."""
        gaps = self.gaps
        while True:
            if gaps != self.gaps:
                yield TOO_OLD
                return
            chunk = watch.take(self._visible)
            if chunk:
                told()
                yield chunk
                continue
            news = asyncio.get_running_loop().create_future()
            self._waiting.append(news)
            await news


_LATE_EFFECT: contextvars.ContextVar[float] = contextvars.ContextVar(
    "late", default=0.0
)
"""Seconds after a time-out, of the driver that is being called."""


class _Unmeasured:
    """Stands in the place of all series: they cost time, and decide nothing."""

    def __getattr__(self, _name: str) -> "_Unmeasured":
        return self

    def __call__(self, *_args: object) -> "_Unmeasured":
        return self

    def __enter__(self) -> None:
        """Measure nothing."""

    def __exit__(self, *_args: object) -> None:
        """Measure nothing."""


_UNMEASURED = _Unmeasured()


class DriverLine(DriverPool):
    """The real pool, with a fake client below it."""

    def __init__(self, process: "Process", world: "World", clock: Clock) -> None:
        super().__init__(clock, CollectorRegistry())
        self._metrics = cast("CallMetrics", _UNMEASURED)
        self._process = process
        self._world = world

    async def call(self, driver: LoadBalancerDriver, *args: Any, **kwargs: Any) -> Any:
        """Note how late a call may take effect by what its sender knows of the driver."""
        _LATE_EFFECT.set(driver.late_effect.total_seconds())
        return await super().call(driver, *args, **kwargs)

    def _connect(
        self, driver: LoadBalancerDriver, _secrets: Mapping[str, Secret]
    ) -> DriverClient:
        """Return a client of the driver as it is now."""
        return _DriverWire(self._process, self._world, driver)


class _DriverWire(DriverClient):
    """Carries calls as steps."""

    def __init__(
        self, process: "Process", world: "World", driver: LoadBalancerDriver
    ) -> None:
        self._process = process
        self._world = world
        self._url = driver.url

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    async def post(
        self,
        name: str,
        operation: Operation,
        body: bytes,
        timeout: timedelta,  # noqa: ASYNC109 - as the real one has it
        headers: Mapping[str, str] | None = None,  # noqa: ARG002 - nobody looks
    ) -> bytes:
        """Send one call; it is one step."""
        request = parse_request(operation, body)
        limit = timeout.total_seconds()
        if operation in SINGLE:
            parts = Parts(self._world, self._url, operation, request)
            rest = max(self._rest_of(item, limit) for item in parts.items)
            return await self._carried(name, operation, parts, limit, rest)
        world = self._world
        named = getattr(request, "record_id", "")
        rest = self._rest_of(request, limit)
        over = world.oracle.sent(self._process, request)
        task = (named, operation is Operation.ENSURE_BACKEND)

        def perform() -> bytes:
            """Take effect; a success ends what earlier calls have left running."""
            answer = world.behind(self._url).perform(operation, request)
            if b'"status":"Succ"' in answer:
                world.succeeded[task] = world.second()
            return answer

        io = Io(
            Kind.CALL,
            f"{operation} {named} {getattr(request, 'backend_addr', '')}",
            perform,
            world.setting.latency_of(operation),
            limit,
            rest + _LATE_EFFECT.get() + DRIVER_BEHIND - _JUST_UNDER,
            partial(_driver_error, f"{operation} of driver {name}"),
            _said,
            is_over=lambda since: world.succeeded.get(task, -1.0) >= since,
        )
        heard = True
        try:
            return await self._process.carry(io)
        except NotSent:
            heard = False
            raise
        finally:
            over(heard)

    async def _carried(
        self,
        name: str,
        operation: Operation,
        parts: "Parts",
        limit: float,
        rest: float,
    ) -> bytes:
        """Send a batch; it is one step, of which a part may be done when it fails."""
        setting = self._world.setting
        io = Io(
            Kind.CALL,
            f"{operation} {parts}",
            parts.perform,
            setting.latency_of(SINGLE[operation]),
            limit,
            rest + _LATE_EFFECT.get() + DRIVER_BEHIND - _JUST_UNDER,
            partial(_driver_error, f"{operation} of driver {name}"),
            parts.said,
            is_over=parts.is_over,
            first_part=parts.perform_first,
        )
        parts.leaves_out_late = io.late
        sent = [self._world.oracle.sent(self._process, one) for one in parts.items]
        heard = True
        try:
            return await self._process.carry(io)
        except NotSent:
            heard = False
            raise
        finally:
            for over in sent:
                over(heard)

    def _rest_of(self, request: DriverRequest[Answer], limit: float) -> float:
        """Say for how long the permission of a call is good, at least its time-out."""
        until = request.not_after if isinstance(request, RetriedRequest) else None
        if until is None:
            return limit
        return max(limit, (until - self._process.clock.now()).total_seconds())


class Parts:
    """A batch at the far end, which may be done in parts.

    Attributes:
        items: the calls that it stands for.
        leaves_out_late: seconds after which the driver performs what it leaves out.
    """

    def __init__(
        self, world: "World", url: str, operation: Operation, request: Any
    ) -> None:
        self.items: list[Any] = list(request.items)
        self.leaves_out_late = 0.0
        self._world = world
        self._url = url
        self._one = SINGLE[operation]
        self._done: dict[str, Any] = {}
        self._since: float | None = None

    def __str__(self) -> str:
        """Name the members, for people."""
        return " ".join(f"{one.record_id} {one.backend_addr}" for one in self.items)

    def perform(self) -> bytes:
        """Take effect, all that has not; answer as the play wants it."""
        leaves_out = self._world.leaves_out
        left = leaves_out.pop(0) if len(self.items) > 1 and leaves_out else ""
        last = self.items[-1]
        if left == "late":
            self._world.later(self.leaves_out_late, self._one_now, last)
        for item in self.items:
            if not left or item is not last:
                self._one_now(item)
        return self._answer(self._done.values())

    def perform_first(self) -> None:
        """Let the first of several take effect, where the rest will not, or later."""
        if len(self.items) > 1:
            self._one_now(self.items[0])

    def said(self, ending: Ending) -> bytes:
        """Say of each item what does not succeed."""
        status = Status.FAIL if ending is Ending.FAIL else Status.RUNNING
        return self._answer(
            BackendResult(record_id=one.record_id, status=status) for one in self.items
        )

    def is_over(self, since: float) -> bool:
        """Remember since when an item is over if its record has had a success."""
        self._since = since
        return False

    def _one_now(self, item: Any) -> None:
        """Perform an item, unless it is over."""
        task = (item.record_id, self._one is Operation.ENSURE_BACKEND)
        succeeded = self._world.succeeded.get(task, -1.0)
        if item.record_id in self._done or (
            self._since is not None and succeeded >= self._since
        ):
            return
        body = self._world.behind(self._url).perform(self._one, item)
        answer = parse_answer(self._one, body)
        said = msgspec.structs.asdict(answer)
        kind = DrainResult if "active_connections" in said else BackendResult
        self._done[item.record_id] = kind(record_id=item.record_id, **said)
        if said["status"] is Status.SUCC:
            self._world.succeeded[task] = self._world.second()
        self._world.oracle.look()

    def _answer(self, results: Iterable[Any]) -> bytes:
        found = [msgspec.to_builtins(one) for one in results]
        return msgspec.json.encode({"results": found})


def _kind_of(request: ApiRequest) -> Kind:
    """Say what a request is."""
    if request.method != "GET":
        return Kind.WRITE
    return Kind.READ if place_of(request.path).name else Kind.LIST


def _api_error(asked: str, ending: Ending) -> KubeError:
    """Make the error that `Transport` would raise."""
    match ending:
        case Ending.CONFLICT:
            return Conflict(f"{asked}: 409", status=HTTPStatus.CONFLICT)
        case Ending.THROTTLED:
            wish = timedelta(seconds=1)
            return Throttled(asked, status=429, retry_after=wish)
        case Ending.UNSENT:
            return Unavailable(f"{asked}: refused", sent=False)
        case Ending.BROKEN:
            return Unavailable(f"{asked}: 503", sent=True, status=503)
        case _:
            return Unavailable(f"{asked}: no answer", sent=None)


def _driver_error(asked: str, ending: Ending) -> DriverError:
    """Make the error that `DriverClient` would raise."""
    match ending:
        case Ending.UNSENT:
            return NotSent(f"{asked}: cannot connect")
        case Ending.BROKEN:
            return BadStatus(f"{asked}: 500", 500)
        case Ending.RESET:
            return ConnectionLost(f"{asked}: reset")
        case _:
            return TimedOut(f"{asked}: no whole answer")


def _said(ending: Ending) -> bytes:
    """Write what a driver says that does not succeed."""
    status = Status.FAIL if ending is Ending.FAIL else Status.RUNNING
    return b'{"status":"%s","msg":"told to"}' % status.encode()
