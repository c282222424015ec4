"""A connection of HTTP/2 with many requests on it, each with a verdict of its own.

On h2 alone: a client with a pool of connections was too slow, and had requests wait for ten
seconds before they were sent.
"""

import asyncio

from typing import Self

import attrs

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import ProtocolError

from tests.lab.demo.answer import FailedError, Failure


@attrs.define(eq=False)
class _Answer:
    """What has come of one answer.

    Attributes:
        done: set when it is whole, or is not going to be.
        status: of it; 0: nothing has come.
        body: of it.
        whole: nothing is missing.
    """

    done: asyncio.Event = attrs.field(factory=asyncio.Event)
    status: int = 0
    body: bytes = b""
    whole: bool = False


class Http2Connection(asyncio.Protocol):
    """One connection, without TLS.

    Attributes:
        is_open: whether it may carry another request.
    """

    def __init__(self) -> None:
        self._http = H2Connection(H2Configuration())
        self._answers: dict[int, _Answer] = {}
        self._transport: asyncio.WriteTransport | None = None
        self.is_open = True

    @classmethod
    async def to(cls, host: str, port: int) -> Self:
        """Open one.

        Raises:
            FailedError: it was refused, or nobody is there.
        """
        loop = asyncio.get_running_loop()
        try:
            return (await loop.create_connection(cls, host, port))[1]
        except OSError as error:
            raise FailedError(Failure.CONNECT) from error

    async def get(self, path: str) -> bytes:
        """Ask for something; return the body of a complete answer with status 200.

        Raises:
            FailedError: whatever else came.
        """
        stream = self._http.get_next_available_stream_id()
        pseudo = ((":method", "GET"), (":scheme", "http"), (":path", path))
        answer = self._answers[stream] = _Answer()
        try:
            self._http.send_headers(
                stream, [*pseudo, (":authority", "demo")], end_stream=True
            )
            self._flush()
            await answer.done.wait()
        finally:
            del self._answers[stream]
        if answer.status not in {0, 200}:
            raise FailedError(Failure.STATUS, answer.status)
        if not answer.whole:
            raise FailedError(Failure.TRUNCATED if answer.status else Failure.RESET)
        return answer.body

    def close(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say that HTTP/2 is spoken."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._http.initiate_connection()
        self._flush()

    def connection_lost(self, _: Exception | None) -> None:
        """Have all fail that is under way."""
        self.is_open = False
        for answer in self._answers.values():
            answer.done.set()

    def data_received(self, data: bytes) -> None:
        """Take in what came."""
        try:
            events = self._http.receive_data(data)
        except ProtocolError:
            self.is_open = False
            self.close()
            return
        for event in events:
            self._take(event)
        self._flush()

    def _take(self, event: Event) -> None:
        """Take in one event; of a request that was given up there is nothing to take."""
        if isinstance(event, ConnectionTerminated):
            self.is_open = False
            self.close()
        if isinstance(event, DataReceived):
            length = event.flow_controlled_length
            self._http.acknowledge_received_data(length, event.stream_id)
        answer = self._answers.get(getattr(event, "stream_id", 0))
        if answer is None:
            return
        if isinstance(event, ResponseReceived):
            answer.status = int(dict(event.headers)[b":status"])
        elif isinstance(event, DataReceived):
            answer.body += event.data
        elif isinstance(event, StreamEnded | StreamReset):
            answer.whole = isinstance(event, StreamEnded)
            answer.done.set()

    def _flush(self) -> None:
        """Send what is to be sent."""
        if self._transport is not None:
            self._transport.write(self._http.data_to_send())
