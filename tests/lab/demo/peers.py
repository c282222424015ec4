"""A small server that misbehaves on purpose, for the tests of the load generator."""

import asyncio
import contextlib
import socket
import struct

from collections.abc import AsyncIterator, Awaitable, Callable

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived


Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npod=a\n"


@contextlib.asynccontextmanager
async def serving(behaviour: Behaviour) -> AsyncIterator[int]:
    """A server on the loopback that treats each connection so; yields its port."""

    async def treat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behaviour(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went first
        finally:
            writer.close()

    server = await asyncio.start_server(treat, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def request(reader: asyncio.StreamReader) -> None:
    """Read one request."""
    await reader.readuntil(b"\r\n\r\n")


def answering(*answers: bytes) -> Behaviour:
    """Answer the requests of a connection in turn, then close it."""

    async def behave(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for answer in answers:
            await request(reader)
            writer.write(answer)
            await writer.drain()

    return behave


async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request after a while."""
    while True:
        await request(reader)
        await asyncio.sleep(0.1)
        writer.write(GOOD)


def resetting(*answers: bytes) -> Behaviour:
    """Answer in turn; the request after that is met with a reset."""

    async def behave(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await answering(*answers)(reader, writer)
        await request(reader)
        reset(writer)

    return behave


async def hanging(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Begin an answer and never end it."""
    await request(reader)
    writer.write(GOOD[:-3])
    await reader.read()


def over_http2(status: int, body: bytes, *, cut: bool = False) -> Behaviour:
    """Answer all requests of a connection over HTTP/2; or end the stream before its end."""

    async def behave(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = H2Connection(H2Configuration(client_side=False))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        while data := await reader.read(1 << 16):
            for event in connection.receive_data(data):
                if not isinstance(event, RequestReceived):
                    continue
                stream = event.stream_id
                if status:
                    connection.send_headers(stream, [(":status", str(status))])
                    connection.send_data(stream, body, end_stream=not cut)
                if cut:
                    connection.reset_stream(stream)
            writer.write(connection.data_to_send())

    return behave


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with a reset in place of a close."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
