"""Connections that take back what is queued when a call is given up.

TCP goes on sending what a closed socket has in its queue, for minutes if the network
holds it back: a call that its sender gave up would arrive long after anybody counts on it.
`lbcf.drivers.client` and `lbcf.kube.transport` make their calls within `abort_on_error`, on
connections of an `AbortingConnector`.
"""

import asyncio
import contextlib
import socket
import struct

from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from typing import Self
from weakref import WeakKeyDictionary

import aiohttp

from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.tracing import Trace


_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of no time: to close is to send RST and to drop the queue (RFC 9293, 3.10.5).

The kernel does so as well when it closes the sockets of a process that was killed.
"""
_GRACEFUL = struct.pack("ii", 0, 0)


class _Call:
    """One call, and the connections that it was given; the last one may be in use.

    A connection goes back to the pool before the call's task runs on, so that it may be
    another call's by then.
    """

    def __init__(self, until: float) -> None:
        self._until = until
        self._taken: list[tuple[ResponseHandler, asyncio.Transport]] = []
        self._outer: Token[_Call | None] | None = None

    def __enter__(self) -> Self:
        """Take the connections that this task opens in the block."""
        self._outer = _CALL.set(self)
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        """Settle or abort."""
        if self._outer is not None:
            _CALL.reset(self._outer)
        if failed is None:
            self.settle()
        else:
            self.abort()

    def take(self, connection: Connection) -> None:
        """Take a connection: however it is closed, its send queue is dropped."""
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None:
            return  # closed by the peer already
        _OWNERS[protocol] = self
        self._taken.append((protocol, transport))
        rest = self._until - asyncio.get_running_loop().time()
        # A process that is stopped looks at no clock: then the kernel gives up for it.
        _set(transport, _RESET, max(1, round(rest * 1000)))

    def settle(self) -> None:
        """Let the connections, whose queues are empty now, be closed without a reset."""
        for transport in self._own():
            _set(transport, _GRACEFUL, 0)

    def abort(self) -> None:
        """Close the connections now, with all that is queued here and in the kernel."""
        for transport in self._own():
            transport.abort()

    def _own(self) -> Iterator[asyncio.Transport]:
        for protocol, transport in self._taken:
            if _OWNERS.get(protocol) is self:
                del _OWNERS[protocol]
                yield transport


_OWNERS: WeakKeyDictionary[ResponseHandler, _Call] = WeakKeyDictionary()
"""Whose call a connection is in use for, or was last."""

_CALL: ContextVar[_Call | None] = ContextVar("call", default=None)


class AbortingConnector(aiohttp.TCPConnector):
    """Its connections belong to the call of `abort_on_error` that asks for them."""

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own
    ) -> Connection:
        """Return a connection for a request, of which nothing has been sent."""
        connection = await super().connect(req, traces, timeout)
        call = _CALL.get()
        if call is not None:
            call.take(connection)
        return connection


def abort_on_error(limit: float) -> AbstractContextManager[object]:
    """Abort the connections of a block that does not end well: nothing of it arrives later.

    Args:
        limit: seconds that the block may take. What the peer's kernel has not
            acknowledged by then is dropped by ours, even if this process does not run.
    """
    return _Call(asyncio.get_running_loop().time() + limit)


def settle_answered() -> None:
    """Keep the connections of the block around: an answer has been read to its end.

    However the block ends then, nothing of it is queued. Outside of a block it does nothing.
    """
    call = _CALL.get()
    if call is not None:
        call.settle()


def _set(transport: asyncio.Transport, linger: bytes, milliseconds: int) -> None:
    """Set what the kernel does with the queue."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    if connection is None:
        return
    with contextlib.suppress(OSError, ValueError):  # closed meanwhile
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        user = socket.TCP_USER_TIMEOUT
        connection.setsockopt(socket.IPPROTO_TCP, user, milliseconds)
