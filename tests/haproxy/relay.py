"""A socket in front of HAProxy's own, whose answers can be spoilt on the way.

The commands reach the real HAProxy, unless somebody else is to answer in its place.
"""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Self

import attrs

from tests.haproxy.proxy import Haproxy


Spoil = Callable[[bytes, bytes], bytes]
"""Makes of a line and of HAProxy's answer what the driver is to get."""


def honest(_line: bytes, answer: bytes) -> bytes:
    """Return the answer as it is."""
    return answer


def nothing(_line: bytes, _answer: bytes) -> bytes:
    """Hang up."""
    return b""


def cut(_line: bytes, answer: bytes) -> bytes:
    """Return what comes before an answer's last line end, and at most half of it."""
    return answer[: len(answer) // 2].rstrip()


def changes_cut(line: bytes, answer: bytes) -> bytes:
    """Return the answers to questions whole, and nearly all of the others."""
    return answer if line.startswith(b"show") else answer.rstrip()


@attrs.define(eq=False)
class Relay:
    """A listener that speaks for a HAProxy.

    Attributes:
        proxy: which one.
        spoil: what becomes of its answers.
        stranger: what is answered in place of HAProxy, which hears nothing; None: HAProxy
            is asked.
    """

    proxy: Haproxy
    spoil: Spoil = honest
    stranger: bytes | None = None
    _server: asyncio.Server | None = None

    @property
    def path(self) -> str:
        """Where it listens."""
        return str(self.proxy.folder / "relay.sock")

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, proxy: Haproxy) -> AsyncIterator[Self]:
        """Listen for a block."""
        relay = cls(proxy)
        await relay.listen()
        try:
            yield relay
        finally:
            await relay.refuse()

    async def listen(self) -> None:
        """Take connections."""
        _forget(Path(self.path))
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def refuse(self) -> None:
        """Take none; the socket's file stays, as that of a HAProxy that died."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass one line on, and the answer back."""
        with contextlib.suppress(OSError):
            line = await reader.readline()
            if self.stranger is None:
                writer.write(self.spoil(line, await self._asked(line)))
            else:
                writer.write(self.stranger)
            await writer.drain()
        writer.close()

    async def _asked(self, line: bytes) -> bytes:
        """Ask HAProxy; return the whole answer."""
        reader, writer = await asyncio.open_unix_connection(self.proxy.socket)
        writer.write(line)
        answer = await reader.read()
        writer.close()
        return answer


def _forget(path: Path) -> None:
    """Remove a socket that nobody listens at, if there is one."""
    path.unlink(missing_ok=True)
