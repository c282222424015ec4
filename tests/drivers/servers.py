"""Servers on real sockets that behave as no driver should, and what calls them."""

import asyncio
import contextlib
import socket

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver, Meta
from lbcf.core.model.values import MemberKey, ObjectKey, Uid
from lbcf.drivers.access import DriverAllowlist
from lbcf.drivers.pool import DriverPool
from lbcf.drivers.url_allowlist import parse_allowed_url
from lbcf.wire.driver_answers import BackendAnswer
from lbcf.wire.driver_requests import EnsureBackendRequest


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What a server does with one connection; it is closed afterwards."""

_PLACES = ("*://*", "*://127.*", "*://localhost")
BESIDE_US = DriverAllowlist(
    allowed_urls=tuple(parse_allowed_url(place) for place in _PLACES)
)
"""Lets drivers be where those of tests are: on loopback, too."""
ALLOW_BESIDE_US = tuple(f"--driver-url-allow={place}" for place in _PLACES)
"""The same as flags."""

REQUEST = EnsureBackendRequest(record_id="r", backend_addr="192.0.2.1:80")
SUCC = b'{"status": "Succ"}'
PATIENT = timedelta(seconds=60)
"""For calls that end by themselves, on whatever machine."""
HASTY = timedelta(milliseconds=200)
"""For calls that must be ended."""


def a_driver(
    url: str,
    max_concurrent_calls: int = 32,
    member_key: MemberKey = MemberKey.ADDRESS,
) -> LoadBalancerDriver:
    """Return a driver at this URL."""
    meta = Meta(key=ObjectKey("web", "mine"), uid=Uid("u"), resource_version="1")
    return LoadBalancerDriver(
        meta=meta,
        url=url,
        max_concurrent_calls=max_concurrent_calls,
        member_key=member_key,
    )


async def ensure(
    pool: DriverPool,
    url: str,
    timeout: timedelta = PATIENT,  # noqa: ASYNC109 - what the call is given
    until: float | None = None,
) -> BackendAnswer:
    """Call ensureBackend of the driver at this URL."""
    return await pool.call(
        a_driver(url), Operation.ENSURE_BACKEND, REQUEST, timeout=timeout, until=until
    )


def free_port() -> socket.socket:
    """Bind a port of the loopback interface; it refuses until it is served."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    return bound


@contextlib.asynccontextmanager
async def serving(talk: Talk, bound: socket.socket | None = None) -> AsyncIterator[str]:
    """Serve on the loopback interface, at a free port or a bound one; give the URL."""
    running: set[asyncio.Task[None]] = set()

    async def connected(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the caller hung up, as it should on such a server, or the test ends
        finally:
            writer.close()
            running.discard(task)

    server = await asyncio.start_server(connected, sock=bound or free_port())
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Read one whole request; return its head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    sizes = [
        int(connections.partition(b":")[2])
        for connections in head.split(b"\r\n")
        if connections.lower().startswith(b"content-length:")
    ]
    return head + await reader.readexactly(sum(sizes))


def response(
    body: bytes = SUCC, status: bytes = b"200 OK", headers: bytes = b""
) -> bytes:
    """Return the bytes of a response; `headers` are lines that end in CRLF."""
    size = b"Content-Length: %d\r\n" % len(body)
    return b"HTTP/1.1 " + status + b"\r\n" + size + headers + b"\r\n" + body


def replying(sent: bytes) -> Talk:
    """Answer each connection's first request with these bytes, then hang up."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(sent)
        await writer.drain()

    return talk


def repeating(piece: bytes, *, first: bytes, pause: float = 0) -> Talk:
    """Answer with `first`, then with the piece again and again, without an end."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(first)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)

    return talk


async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Take everything and say nothing, until the caller hangs up."""
    while await reader.read(65536):
        pass
