"""Servers and clients of gRPC: streams that go on for as long as the client likes."""

import contextlib

from collections.abc import AsyncIterator
from typing import Any, Self

import attrs
import grpc


METHOD = "/test.Echo/Talk"


@attrs.define(eq=False)
class GrpcServer:
    """Answers each message of a stream with its own name.

    Attributes:
        name: of it.
        address: where it listens.
    """

    name: str
    address: str
    _server: Any

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, name: str, host: str) -> AsyncIterator[Self]:
        """Serve for a block."""

        async def talk(
            messages: AsyncIterator[bytes], _: object
        ) -> AsyncIterator[bytes]:
            async for _message in messages:
                yield name.encode()

        handler = grpc.stream_stream_rpc_method_handler(talk)
        methods = grpc.method_handlers_generic_handler("test.Echo", {"Talk": handler})
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((methods,))
        port = server.add_insecure_port(f"{host}:0")
        await server.start()
        try:
            yield cls(name, f"{host}:{port}", server)
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
        """Send a message; return who answered."""
        await self._call.write(b"who")
        return str((await self._call.read()).decode())

    async def end(self) -> None:
        """Say that nothing more comes, and see the stream end well."""
        await self._call.done_writing()
        assert await self._call.read() is grpc.aio.EOF
        assert await self._call.code() is grpc.StatusCode.OK
