"""An HTTP server on a real socket that answers as its script says, faults included.

It stands for what stands between us and an API server on a bad day: proxies, restarts,
broken networks. What a good API server does is tested on a real one.
"""

import asyncio

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

import attrs
import msgspec

from lbcf.kube.connection import Connection


@attrs.frozen
class Received:
    """A request as it came in."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> object:
        """Return the body's value."""
        return msgspec.json.decode(self.body)


@attrs.frozen
class Answer:
    """What to answer.

    Attributes:
        chunks: the body, sent piece by piece.
        ending: `close` ends the answer well, `cut` drops the connection, `hang` says
            no more; a `hang` without chunks and headers does not answer at all.
    """

    status: int = 200
    chunks: tuple[bytes, ...] = ()
    content_type: str = "application/json"
    headers: Mapping[str, str] = attrs.Factory(dict)
    ending: Literal["close", "cut", "hang"] = "close"


def answer(value: object, status: int = 200, **headers: str) -> Answer:
    """Answer with JSON; `Retry_After="1"` is a header."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(status, (msgspec.json.encode(value),), headers=named)


def refusal(code: int, reason: str, message: str = "", **headers: str) -> Answer:
    """Answer with a `Status`."""
    return answer(a_status(code, reason, message), code, **headers)


def page(status: int, content_type: str = "text/html") -> Answer:
    """Answer as a proxy does: with a page for people."""
    text = b"<html><h1>internal name: db7.intern</h1></html>\n"
    return Answer(status, (text,), content_type=content_type)


def a_status(code: int, reason: str, message: str = "") -> dict[str, object]:
    """Make a failed `Status` about an object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": {"name": "web"},
    }


def watch(*events: object, ending: Literal["close", "cut", "hang"] = "close") -> Answer:
    """Answer a watch with these events, each a chunk; bytes are sent as they are."""
    chunks = tuple(
        event if isinstance(event, bytes) else msgspec.json.encode(event) + b"\n"
        for event in events
    )
    return Answer(200, chunks, ending=ending)


class ScriptedServer:
    """Gives one answer of the script per request; after the last it hangs."""

    def __init__(self) -> None:
        self.host = ""
        self.requests: list[Received] = []
        self.connections = 0
        self.done = asyncio.Event()
        self._script: deque[Answer] = deque()

    @property
    def connection(self) -> Connection:
        """Return the way to it."""
        return Connection(self.host)

    def script(self, *answers: Answer) -> None:
        """Say what comes next; `done` is set when a request finds no answer left."""
        self._script.extend(answers)
        self.done.clear()

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one connection."""
        self.connections += 1
        try:
            while (received := await _receive(reader)) is not None:
                self.requests.append(received)
                if not self._script:
                    self.done.set()
                    await asyncio.Event().wait()
                if not await _give(self._script.popleft(), writer):
                    return
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


async def _receive(reader: asyncio.StreamReader) -> Received | None:
    """Read a request; None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode().strip().split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.split(": ", 1) for line in lines)
    headers = {name.lower(): value for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return Received(method, parts.path, dict(parse_qsl(parts.query)), headers, body)


async def _give(given: Answer, writer: asyncio.StreamWriter) -> bool:
    """Send an answer; False when the connection is not to be used again."""
    if given.chunks or given.ending == "close":
        headers = {
            "Content-Type": given.content_type,
            "Transfer-Encoding": "chunked",
            **given.headers,
        }
        lines = [f"HTTP/1.1 {given.status} {HTTPStatus(given.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
    for chunk in given.chunks:
        writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        await writer.drain()
    if given.ending == "hang":
        await asyncio.Event().wait()
    if given.ending == "close":
        writer.write(b"0\r\n\r\n")
        await writer.drain()
    return given.ending == "close"


@asynccontextmanager
async def running() -> AsyncIterator[ScriptedServer]:
    """Run one on a free port of the loopback."""
    scripted = ScriptedServer()
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(scripted.serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    scripted.host = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield scripted
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
