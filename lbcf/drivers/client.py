"""One driver's HTTP: bytes to an operation, bytes back, or a `DriverError`.

`lbcf.drivers.pool` has rendered the request and parses the answer. A driver is not
trusted: no redirects, no cookies, no proxies, a bound on time and on size.
"""

import asyncio
import contextlib
import io
import os

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Self

import aiohttp
import attrs
import yarl

from aiohttp.abc import ResolveResult

from lbcf.core.model.operations import SINGLE, Operation
from lbcf.drivers.access import Access
from lbcf.drivers.errors import (
    BadAnswer,
    BadStatus,
    ConnectionLost,
    NotSent,
    Redirected,
    TimedOut,
    TokenRefused,
    TooLarge,
    tls_error,
)
from lbcf.drivers.resolver import DriverResolver
from lbcf.drivers.url_allowlist import AllowedUrl, may_reach
from lbcf.runtime.aborting import AbortingConnector, abort_on_error


LARGEST_ANSWER = 1024 * 1024
"""Bytes of an answer's body, counted after decompression."""

LARGEST_LIST = 8 * LARGEST_ANSWER
"""The same of listBackends, some 70,000 members, and of batches."""

_LARGE_LISTS = 4
"""Lists beyond `LARGEST_ANSWER` that a process reads at a time; others wait meanwhile."""

_OK = 200
_UNAUTHORIZED = frozenset({401, 403})
_REDIRECTS = range(300, 400)

_LARGE = 1024 * 1024
"""Bytes of a request from which on it is sent in pieces."""

_REFUSED_MAYBE = (
    ": does it accept our certificate, spec.tls.clientCertificateSecretRef?"
)

_KEEPALIVE = 4.0
"""Seconds that an idle connection is kept.

Less than what common servers grant (5 s in uvicorn and Node.js): a server that closes
while we send leaves a call of which nobody knows whether it arrived.
"""

_ALERT_SECONDS = 2.0
"""How long a server that hung up twice is listened to for its reason."""

_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
}

AGENT = "lbcf"
"""The User-Agent of who says none of its own."""


@attrs.define
class _Flight:
    """One call under way.

    Attributes:
        name: what it is called in messages.
        headers: what it sends beside those of all calls.
        hint: what a lost connection may mean here, too.
        connected: there is a connection, so that something may have been sent.
    """

    name: str
    headers: Mapping[str, str]
    hint: str = ""
    connected: bool = False


def large_lists() -> asyncio.Semaphore:
    """Return the places for large lists that the clients of a process share."""
    return asyncio.Semaphore(_LARGE_LISTS)


class DriverClient:
    """Sends operations to one URL. Make it and close it in one event loop.

    Args:
        url: where the driver is.
        access: how it is called; None: without credentials.
        allowed_urls: where drivers may be.
        large: places for large lists; None: its own.
        agent: the User-Agent.
    """

    def __init__(
        self,
        url: str,
        access: Access | None = None,
        allowed_urls: Sequence[AllowedUrl] = (),
        large: asyncio.Semaphore | None = None,
        agent: str = AGENT,
    ) -> None:
        self._url = url
        self._large = large or large_lists()
        self._resolver = DriverResolver(
            lambda found: may_reach(url, found, allowed_urls)
        )
        self._access = access or Access()
        token = self._access.token
        proof = {"Authorization": f"Bearer {token}"} if token else {}
        self._session = aiohttp.ClientSession(
            connector=AbortingConnector(
                limit=0,
                keepalive_timeout=_KEEPALIVE,
                resolver=self._resolver,
                ssl=self._access.tls or True,
                use_dns_cache=False,  # the resolver has one that forgives
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS | {"User-Agent": agent} | proof,
            # The time-out is ours: aiohttp's own rounds up to whole seconds.
            timeout=aiohttp.ClientTimeout(),
            trace_configs=[_connection_watch()],
        )

    async def __aenter__(self) -> Self:
        """Use it for a block."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close it at the block's end."""
        await self.close()

    async def close(self) -> None:
        """Close all connections; calls under way end as lost."""
        await self._session.close()
        await self._resolver.close()

    async def post(
        self,
        name: str,
        operation: Operation,
        body: bytes,
        timeout: timedelta,  # noqa: ASYNC109 - part of the error's text
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Call an operation; return the body of its answer.

        Args:
            name: the driver, for messages.
            operation: the last part of the URL.
            body: JSON.
            timeout: for all of it, from looking up the host to the answer's last byte;
                what is queued of it by then never arrives.
            headers: of this call alone.

        Raises:
            DriverError: see there.
        """
        # A server in Python does not say why it ends a handshake (measured, 3.11).
        hint = _REFUSED_MAYBE if self._access.shows_certificate else ""
        flight = _Flight(f"{operation} of driver {name}", headers or {}, hint)
        seconds = timeout.total_seconds()
        with _translated(flight, timeout), abort_on_error(seconds):
            async with asyncio.timeout(seconds):
                return await self._answered(flight, operation, body)

    async def _answered(
        self, flight: _Flight, operation: Operation, body: bytes
    ) -> bytes:
        """Send and read the answer; on a new connection if the kept one was closed."""
        try:
            return await self._exchanged(flight, operation, body)
        except aiohttp.ClientOSError as error:
            if not _is_unwritten(error):
                raise
        try:
            return await self._exchanged(flight, operation, body)
        except aiohttp.ClientOSError as error:
            if _is_unwritten(error):
                await self._listen_to_refusal()
            raise

    async def _listen_to_refusal(self) -> None:
        """Shake hands once more, without a request, and hear why the server hangs up.

        With TLS 1.3 it refuses a certificate when our side of the handshake is over (RFC
        8446, 4.6.2), often before a request is written, and then aiohttp forgets its alert.

        Raises:
            ssl.SSLError: the alert.
        """
        url = yarl.URL(self._url)
        if url.scheme != "https" or url.host is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ALERT_SECONDS):
                for found in await self._resolver.resolve(url.host, url.port or 0):
                    with contextlib.suppress(ConnectionError):
                        await self._shake_hands(url.host, found)

    async def _shake_hands(self, host: str, found: ResolveResult) -> None:
        """Connect to an address with TLS, and wait for what the server says.

        Raises:
            OSError: there is no connection, or it says no.
        """
        reader, writer = await asyncio.open_connection(
            found["host"],
            found["port"],
            ssl=self._access.tls or True,
            server_hostname=self._access.server_name or host,
        )
        try:
            await reader.read(1)
        finally:
            writer.close()

    async def _whole_body(
        self, flight: _Flight, operation: Operation, response: aiohttp.ClientResponse
    ) -> bytes:
        """Read the body as long as it is small enough.

        Raises:
            TooLarge: it is not.
        """
        body, limit = bytearray(), largest_answer(operation)
        async with contextlib.AsyncExitStack() as place:
            async for chunk in response.content.iter_any():
                is_small = len(body) <= LARGEST_ANSWER
                body += chunk
                if len(body) > limit:
                    text = f"{flight.name}: the answer is over {limit} bytes"
                    raise TooLarge(text)
                if is_small and len(body) > LARGEST_ANSWER:
                    # What is not read stays with the driver: it takes no memory here.
                    await place.enter_async_context(self._large)
        return bytes(body)

    async def _exchanged(
        self, flight: _Flight, operation: Operation, body: bytes
    ) -> bytes:
        """Send, and read the answer."""
        async with self._session.post(
            yarl.URL(self._url) / operation,
            # aiohttp writes large bytes in one go, and warns of it.
            data=io.BytesIO(body) if len(body) > _LARGE else body,
            headers=flight.headers,
            allow_redirects=False,
            server_hostname=self._access.server_name,
            trace_request_ctx=flight,
        ) as response:
            try:
                _check_status(flight, response.status)
                return await self._whole_body(flight, operation, response)
            except BaseException:
                # What is left of the body would be read to save the connection.
                response.close()
                raise


def largest_answer(operation: Operation) -> int:
    """Return how many bytes the answer to an operation may have."""
    is_list = operation is Operation.LIST_BACKENDS or operation in SINGLE
    return LARGEST_LIST if is_list else LARGEST_ANSWER


def _connection_watch() -> aiohttp.TraceConfig:
    """Return the hooks by which a flight learns that it has a connection."""
    watch = aiohttp.TraceConfig()

    async def connected(
        _session: aiohttp.ClientSession, context: SimpleNamespace, _params: object
    ) -> None:
        context.trace_request_ctx.connected = True

    # A new one counts from the end of the TLS handshake on.
    watch.on_connection_create_end.append(connected)
    watch.on_connection_reuseconn.append(connected)
    return watch


def _is_unwritten(error: Exception) -> bool:
    """Return whether the request surely did not go out.

    aiohttp found the transport closed as it was about to write head and body, which
    go out in one piece (a server cannot act on less than all pieces of a large body).
    It never repeats a POST by itself.
    """
    return isinstance(error.__cause__, aiohttp.ClientConnectionResetError)


def _check_status(flight: _Flight, status: int) -> None:
    """Raise the error of any status but 200.

    Raises:
        BadStatus: it is another one.
    """
    if status in _REDIRECTS:
        text = f"{flight.name}: answered with a redirect ({status}), never followed"
        raise Redirected(text, status)
    if status in _UNAUTHORIZED:
        text = f"answered with HTTP status {status}: see spec.auth, or spec.tls"
        raise TokenRefused(f"{flight.name}: {text}", status)
    if status != _OK:
        raise BadStatus(f"{flight.name}: answered with HTTP status {status}", status)


@contextlib.contextmanager
def _translated(flight: _Flight, timeout: timedelta) -> Iterator[None]:
    """Turn what aiohttp raises into our own errors."""
    try:
        yield
    except TimeoutError as error:
        raise _timed_out(flight, timeout) from error
    except aiohttp.ClientResponseError as error:
        # Its text quotes what was received.
        raise BadAnswer(f"{flight.name}: the answer is not valid HTTP") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        refused = tls_error(flight.name, error)
        if refused is not None:
            raise refused from error
        if flight.connected and not _is_unwritten(error):
            text = f"{flight.name}: the connection ended before the answer{flight.hint}"
            raise ConnectionLost(text) from error
        raise NotSent(f"{flight.name}: cannot connect: {_cause(error)}") from error


def _timed_out(flight: _Flight, timeout: timedelta) -> TimedOut:
    # What is left of the driver's time-out is 1.99976 s: people read 2.
    seconds = f"{timeout.total_seconds():.3g} s"
    if flight.connected:
        return TimedOut(f"{flight.name}: no whole answer within {seconds}")
    return TimedOut(f"{flight.name}: no connection within {seconds}", definite=True)


def _cause(error: Exception) -> str:
    """Return why there was no connection, in the system's words and without addresses."""
    match error:
        case aiohttp.ClientSSLError():
            return "no TLS connection came about"
        case aiohttp.ClientConnectorDNSError():
            return "its host name cannot be resolved"
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno
            return os.strerror(number) if number else "no address of it takes any"
        case ValueError():
            return "its URL is not valid"
        case _:
            return type(error).__name__
