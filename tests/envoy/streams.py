"""Servers and clients of gRPC: streams that go on for as long as the client likes."""

import asyncio
import contextlib

from collections.abc import AsyncIterator
from typing import Any, Self

import attrs
import grpc


METHOD = "/test.Echo/Talk"


class CutError(Exception):
    """A stream ended before its client ended it, or not well.

    Attributes:
        status: the number of the status that it ended with.
    """

    def __init__(self, code: grpc.StatusCode, details: str | None) -> None:
        super().__init__(f"{code.name}: {details}")
        self.status = int(code.value[0])


@attrs.define(eq=False)
class GrpcServer:
    """Answers each message of a stream with its own name.

    Attributes:
        name: of it.
        address: where it listens.
        answered: set once it has answered a message.
    """

    name: str
    address: str
    answered: asyncio.Event
    _server: Any

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, name: str, host: str) -> AsyncIterator[Self]:
        """Serve for a block."""
        answered = asyncio.Event()

        async def talk(
            messages: AsyncIterator[bytes], _: object
        ) -> AsyncIterator[bytes]:
            async for _message in messages:
                yield name.encode()
                answered.set()

        handler = grpc.stream_stream_rpc_method_handler(talk)
        methods = grpc.method_handlers_generic_handler("test.Echo", {"Talk": handler})
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((methods,))
        port = server.add_insecure_port(f"{host}:0")
        await server.start()
        try:
            yield cls(name, f"{host}:{port}", answered, server)
        finally:
            await server.stop(None)

    async def stop(self) -> None:
        """End it at once, as a pod ends that was let go."""
        await self._server.stop(None)


@attrs.define(eq=False)
class Stream:
    """A stream of a client."""

    _call: Any

    @classmethod
    def begin(cls, channel: Any) -> Self:
        """Begin one, on a connection that others may use, too."""
        return cls(channel.stream_stream(METHOD)())

    async def ask(self) -> str:
        """Send a message; return who answered.

        Raises:
            CutError: the stream is at its end.
        """
        # What went wrong says its status.
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            await self._call.write(b"who")
            answer = await self._call.read()
            if answer is not grpc.aio.EOF:
                return str(answer.decode())
        raise await self._cut()

    async def end(self) -> None:
        """Say that nothing more comes, and see the stream end well.

        Raises:
            CutError: it did not.
        """
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            await self._call.done_writing()
            is_over = await self._call.read() is grpc.aio.EOF
            if is_over and await self._call.code() is grpc.StatusCode.OK:
                return
        raise await self._cut()

    async def _cut(self) -> CutError:
        """Return how it ended."""
        self._call.cancel()  # an answer too many does not end it
        return CutError(await self._call.code(), await self._call.details())
