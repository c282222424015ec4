"""Serves `GET /v1/pods/UID/drained?timeoutSeconds=N` to pods that wait (docs/gates.md).

The answer is `{"drained": true}` as soon as no record names the pod, `{"drained": false}`
when the time is over. The head of the answer comes at once: a pod whose question is cut off, as
this process ends, knows then that somebody was there. Whoever reaches the port may ask: a uid is random, and yes or no is all
that it brings. What a caller may cost is bounded here. Thousands wait at a time, each
with a connection of its own, so that one has to cost little: an HTTP framework's took
ten times the memory.
"""

import asyncio
import contextlib
import re

from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from http import HTTPStatus
from typing import Final, Self, cast

import attrs
import structlog

from lbcf.core.model.values import Uid
from lbcf.deregistrar.drain_gate import DrainGate, GateMetrics
from lbcf.runtime import open_files
from lbcf.runtime.flags import BindAddress
from lbcf.runtime.health import CannotListen


@attrs.frozen
class Limits:
    """How much there may be of what.

    Attributes:
        connections: open at a time.
        per_peer: of one address: a pod has one for each of its containers; behind a
            node's address there may be all of its pods.
        head: seconds within which a request has to come.
        bytes: of a request.
        longest: seconds that one request may wait.
    """

    connections: int = 10_000
    per_peer: int = 512
    head: float = 5.0
    bytes: int = 4096
    longest: int = 60

    @classmethod
    def within(cls, files: int) -> Self:
        """Return the usual ones, where so many files may be open: half are for work."""
        usual = cls()
        return attrs.evolve(usual, connections=min(usual.connections, files // 2))

    @property
    def backlog(self) -> int:
        """How many may wait to be let in: they are accepted all at once."""
        return max(1, min(1024, self.connections // 4))


_UID: Final = "[0-9a-f](?:[0-9a-f-]{0,61}[0-9a-f])?"
_ASKED: Final = re.compile(
    rf"GET /v1/pods/({_UID})/drained(?:\?timeoutSeconds=([0-9]{{1,4}}))? HTTP/1\.[01]"
)
_YES: Final = '{"drained":true}\n'
_NO: Final = '{"drained":false}\n'
_USAGE: Final = "ask GET /v1/pods/UID/drained?timeoutSeconds=N\n"
_END: Final = b"\r\n\r\n"

_log = structlog.get_logger(__name__)


class GateServer:
    """The connections of those who ask.

    Args:
        gate: answers.
        series: counts.
        limits: of all of them; None: the usual ones, within the limit of open files.
    """

    def __init__(
        self, gate: DrainGate, series: GateMetrics, limits: Limits | None = None
    ) -> None:
        self.gate = gate
        self.limits = limits or Limits.within(open_files.limit())
        self._series = series
        self._peers: Counter[str] = Counter()
        self.open: set[Connection] = set()

    def enter(self, connection: "Connection", peer: str) -> bool:
        """Let a connection in, if there is room for it."""
        limits = self.limits
        full = len(self.open) >= limits.connections
        if full or self._peers[peer] >= limits.per_peer:
            self._series.answers.labels("Refused").inc()
            return False
        self.open.add(connection)
        self._peers[peer] += 1
        return True

    def leave(self, connection: "Connection", peer: str) -> None:
        """Forget a connection."""
        if connection not in self.open:
            return
        self.open.discard(connection)
        self._peers[peer] -= 1
        if not self._peers[peer]:
            del self._peers[peer]

    @contextlib.asynccontextmanager
    async def serve(self, address: BindAddress) -> AsyncIterator[int]:
        """Serve until the block is left, then cut off all who wait; gives the port.

        Raises:
            CannotListen: the address cannot be used.
            ExceptionGroup: what answers broke down; the block was cancelled.
        """
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                lambda: Connection(self),
                address.host,
                address.port,
                backlog=self.limits.backlog,
            )
        except OSError as error:
            text = f"cannot listen on {address}: {error.strerror}"
            raise CannotListen(text) from error
        port: int = server.sockets[0].getsockname()[1]
        _log.info(
            "gate.serving",
            host=address.host or "*",
            port=port,
            connections=self.limits.connections,
        )
        # A gate that accepts and never answers would hold every pod to the end of its grace.
        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(self.gate.run())
            try:
                yield port
            finally:
                server.close()
                answering.cancel()
                for connection in list(self.open):
                    connection.close()


class Connection(asyncio.Protocol):
    """One who asks once."""

    __slots__ = ("_asking", "_head", "_peer", "_server", "_timer", "_transport")

    def __init__(self, server: GateServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._peer = ""
        self._head = b""
        self._asking: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let it in, or say that there is no room."""
        self._transport = cast(asyncio.Transport, transport)
        self._peer = str((transport.get_extra_info("peername") or ("",))[0])
        if not self._server.enter(self, self._peer):
            self.answer(HTTPStatus.SERVICE_UNAVAILABLE, "too many ask\n")
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(
            self._server.limits.head,
            self.answer,
            HTTPStatus.REQUEST_TIMEOUT,
            "the request took too long\n",
        )

    def data_received(self, data: bytes) -> None:
        """Read the question; whatever follows it is ignored."""
        if self._asking is not None:
            return
        self._head += data[: self._server.limits.bytes]
        if _END in self._head:
            self._ask(self._head.partition(b"\r\n")[0].decode("latin-1"))
        elif len(self._head) >= self._server.limits.bytes:
            self.answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _USAGE)

    def eof_received(self) -> bool:
        """Go on: who has said all may still listen."""
        return True

    def connection_lost(self, _error: Exception | None) -> None:
        """Wait for nobody."""
        self._rest()
        self._server.leave(self, self._peer)

    def answer(self, status: HTTPStatus, text: str) -> None:
        """Answer, and close."""
        self._rest()
        self._write(_head(status) + text)
        self.close()

    def close(self) -> None:
        """Close, answered or not."""
        if self._transport is not None:
            self._transport.close()

    def _write(self, text: str) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(text.encode())

    def _ask(self, line: str) -> None:
        asked = _ASKED.fullmatch(line)
        if asked is None:
            self.answer(HTTPStatus.NOT_FOUND, _USAGE)
            return
        self._head = b""
        longest = self._server.limits.longest
        seconds = min(int(asked[2] or longest), longest)
        self._write(_head(HTTPStatus.OK))
        waiting = self._wait(Uid(asked[1]), timedelta(seconds=seconds))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._asking = asyncio.get_running_loop().create_task(waiting)

    async def _wait(self, uid: Uid, within: timedelta) -> None:
        drained = await self._server.gate.drained(uid, within)
        self._asking = None
        self._write(_YES if drained else _NO)
        self.close()

    def _rest(self) -> None:
        for ending in (self._timer, self._asking):
            if ending is not None:
                ending.cancel()
        self._timer = self._asking = None


def _head(status: HTTPStatus) -> str:
    # Without a length: the body ends with the connection.
    return (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: application/json\r\nConnection: close\r\n\r\n"
    )
