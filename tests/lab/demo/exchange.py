"""One request, and a strict verdict on what came back; HTTP/1.1 over a raw socket.

`load` decides what is asked and when; this module carries one request out and says how
it ended; `multiplexed` does so over HTTP/2. A request succeeded only if a complete answer
with status 200 arrived in time. Everything else is a failure, with one of the kinds in
`answer`; nothing is tried twice.

The one thing that is no failure: a kept connection that the other side closed cleanly
while it lay idle. That is seen before a request is sent on it (`is_open`), as every
client does that keeps connections, and no request is lost by it. A close that crosses
the request on its way is counted as a failure (`reset`), although RFC 9112 9.3.1 lets
clients repeat such a request: a demo must not repair what it is to measure.
"""

import asyncio
import enum
import socket
import time

from collections.abc import Awaitable, Callable

import attrs

from tests.lab.demo.answer import FailedError, Failure, is_open, receive


class Protocol(enum.StrEnum):
    """What a request is sent in."""

    HTTP1 = "http1"
    HTTP2 = "http2"
    GRPC = "grpc"
    """A stream, which counts as one request from its first message to its end."""


@attrs.frozen
class Order:
    """What is asked.

    Attributes:
        path: path and query.
        fresh: on a new connection that is closed afterwards; else on a kept one.
        asked: seconds that the app was asked to take.
        limit: seconds after which the request counts as failed.
        protocol: what it is sent in.
    """

    path: str
    fresh: bool
    asked: float
    limit: float
    protocol: Protocol = Protocol.HTTP1


@attrs.frozen
class Outcome:
    """How one request went.

    Attributes:
        sent: moment of sending, seconds of the machine's monotonic clock.
        took: seconds until the complete answer, or until the failure.
        order: what was asked.
        status: the answer's status, 0 where there was none.
        failure: kind of failure; None for a success.
        pod: name of the pod that answered, as far as the answer says.
    """

    sent: float
    took: float
    order: Order
    status: int
    failure: Failure | None
    pod: str


async def carried_out(
    order: Order, exchange: Callable[[Order], Awaitable[str]]
) -> Outcome:
    """Carry one order out; never raises for what the other side does.

    Args:
        order: what is asked.
        exchange: returns the name of the pod that answered, or raises `FailedError`.
    """
    sent = time.monotonic()
    failure, status, pod = None, 200, ""
    try:
        async with asyncio.timeout(order.limit):
            pod = await exchange(order)
    except TimeoutError:
        failure, status = Failure.TIMEOUT, 0
    except FailedError as error:
        failure, status, pod = error.kind, error.status, error.pod
    took = time.monotonic() - sent
    return Outcome(sent, took, order, status, failure, pod)


class Client:
    """Sends orders to one address, keeping connections between them.

    Attributes:
        idle_closed: kept connections that the other side closed while idle.
    """

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._idle: list[socket.socket] = []
        self.idle_closed = 0

    async def send(self, order: Order) -> Outcome:
        """Carry one order out; never raises for what the other side does."""
        return await carried_out(order, self._exchange)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    async def _exchange(self, order: Order) -> str:
        """Send and receive on one connection; the answering pod's name.

        Raises:
            FailedError: the request failed.
        """
        sock = await self._connection(order)
        kept = False
        try:
            await self._write(sock, order)
            reply = await receive(sock)
            kept = reply.keep and not order.fresh
        finally:
            if kept:
                self._idle.append(sock)
            else:
                sock.close()
        return reply.pod

    async def _write(self, sock: socket.socket, order: Order) -> None:
        """Send the request's bytes.

        Raises:
            FailedError: the connection ended under it.
        """
        line = "close" if order.fresh else "keep-alive"
        head = f"GET {order.path} HTTP/1.1\r\nHost: demo\r\nConnection: {line}\r\n\r\n"
        try:
            await asyncio.get_running_loop().sock_sendall(sock, head.encode())
        except OSError as error:
            raise FailedError(Failure.RESET) from error

    async def _connection(self, order: Order) -> socket.socket:
        """Take an idle connection that is still open, or make a new one.

        Raises:
            FailedError: no connection can be had, or an idle one was broken.
        """
        while self._idle and not order.fresh:
            sock = self._idle.pop()
            try:
                alive = is_open(sock)
            except FailedError:
                sock.close()
                raise
            if alive:
                return sock
            sock.close()
            self.idle_closed += 1
        return await self._connect()

    async def _connect(self) -> socket.socket:
        """Open a connection.

        Raises:
            FailedError: it was refused or is unreachable.
        """
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.get_running_loop().sock_connect(sock, self._address)
        except OSError as error:
            sock.close()
            raise FailedError(Failure.CONNECT) from error
        except asyncio.CancelledError:
            sock.close()
            raise
        return sock
