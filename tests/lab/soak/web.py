"""The web server of one pod: answers its name, at once or after a while.

It listens on an address of its own in 127.0.0.0/8. When it is stopped its connections
are reset and new ones are refused, as when a container is killed.
"""

import asyncio
import contextlib

from typing import Self
from urllib.parse import parse_qs, urlsplit


class WebServer:
    """A server.

    Attributes:
        name: of the pod that answers.
        answered: how many requests were.
        asked: set once it has got a request.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.answered = 0
        self.asked = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @classmethod
    async def start(cls, name: str, host: str, port: int) -> Self:
        """Listen.

        Raises:
            OSError: somebody else does.
        """
        server = cls(name)
        server._server = await asyncio.start_server(
            server._talk, host, port, reuse_address=True
        )
        return server

    def stop(self) -> None:
        """Die."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.transport.abort()

    async def _talk(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer the requests of one connection."""
        self._open.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while await self._answer(reader, writer):
                    self.answered += 1
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; says whether another one may come."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        self.asked.set()
        parts = urlsplit(head.split(" ", 2)[1])
        body = f"pod={self.name}"
        if parts.path == "/slow":
            await asyncio.sleep(float(parse_qs(parts.query)["s"][0]))
            body = f"done {self.name}"
        keep = "connection: close" not in head
        writer.write(
            f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n"
            f"Connection: {'keep-alive' if keep else 'close'}\r\n\r\n{body}".encode()
        )
        await writer.drain()
        return keep
