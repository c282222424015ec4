"""Sends one request to the API server and brings back its answer, or its error.

`client` above it knows verbs and kinds; `connection` beside it knows the server. Time
limits, short repetitions and credentials live here, and so does the line between what
surely did not happen and what may have: nothing of the second sort is sent again, and
nothing of what was given up stays queued.
"""

import asyncio
import ssl

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Final, Self

import aiohttp
import attrs

from lbcf.kube.connection import ConfigurationError, Connection
from lbcf.kube.errors import (
    TEXT_LIMIT,
    AnswerTooLarge,
    KubeError,
    Throttled,
    Unauthorized,
    Unavailable,
    error_of,
)
from lbcf.kube.requests import ApiRequest, namespace_of, rank_of
from lbcf.runtime.aborting import AbortingConnector, abort_on_error, settle_answered
from lbcf.runtime.clock import Clock
from lbcf.runtime.semaphore import PrioritySemaphore


ATTEMPTS: Final = 3
PATIENCE: Final = timedelta(seconds=5)
"""A server that wants to be left alone for longer is told to the caller instead."""
CALL_LIMIT: Final = timedelta(seconds=30)
AT_ONCE: Final = 32
"""Requests at a time, watches aside. More of them would only wait in the server, where
nobody could say any more which of them goes first."""
KEPT: Final = 96
"""So many more if they end something. A busy API server answers its clients in
proportion to what each has out: with 32 deletions at a time ours fell further behind the
users' own with each second of a storm (2,000 pods: 4.5 s at the 99th percentile)."""
POOL: Final = AT_ONCE + KEPT
_FIRST_PAUSE = 0.1
_CONNECT_SECONDS = 10.0
_KEEP_ALIVE_SECONDS = 30.0
"""Below the 90 s after which the API server closes an idle connection: a write must
not meet a connection that is being closed, nobody could say whether it was read."""
_READ_BUFFER = 2**18
_FIRST_ERROR = 300


@attrs.frozen
class _Credentials:
    """How the server knows who asks, and how we know who answers."""

    authorization: str | None
    tls: ssl.SSLContext | None


class Transport:
    """A pool of connections to one API server; `async with` closes it.

    Args:
        connection: where, and as whom.
        clock: spreads the pauses between attempts.
        user_agent: who asks, as the server's audit log shows it.
        limit: for a whole `send`, with all its attempts, once it has a place.
        pool: requests at a time; each watch has a connection beside them.
        at_once: of these requests, those that end nothing.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        *,
        user_agent: str = "lbcf",
        limit: timedelta = CALL_LIMIT,
        pool: int = POOL,
        at_once: int = AT_ONCE,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._headers = (
            ("Accept", "application/json"),
            # Near the server packing costs both sides more than it saves.
            ("Accept-Encoding", "identity"),
            ("User-Agent", user_agent),
            *connection.headers,
        )
        self._limit = limit
        places = min(pool, at_once)
        self._places = PrioritySemaphore(places, kept=min(pool - places, KEPT))
        self._opened: aiohttp.ClientSession | None = None
        self._is_closed = False
        self._renewing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Connect lazily: the first request does."""
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Close every connection."""
        await self.close()

    async def close(self) -> None:
        """Close every connection; what is on its way is cut, and nothing is sent any more."""
        self._is_closed = True
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Return the body of a successful answer.

        Repeats, at most twice and after a short pause, what was surely not applied:
        a request that was throttled or never sent, and any that only reads.

        Args:
            request: what to send.
            within: the time limit, None for the usual one. To wait for a place does
                not count: in a storm of thousands the last waits for longer than that,
                and has not failed.

        Raises:
            KubeError: as the tree of `lbcf.kube.errors` tells.
        """
        limit = (within or self._limit).total_seconds()
        async with self._places.held(
            group=namespace_of(request), rank=rank_of(request)
        ):
            return await self._sent_within(request, limit)

    async def _sent_within(self, request: ApiRequest, limit: float) -> bytes:
        """Send it, and give up after so many seconds."""
        try:
            async with asyncio.timeout(limit):
                with abort_on_error(limit):
                    return await self._sent(request)
        except TimeoutError as error:
            raise Unavailable(
                f"{request}: no answer within {limit:g} s", sent=None
            ) from error

    async def _sent(self, request: ApiRequest) -> bytes:
        """Send it, and again where that can do no harm."""
        for number in range(1, ATTEMPTS):
            try:
                return await self._attempt(request)
            except KubeError as error:
                if not _is_repeatable(request, error):
                    raise
                pause = self._pause(error, number)
            await self._clock.sleep(pause)
        return await self._attempt(request)

    @asynccontextmanager
    async def stream(
        self, request: ApiRequest, silence: timedelta
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open an answer that comes in chunks; made once, never repeated.

        Args:
            request: what to send.
            silence: after that long without a byte the peer counts as dead.

        Raises:
            KubeError: at the start, or while the chunks are read.
        """
        timeout = aiohttp.ClientTimeout(
            total=None,
            sock_connect=_CONNECT_SECONDS,
            sock_read=silence.total_seconds(),
        )
        used = await self._credentials(request)
        try:
            # Closed well, TLS would wait up to 30 s for the goodbye of a busy server.
            with abort_on_error(silence.total_seconds()):
                async with self._request(request, used, timeout) as response:
                    if response.status >= _FIRST_ERROR or not _is_json(response):
                        raise _refusal(request, response, await response.read())
                    yield response.content.iter_any()
        except Unauthorized:
            await self._newer_credentials(request, used)
            raise
        except aiohttp.ClientConnectorCertificateError as error:
            await self._newer_credentials(request, used)
            raise _unreachable(request, error) from error
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(request, error) from error

    async def _attempt(self, request: ApiRequest) -> bytes:
        """Send it once, and once more with newer credentials where these do not do."""
        used = await self._credentials(request)
        try:
            return await self._once(request, used)
        except KubeError as error:
            if not _needs_newer(error):
                raise
            newer = await self._newer_credentials(request, used)
            if newer == used:
                raise
        return await self._once(request, newer)

    async def _once(self, request: ApiRequest, used: _Credentials) -> bytes:
        """Send it and read the answer."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        try:
            async with self._request(request, used, timeout) as response:
                body = await _body(request, response)
            settle_answered()
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(request, error) from error
        if response.status >= _FIRST_ERROR or not _is_json(response):
            raise _refusal(request, response, body)
        return body

    def _request(
        self, request: ApiRequest, used: _Credentials, timeout: aiohttp.ClientTimeout
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Put the request together."""
        header = used.authorization
        headers = {} if header is None else {"Authorization": header}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if self._is_closed:
            # A repetition that slept meanwhile: a session of its own would stay open.
            raise Unavailable(f"{request}: the client is closed", sent=False)
        return self._session().request(
            request.method,
            self._connection.host + request.path,
            params=request.query,
            data=request.body,
            headers=headers,
            timeout=timeout,
            # Connections that another context has made are not used.
            ssl=used.tls or True,
            server_hostname=self._connection.server_name,
            proxy=self._connection.proxy,
            allow_redirects=False,
        )

    def _session(self) -> aiohttp.ClientSession:
        """Return the session; it can only be made where the loop runs."""
        if self._opened is None:
            connector = AbortingConnector(
                # With one, watches would take connections away from requests, which
                # have their places.
                limit=0,
                keepalive_timeout=_KEEP_ALIVE_SECONDS,
            )
            self._opened = aiohttp.ClientSession(
                connector=connector, headers=self._headers, read_bufsize=_READ_BUFFER
            )
        return self._opened

    async def _credentials(self, request: ApiRequest) -> _Credentials:
        try:
            header = await self._connection.authorization()
            return _Credentials(header, self._connection.tls())
        except ConfigurationError as error:
            raise Unavailable(f"{request}: {error}", sent=False) from error

    async def _newer_credentials(
        self, request: ApiRequest, used: _Credentials
    ) -> _Credentials:
        """Read the credentials anew, unless another request has just done so."""
        async with self._renewing:
            if await self._credentials(request) == used:
                try:
                    await self._connection.renew()
                except ConfigurationError as error:
                    raise Unavailable(f"{request}: {error}", sent=False) from error
            return await self._credentials(request)

    def _pause(self, error: KubeError, number: int) -> timedelta:
        spread = _FIRST_PAUSE * 2.0**number * self._clock.jitter()
        return (error.retry_after or timedelta(0)) + timedelta(seconds=spread)


def _needs_newer(error: KubeError) -> bool:
    """Return whether newer credentials may help: one side does not believe the other."""
    cause = error.__cause__
    is_strange = isinstance(cause, aiohttp.ClientConnectorCertificateError)
    return is_strange or isinstance(error, Unauthorized)


def _is_repeatable(request: ApiRequest, error: KubeError) -> bool:
    """Return whether a second attempt can do no harm and need not wait for long."""
    if not isinstance(error, Throttled | Unavailable) or _needs_newer(error):
        return False
    if error.retry_after is not None and error.retry_after > PATIENCE:
        return False
    return (
        isinstance(error, Throttled)
        or not error.maybe_applied
        or request.method == "GET"
    )


async def _body(request: ApiRequest, response: aiohttp.ClientResponse) -> bytes:
    """Read the answer, up to the bytes that the asker takes.

    Raises:
        AnswerTooLarge: there are more; the connection is closed with the rest unread.
    """
    if request.most is None:
        return await response.read()
    parts: list[bytes] = []
    left = request.most
    async for part in response.content.iter_any():
        left -= len(part)
        if left < 0:
            response.close()
            raise AnswerTooLarge(f"{request}: more than {request.most} bytes")
        parts.append(part)
    return b"".join(parts)


def _is_json(response: aiohttp.ClientResponse) -> bool:
    # A page that some proxy puts in the place of the API's answer is none.
    return response.content_type == "application/json"


def _refusal(
    request: ApiRequest, response: aiohttp.ClientResponse, body: bytes
) -> KubeError:
    """Make the error of an answer that is none of the API's successes."""
    if response.status < _FIRST_ERROR:
        return Unavailable(
            f"{request}: {response.status} with a body that is not JSON",
            sent=True,
            status=response.status,
        )
    return error_of(
        str(request), response.status, body, response.headers.get("Retry-After")
    )


def _unreachable(request: ApiRequest, error: Exception) -> Unavailable:
    """Make the error of a connection that was not made, or that broke."""
    unsent = isinstance(
        error,
        aiohttp.ClientConnectorError
        | aiohttp.ConnectionTimeoutError
        | aiohttp.ClientHttpProxyError,
    )
    text = _reason(error)[:TEXT_LIMIT]
    return Unavailable(f"{request}: {text}", sent=False if unsent else None)


def _reason(error: Exception) -> str:
    # Of a connection aiohttp's own text says where our context is in memory.
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        told: object = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorError):
        told = error.os_error.strerror or error.os_error
    else:
        return str(error) or type(error).__name__
    return f"cannot connect to {error.host}:{error.port}: {told}"
