"""One line to a HAProxy, its whole answer back, over a connection of its own.

The lowest part of the driver; `runtime_api` composes the lines and reads the answers.

Why so plain (measured on HAProxy 2.6.12): a line that arrives in three or more pieces
is often never answered and holds one of the ten slots of the runtime API for ever; an
answer ends with one blank line, or two, or none, so that only the end of the stream
tells; a connection that is kept talks to the old process after a reload.
"""

import asyncio

from datetime import timedelta

import attrs

from webhooks.haproxy.endpoints import Endpoint
from webhooks.haproxy.errors import InvalidInput, NoAnswer, Unreachable, Unreadable


LONGEST_LINE = 4096
"""Bytes on a unix socket; HAProxy 2.6.12 hangs at times above 15360."""

LONGEST_TCP_LINE = 1400
"""Bytes on TCP: what goes into one segment arrives in one piece."""


@attrs.frozen
class Limits:
    """How long and how much one answer may be.

    Attributes:
        patience: from the start of connecting to the end of the answer.
        most: bytes; HAProxy 3.2.0 answers a line that is too long without end.
    """

    patience: timedelta = timedelta(seconds=3)
    most: int = 16 * 1024 * 1024


async def exchange(endpoint: Endpoint, line: str, limits: Limits) -> str:
    """Send one line, without its end, and return all that comes back.

    Raises:
        InvalidInput: the line is longer than HAProxy can take; nothing was sent.
        Unreachable: no connection.
        NoAnswer: the answer is not complete in time; the line may take effect yet.
        Unreadable: the answer is too long.
    """
    sent = _checked(endpoint, line)
    try:
        async with asyncio.timeout(limits.patience.total_seconds()):
            return await _conversation(endpoint, sent, limits.most)
    except TimeoutError as error:
        seconds = limits.patience.total_seconds()
        raise NoAnswer(
            f"HAProxy at {endpoint} did not answer within {seconds:g} s: it hangs, or "
            "all slots of its runtime API are taken (`stats maxconn`, default 10)"
        ) from error


def longest_line(endpoint: Endpoint) -> int:
    """Return how many bytes a line may have, with its end."""
    return LONGEST_LINE if endpoint.is_unix else LONGEST_TCP_LINE


def _checked(endpoint: Endpoint, line: str) -> bytes:
    """Return the bytes of a line that is safe to send."""
    sent = line.encode("ascii", errors="replace") + b"\n"
    longest = longest_line(endpoint)
    if len(sent) > longest:
        raise InvalidInput(
            f"a command of {len(sent)} bytes: at most {longest} are safe"
        )
    if not line.isprintable() or not line.isascii():
        raise InvalidInput(f"a command must be one line of ASCII: {line!r:.80}")
    return sent


async def _conversation(endpoint: Endpoint, sent: bytes, most: int) -> str:
    """Connect, send the line at once, read until HAProxy closes."""
    try:
        reader, writer = await _opened(endpoint)
    except OSError as error:
        raise Unreachable(
            f"HAProxy at {endpoint} cannot be reached ({error.strerror or error}): "
            "is it running, and is this its `stats socket`?"
        ) from error
    try:
        # The buffer of a fresh socket takes all of a short line: one write, one piece.
        writer.write(sent)
        return await _all_of(reader, endpoint, most)
    except OSError as error:
        raise NoAnswer(f"HAProxy at {endpoint} hung up: {error}") from error
    finally:
        writer.close()


async def _opened(
    endpoint: Endpoint,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if endpoint.is_unix:
        return await asyncio.open_unix_connection(endpoint.path)
    return await asyncio.open_connection(endpoint.host, endpoint.port)


async def _all_of(reader: asyncio.StreamReader, endpoint: Endpoint, most: int) -> str:
    """Read until the end of the stream.

    Raises:
        NoAnswer: it ended before the answer did: every answer ends with a line end.
        Unreadable: too long.
    """
    pieces: list[bytes] = []
    length = 0
    while piece := await reader.read(65536):
        pieces.append(piece)
        length += len(piece)
        if length > most:
            raise Unreadable(f"HAProxy at {endpoint} answered more than {most} bytes")
    if not pieces:
        raise NoAnswer(f"HAProxy at {endpoint} hung up without an answer")
    answer = b"".join(pieces).decode("utf-8", errors="replace")
    if not answer.endswith("\n"):
        raise NoAnswer(f"HAProxy at {endpoint} hung up in the middle of an answer")
    return answer
