"""Drivers on real sockets for the kit: served, twisted on the way, killed, restarted."""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta

import aiohttp
import attrs
import msgspec

from aiohttp import web

from lbcf import sdk
from lbcf.conformance.bench import Rule
from lbcf.conformance.findings import Outcome
from lbcf.conformance.kit import CATALOGUE, Result, examine
from lbcf.conformance.report import quoted
from lbcf.conformance.target import OPTIONAL, Target
from lbcf.core.model.values import MemberKey
from lbcf.runtime.clock import SystemClock
from webhooks.memory import MemoryDriver


Json = dict[str, object]
LB = {"name": "lb"}
GONE = {"name": "gone"}
_LATE = 0.03
"""Seconds; longer than the kit waits before it hangs up."""


class HastyClock(SystemClock):
    """Waits a quarter of what it is asked to; loopback is quick. Its seconds are the loop's."""

    def monotonic(self) -> float:
        """Return the seconds of the loop, which does not count how busy the machine is."""
        return asyncio.get_running_loop().time()

    async def sleep(self, delay: timedelta) -> None:
        """Suspend the calling task for less than the delay."""
        await super().sleep(delay / 4)


@attrs.frozen
class Twist:
    """What happens to messages between the kit and the driver.

    Attributes:
        request: given operation and body; returns the body for the driver, or the
            answer in its place.
        answer: given operation and body; returns the body, or a response, for the kit.
        is_late: registrations take a while, all else waits for them, and they are
            delivered once more, much later, where the caller hung up.
        slow: an operation that takes a while on its way, when others do not.
        seconds: how long that is.
        is_queued: single calls go one after the other, and each takes a while; batches
            pass them.
    """

    request: Callable[[str, bytes], bytes | web.Response] = lambda _name, body: body
    answer: Callable[[str, bytes], bytes | web.Response] = lambda _name, body: body
    is_late: bool = False
    slow: str = ""
    seconds: float = _LATE
    is_queued: bool = False


@attrs.define(eq=False)
class Served:
    """An application on a port of the loopback interface that can be killed.

    Attributes:
        make: builds the application, anew after each kill.
        port: 0 until it was started for the first time.
    """

    make: Callable[[], web.Application]
    port: int = 0
    _runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Serve, always on the same port."""
        # Callers that hang up cancel what they began, as a crash would.
        self._runner = web.AppRunner(
            self.make(), shutdown_timeout=0, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """End it at once."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def restart(self) -> None:
        """End it and start another."""
        await self.stop()
        await self.start()


@contextlib.asynccontextmanager
async def serving(make: Callable[[], web.Application]) -> AsyncIterator[Served]:
    """Serve an application for a block."""
    served = Served(make)
    await served.start()
    try:
        yield served
    finally:
        await served.stop()


@attrs.define(eq=False)
class Front:
    """What stands between the kit and the driver.

    Attributes:
        url: of the driver.
        twist: what is done to messages.
        session: to the driver.
    """

    url: str
    twist: Twist
    session: aiohttp.ClientSession
    _turn: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    _deliveries: list[asyncio.Task[None]] = attrs.field(factory=list, init=False)

    def application(self) -> web.Application:
        """Return the endpoints."""
        app = web.Application()
        app.router.add_post("/{operation}", self._forward)
        return app

    async def delivered(self) -> None:
        """Wait for what is delivered late."""
        await asyncio.gather(*self._deliveries)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        """Hand a call on, twisted."""
        name = request.match_info["operation"]
        body = self.twist.request(name, await request.read())
        if isinstance(body, web.Response):
            return body
        if self.twist.is_late:
            async with self._turn:
                if name == "ensureBackend":
                    await self._delay(body)
                return await self._send_on(name, body)
        if self.twist.is_queued and not name.endswith("Backends"):
            async with self._turn:
                await asyncio.sleep(self.twist.seconds)
                return await self._send_on(name, body)
        if name == self.twist.slow:
            await asyncio.sleep(self.twist.seconds)
        return await self._send_on(name, body)

    async def _send_on(self, name: str, body: bytes) -> web.Response:
        """Call the driver; return its answer, twisted."""
        async with self.session.post(f"{self.url}/{name}", data=body) as response:
            answer = await response.read()
            if response.status != 200:
                return web.Response(status=response.status, body=answer)
        given = self.twist.answer(name, answer)
        return given if isinstance(given, web.Response) else _json(given)

    async def _delay(self, body: bytes) -> None:
        """Take some time; who hangs up meanwhile is served nonetheless, later."""
        try:
            await asyncio.sleep(_LATE)
        except asyncio.CancelledError:
            self._deliveries.append(asyncio.create_task(self._deliver(body)))
            raise

    async def _deliver(self, body: bytes) -> None:
        """Register for a caller that is gone."""
        await asyncio.sleep(_LATE)
        async with self.session.post(f"{self.url}/ensureBackend", data=body):
            pass


@contextlib.asynccontextmanager
async def twisted(url: str, twist: Twist) -> AsyncIterator[str]:
    """Serve what stands between the kit and the driver; give its URL."""
    async with aiohttp.ClientSession() as session:
        front = Front(url, twist, session)
        async with serving(front.application) as served:
            yield served.url
        await front.delivered()


def _json(body: bytes) -> web.Response:
    """Return a 200 with this body."""
    return web.Response(body=body, content_type="application/json")


def decoded(body: bytes) -> Json:
    """Return a body that is a JSON object; what is none counts as empty."""
    try:
        said = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return {}
    return said if isinstance(said, dict) else {}


def sessions_of(url: str) -> Callable[[str, str, int], "asyncio.Future[None]"]:
    """Return what gives members of the memory driver connections."""

    async def connect(_address: str, record: str, connections: int) -> None:
        """Set their number."""
        body = {"recordID": record, "sessions": connections}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/control/sessions", json=body) as response,
        ):
            response.raise_for_status()

    def started(address: str, record: str, number: int) -> "asyncio.Future[None]":
        """Start it."""
        return asyncio.ensure_future(connect(address, record, number))

    return started


@contextlib.asynccontextmanager
async def a_target(
    make: Callable[[], MemoryDriver],
    twist: Twist | None = None,
    member_key: MemberKey = MemberKey.ADDRESS,
) -> AsyncIterator[Target]:
    """Serve a driver of the memory kind; give the target that it is."""
    async with contextlib.AsyncExitStack() as stack:
        served = await stack.enter_async_context(
            serving(lambda: sdk.Service(make()).application())
        )
        url = served.url
        if twist is not None:
            url = await stack.enter_async_context(twisted(url, twist))
        yield Target(
            url=url,
            lb_spec=LB,
            gone=GONE,
            member_key=member_key,
            declared=OPTIONAL,
            restart=served.restart,
            connect=sessions_of(served.url),
            patience=timedelta(seconds=0.6),
            timeout=timedelta(seconds=5),
        )


async def results_of(
    target: Target, rules: Sequence[Rule] = CATALOGUE
) -> Mapping[str, Result]:
    """Run rules; return how each ended."""
    results = await examine(target, HastyClock(), rules)
    return {result.rule.name: result for result in results}


def ended(results: Mapping[str, Result], outcome: Outcome) -> set[str]:
    """Return the rules that ended so."""
    return {name for name, one in results.items() if one.outcome is outcome}


def complaints(results: Mapping[str, Result]) -> dict[str, list[str]]:
    """Return what was seen of the rules that were broken, or barely kept."""
    bad = {Outcome.FAILED, Outcome.NOTED}
    return {name: _seen(one) for name, one in results.items() if one.outcome in bad}


def _seen(result: Result) -> list[str]:
    """Return what was said of a rule, with the request and the answer that showed it."""
    shown = [] if result.exchange is None else quoted(result.exchange)
    return [result.text, *shown]
