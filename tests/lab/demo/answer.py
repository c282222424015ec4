"""Reading one HTTP answer, strictly.

`exchange` sends; this module reads what comes back and says what kind of failure it is
unless it is a complete answer with status 200 that says how long it is.
"""

import asyncio
import enum
import socket

import attrs


READ_SIZE = 16384


class Failure(enum.StrEnum):
    """How a request may fail."""

    CONNECT = "connect"
    """No connection: refused, unreachable."""
    RESET = "reset"
    """The connection ended before the first byte of an answer."""
    STATUS = "status"
    """An answer with a status other than 200."""
    TRUNCATED = "truncated"
    """The connection ended inside an answer."""
    GARBAGE = "garbage"
    """Bytes that are no answer, or more of them than were announced."""
    TIMEOUT = "timeout"
    """No complete answer within the request's time."""


class FailedError(Exception):
    """A request failed.

    Attributes:
        kind: how.
        status: the answer's status, 0 where there was none.
        pod: the member that the answer names, empty where it names none.
    """

    def __init__(self, kind: Failure, status: int = 0, pod: str = "") -> None:
        super().__init__(f"{kind} {status}".strip())
        self.kind = kind
        self.status = status
        self.pod = pod


@attrs.frozen
class Reply:
    """A complete answer with status 200: who gave it, and may the connection be kept."""

    pod: str
    keep: bool


@attrs.frozen
class Head:
    """The head of an answer: status, length of the body in bytes, and the rest."""

    status: int
    length: int
    keep: bool
    member: str


def parse_head(text: bytes) -> Head:
    """Read status line and headers.

    Raises:
        FailedError: garbage, if it is no HTTP/1 head that states its length.
    """
    lines = text.decode("latin-1").split("\r\n")
    words = lines[0].split(" ", 2)
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    try:
        if not words[0].startswith("HTTP/1."):
            raise FailedError(Failure.GARBAGE)
        status, length = int(words[1]), int(headers.get("content-length", "-1"))
    except (IndexError, ValueError) as error:
        raise FailedError(Failure.GARBAGE) from error
    if status == 200 and length < 0:
        raise FailedError(Failure.GARBAGE, status)
    keep = headers.get("connection", "").lower() != "close"
    return Head(status, length, keep, headers.get("x-member", ""))


def pod_of(body: bytes) -> str:
    """Name the pod that wrote this body: `pod=NAME ...` or `done NAME`."""
    words = body.decode("latin-1").split()
    if len(words) > 1 and words[0] == "done":
        return words[1]
    return words[0].partition("pod=")[2] if words else ""


async def receive(sock: socket.socket) -> Reply:
    """Read one complete answer.

    Raises:
        FailedError: whatever is not a complete 200.
    """
    loop = asyncio.get_running_loop()
    got = b""
    while (end := got.find(b"\r\n\r\n")) < 0:
        got += await _more(loop, sock, started=bool(got))
    head = parse_head(got[:end])
    if head.status != 200:
        raise FailedError(Failure.STATUS, head.status, head.member)
    body = got[end + 4 :]
    while len(body) < head.length:
        body += await _more(loop, sock, started=True)
    if len(body) > head.length:
        raise FailedError(Failure.GARBAGE, head.status, head.member)
    return Reply(pod_of(body), head.keep)


async def _more(
    loop: asyncio.AbstractEventLoop, sock: socket.socket, *, started: bool
) -> bytes:
    """Read what is there; the end of the connection is a failure here.

    Raises:
        FailedError: reset before the first byte of the answer, else truncated.
    """
    kind = Failure.TRUNCATED if started else Failure.RESET
    try:
        more = await loop.sock_recv(sock, READ_SIZE)
    except OSError as error:
        raise FailedError(kind) from error
    if not more:
        raise FailedError(kind)
    return more


def is_open(sock: socket.socket) -> bool:
    """Tell whether an idle connection may carry another request.

    Raises:
        FailedError: it was reset, or bytes came that nobody asked for.
    """
    try:
        waiting = sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError as error:
        raise FailedError(Failure.RESET) from error
    if waiting:
        raise FailedError(Failure.GARBAGE)
    return False
