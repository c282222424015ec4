"""Limits of what callers of the webhook may cost: whoever reaches its port is one of them.

`server` asks here before it accepts a connection, reads a body or begins a review. The
API server sends small bodies with their length, at once; it is never kept waiting by
those who do not.
"""

import asyncio
import contextlib

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import attrs

from aiohttp import web

from lbcf.runtime.idle import IDLE


@attrs.frozen
class RequestLimits:
    """How much there may be of what.

    Attributes:
        connections: open at a time; for one more, one that asks nothing is closed.
        handshake: how long one may take to agree on TLS.
        idle: how long a connection may stay open without a whole head of a request.
        body: how long a body may take.
        largest: bytes of a body: two objects of 1.5 MiB at most (etcd's limit), and room.
        small: bytes of a body that is read beside any number of others.
        large_at_once: how many larger ones are read and judged at a time.
        per_namespace: reviews of objects of one namespace under way at a time.
    """

    connections: int = 128
    handshake: timedelta = timedelta(seconds=5)
    idle: timedelta = IDLE
    body: timedelta = timedelta(seconds=5)
    largest: int = 8 * 2**20
    small: int = 2**18
    large_at_once: int = 4
    per_namespace: int = 32


class ClosingProtocol(asyncio.Protocol):
    """Closes a connection for which there is no room."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close it."""
        transport.close()


class RequestLimiter:
    """Lets connections in, questions to their bodies, and reviews to their drivers."""

    def __init__(self, limits: RequestLimits) -> None:
        self.limits = limits
        self._asking: Counter[asyncio.BaseProtocol | None] = Counter()
        self._large = asyncio.Semaphore(limits.large_at_once)
        self._reviews: Counter[str] = Counter()

    def protocol(self, server: web.Server) -> asyncio.BaseProtocol:
        """Make what serves a new connection; if need be, close an idle one for it."""
        held = server.connections
        if len(held) >= self.limits.connections:
            idle = next((one for one in held if not self._asking[one]), None)
            if idle is None:
                return ClosingProtocol()
            idle.force_close()
        return server()

    @contextlib.asynccontextmanager
    async def body(self, request: web.Request) -> AsyncIterator[bytes]:
        """Read a body, and hold its place until the block ends.

        Raises:
            HTTPRequestTimeout: it took too long, or too many large ones wait.
            HTTPRequestEntityTooLarge: it is larger than any question.
        """
        size = request.content_length
        if size is not None and size > self.limits.largest:
            told = web.HTTPRequestEntityTooLarge(self.limits.largest, size)
            told.force_close()
            raise told
        is_small = size is not None and size <= self.limits.small
        with self._asked(request.protocol):
            async with contextlib.AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(self.limits.body.total_seconds()):
                        if not is_small:
                            await stack.enter_async_context(self._large)
                        body = await request.read()
                except TimeoutError as error:
                    late = web.HTTPRequestTimeout(text="the body took too long")
                    late.force_close()
                    raise late from error
                yield body

    @contextlib.contextmanager
    def review(self, namespace: str) -> Iterator[bool]:
        """Count a review; gives whether there is room for one more of its namespace."""
        if self._reviews[namespace] >= self.limits.per_namespace:
            yield False
            return
        self._reviews[namespace] += 1
        try:
            yield True
        finally:
            self._reviews[namespace] -= 1
            if not self._reviews[namespace]:
                del self._reviews[namespace]

    @contextlib.contextmanager
    def _asked(self, connection: asyncio.BaseProtocol | None) -> Iterator[None]:
        """Count a connection as one that asks something."""
        self._asking[connection] += 1
        try:
            yield
        finally:
            del self._asking[connection]
