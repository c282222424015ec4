"""Requests over HTTP/2, and streams of gRPC, as `exchange` sends those of HTTP/1.1.

Nothing is tried twice here either.
"""

import asyncio
import threading
import time

import grpc

from tests.envoy.streams import CutError, Stream
from tests.lab.demo.answer import FailedError, Failure, pod_of
from tests.lab.demo.exchange import Order, Outcome, Protocol, carried_out
from tests.lab.demo.http2 import Http2Connection


BETWEEN = 0.5
"""Seconds between two messages of a stream."""
CHANNEL = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
"""Each channel has a connection of its own: none waits until another tries again."""


class Multiplexed:
    """Sends orders to one address.

    Those over HTTP/2 share a connection; a stream of gRPC has one of its own.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection: Http2Connection | None = None
        self._opening = asyncio.Lock()
        self._beside = asyncio.new_event_loop()
        threading.Thread(target=self._beside.run_forever, daemon=True).start()

    async def send(self, order: Order) -> Outcome:
        """Carry one order out; never raises for what the other side does."""
        if order.protocol is Protocol.HTTP2:
            return await carried_out(order, self._exchange)
        # grpc.aio needs several turns of its loop for each message: where that sends all
        # other requests of a busy machine, streams came to a stand for ten seconds.
        talk = carried_out(order, self._talk)
        running = asyncio.run_coroutine_threadsafe(talk, self._beside)
        return await asyncio.wrap_future(running)

    def close(self) -> None:
        """Close the connection, and have no further streams."""
        self._beside.call_soon_threadsafe(self._beside.stop)
        if self._connection is not None:
            self._connection.close()

    async def _exchange(self, order: Order) -> str:
        """Send and receive; the answering pod's name.

        Raises:
            FailedError: the request failed.
        """
        async with self._opening:
            if self._connection is None or not self._connection.is_open:
                host, _, port = self._address.rpartition(":")
                self._connection = await Http2Connection.to(host, int(port))
        return pod_of(await self._connection.get(order.path))

    async def _talk(self, order: Order) -> str:
        """Have a stream for as long as the order asks for; the answering pod's name.

        Raises:
            FailedError: the stream ended before this end of it did, or badly.
        """
        end = time.monotonic() + order.asked
        pod = ""
        async with grpc.aio.insecure_channel(self._address, CHANNEL) as channel:
            stream = Stream.begin(channel)
            try:
                pod = await stream.ask()
                while time.monotonic() < end:
                    await asyncio.sleep(BETWEEN)
                    await stream.ask()
                await stream.end()
            except CutError as error:
                kind = Failure.TRUNCATED if pod else Failure.RESET
                raise FailedError(kind, error.status, pod) from error
        return pod
