"""The cheapest requests that Python can send: prebuilt bytes over kept connections.

`pods` plays the users of a cluster through it. Users must not limit what is measured,
nor take the processor from it: one request costs a third of aiohttp's.
"""

import asyncio

from typing import Self
from urllib.parse import urlsplit

from lbcf.kube.connection import Connection


_BARE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""Answers of metadata alone: nobody reads them."""


class Refused(Exception):  # noqa: N818 - reads as what happened
    """The API server answered with an error."""


class Pipes:
    """Connections to one API server, each with one request at a time.

    Args:
        connection: where, and as whom (a client certificate).
        count: of connections, hence of requests at a time.
    """

    def __init__(self, connection: Connection, count: int = 32) -> None:
        self._connection = connection
        self._count = count
        self._host = urlsplit(connection.host)
        self._free: asyncio.Queue[_Pipe] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        """Connect."""
        for _ in range(self._count):
            self._free.put_nowait(await self._open())
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close all connections."""
        while not self._free.empty():
            self._free.get_nowait().close()

    async def _open(self) -> "_Pipe":
        """Make a connection."""
        reader, writer = await asyncio.open_connection(
            self._host.hostname, self._host.port, ssl=self._connection.tls()
        )
        return _Pipe(reader, writer)

    async def send(
        self, method: str, path: str, body: str = "", kind: str = "application/json"
    ) -> None:
        """Send a request and wait for its answer.

        Raises:
            Refused: the answer is an error.
        """
        raw = body.encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host.netloc}\r\n"
            f"Accept: {_BARE}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(raw)}\r\n\r\n"
        )
        pipe = await self._free.get()
        try:
            if pipe.is_over:
                # The API server closes a connection that was idle for 90 s.
                pipe.close()
                pipe = await self._open()
            status, answer = await pipe.exchange(head.encode() + raw)
        finally:
            self._free.put_nowait(pipe)
        if status >= 300:
            raise Refused(f"{method} {path}: {status} {answer[:300]!r}")


class _Pipe:
    """One connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def is_over(self) -> bool:
        """Tell whether the other side has closed it."""
        return self._reader.at_eof()

    def close(self) -> None:
        """Close it."""
        self._writer.close()

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; return status and body of the answer."""
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head[9:12])
        _, found, rest = head.partition(b"\r\ncontent-length:")
        if found:
            size = int(rest[: rest.index(b"\r\n")])
            return status, await self._reader.readexactly(size)
        return status, await self._chunks()

    async def _chunks(self) -> bytes:
        """Read a body that comes in chunks."""
        body = bytearray()
        while True:
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            chunk = await self._reader.readexactly(size + 2)
            if not size:
                return bytes(body)
            body += chunk[:-2]
