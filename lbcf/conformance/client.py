"""HTTP to the driver under test: every exchange is kept, and answers are judged.

Unlike the controller's client it raises nothing for what goes wrong on the way, since
that is what rules look for.
"""

import asyncio
import math

from types import SimpleNamespace
from typing import Self

import aiohttp
import msgspec
import yarl

from lbcf.conformance.findings import Broken, Exchange
from lbcf.conformance.target import ALWAYS_SERVED, Target
from lbcf.core.model.operations import Operation
from lbcf.drivers.client import LARGEST_LIST, largest_answer
from lbcf.runtime.clock import Clock
from lbcf.wire.driver import LONGEST_DELAY, Answer, Malformed, parse_answer
from lbcf.wire.driver_answers import DrainBackendAnswer, Status


_VALIDATIONS = {Operation.VALIDATE_LOAD_BALANCER, Operation.VALIDATE_BACKEND}
_DELAY_FIELD = "minretrydelayinseconds"


class RecordingClient:
    """Connections to one driver. Make it and close it in one event loop.

    Attributes:
        exchanges: all of them, in the order in which they ended.
    """

    def __init__(self, target: Target, clock: Clock) -> None:
        self.exchanges: list[Exchange] = []
        self._target = target
        self._clock = clock
        headers = {"Content-Type": "application/json", "User-Agent": "lbcf-conformance"}
        if target.token:
            headers["Authorization"] = f"Bearer {target.token}"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=2.0, ssl=target.tls or True
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            timeout=aiohttp.ClientTimeout(),
            trace_configs=[_sent_event_trace()],
        )

    async def __aenter__(self) -> Self:
        """Use it for a block."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close all connections."""
        await self._session.close()

    async def send(
        self, operation: str, body: bytes, sent: asyncio.Event | None = None
    ) -> Exchange:
        """Send a body; return what came back, or why nothing did.

        `sent` is set as soon as the body has gone out.
        """
        began = self._clock.monotonic()
        status, answer, trouble = await self._post(operation, body, sent)
        seconds = self._clock.monotonic() - began
        exchange = Exchange(operation, body, status, answer, trouble, seconds)
        self.exchanges.append(exchange)
        return exchange

    async def _post(
        self, operation: str, body: bytes, sent: asyncio.Event | None
    ) -> tuple[int | None, bytes, str]:
        """Return status, body, and why there is no answer."""
        limit = self._target.timeout.total_seconds()
        url = yarl.URL(self._target.url) / operation
        try:
            async with (
                asyncio.timeout(limit),
                self._session.post(
                    url, data=body, allow_redirects=False, trace_request_ctx=sent
                ) as response,
            ):
                return response.status, await _read(response), ""
        except TimeoutError:
            trouble = f"no whole answer within {limit:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            trouble = f"no answer: {str(error) or type(error).__name__}"
        return None, b"", trouble


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Read an answer until it is seen to be too large."""
    answer = bytearray()
    async for chunk in response.content.iter_any():
        answer += chunk
        if len(answer) > LARGEST_LIST:
            response.close()
            break
    return bytes(answer)


def _sent_event_trace() -> aiohttp.TraceConfig:
    """Return the hook that sets a request's event once its body has gone out."""
    trace = aiohttp.TraceConfig()

    async def chunk_sent(
        _session: aiohttp.ClientSession, context: SimpleNamespace, _params: object
    ) -> None:
        if context.trace_request_ctx is not None:
            context.trace_request_ctx.set()

    trace.on_request_chunk_sent.append(chunk_sent)
    return trace


def read_answer(operation: Operation, exchange: Exchange) -> Answer:
    """Return the answer as leniently as the controller reads it.

    Raises:
        Broken: the controller would not take it.
    """
    if exchange.status is None:
        raise Broken(f"{operation} got no answer: {exchange.trouble}", exchange)
    if not exchange.is_answered:
        text = _meaning(operation, exchange.status)
        raise Broken(f"{operation} answered HTTP {exchange.status}{text}", exchange)
    limit = largest_answer(operation)
    if len(exchange.answer) > limit:
        text = f"{operation}: the answer is over {limit} bytes"
        raise Broken(text, exchange)
    try:
        return parse_answer(operation, exchange.answer)
    except Malformed as error:
        raise Broken(f"{operation}: {error}", exchange) from error


def _meaning(operation: Operation, status: int) -> str:
    """Return what another status than 200 means, by the protocol's table of codes."""
    match status:
        case 302 | 301 | 303 | 307 | 308:
            return ": redirects are not followed"
        case 400:
            return ": it takes this for no request of the operation"
        case 401:
            return ": give --token-file"
        case 403:
            return ": give --cert-file and --key-file"
        case 404 if operation in ALWAYS_SERVED:
            return ": it is not served, and each driver must serve it"
        case 404:
            return ": --operations names it, and it is not served"
        case 503 if operation in _VALIDATIONS:
            hint = "run the kit while its load balancer can be reached"
            return f": it cannot tell now: {hint}"
        case _:
            return ", not 200: how it went is said in the body"


def check_answer(operation: Operation, exchange: Exchange) -> None:
    """Check an answer strictly: nothing that a lenient reader would put right.

    Raises:
        Broken: the controller would not take it, or would put something right.
    """
    answer = read_answer(operation, exchange)
    content = msgspec.json.decode(exchange.answer)
    for name, value in content.items() if isinstance(content, dict) else ():
        if name.casefold() == _DELAY_FIELD and not _is_delay(value):
            text = f"{operation}: {name} is {value!r:.60}, not 0 to {LONGEST_DELAY}"
            raise Broken(f"{text} seconds", exchange)
    if (
        isinstance(answer, DrainBackendAnswer)
        and answer.status is Status.SUCC
        and answer.active_connections
    ):
        left = answer.active_connections
        text = f"{operation}: Succ, yet {left} connections are left"
        raise Broken(text, exchange)


def _is_delay(value: object) -> bool:
    """Return whether it is seconds in range, as a number or as digits in a string."""
    if value is None or value == "":
        return True
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except ValueError:
        return False
    return not isinstance(value, bool) and 0 <= number <= LONGEST_DELAY
