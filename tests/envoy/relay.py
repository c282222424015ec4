"""What is between Envoys and the driver: it hands on, hangs, or lets nobody through."""

import asyncio
import contextlib

from collections.abc import AsyncIterator
from typing import Self

import attrs


@attrs.define(eq=False)
class Relay:
    """A port in front of another one.

    Attributes:
        port: where Envoys connect to.
        target: port of the driver.
    """

    target: int
    port: int = 0
    _server: asyncio.Server | None = attrs.field(default=None, init=False)
    _writers: set[asyncio.StreamWriter] = attrs.field(factory=set, init=False)
    _flows: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, target: int) -> AsyncIterator[Self]:
        """Hand on for a block."""
        relay = cls(target)
        relay._flows.set()
        await relay.open()
        try:
            yield relay
        finally:
            relay._flows.set()
            await relay.cut()

    async def open(self) -> None:
        """Let Envoys through."""
        if self._server is None:
            self._server = await asyncio.start_server(
                self._serve, "127.0.0.1", self.port
            )
            self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """End all connections, and take no others."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    def hang(self) -> None:
        """Hand nothing on, and end nothing."""
        self._flows.clear()

    def flow(self) -> None:
        """Hand on again, what has waited first."""
        self._flows.set()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Hand one connection on."""
        try:
            there = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        mine = {writer, there[1]}
        self._writers |= mine
        try:
            await asyncio.gather(
                self._pump(reader, there[1]), self._pump(there[0], writer)
            )
        finally:
            self._writers -= mine

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Hand on in one direction."""
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
