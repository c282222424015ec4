"""Takes a watch apart: chunks into lines, lines into events.

`client.watch` brings the chunks, `informer` applies the events. ERROR and BOOKMARK never
reach the decoder of the kind, and an object it cannot read is an event like the others.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final, Generic, TypeVar

import attrs
import msgspec

from lbcf.kube import metadata
from lbcf.kube.errors import BadAnswer, KubeError, Unavailable, error_of, read_status
from lbcf.kube.metadata import Identity
from lbcf.kube.pages import Unreadable
from lbcf.kube.resource import HasMeta, Resource
from lbcf.wire.errors import Malformed


T = TypeVar("T", bound=HasMeta)

LINE_LIMIT: Final = 2**23
"""Bytes of one line; etcd takes objects of at most 1.5 MiB, so that a longer line than
this is no event, and nobody shall fill our memory with it."""


@attrs.frozen
class Put(Generic[T]):
    """An object came into being, or changed.

    Attributes:
        value: as it is now.
    """

    value: T


@attrs.frozen
class Removed:
    """An object is gone, or no longer in the selection.

    Attributes:
        identity: which one, in the version of its going.
    """

    identity: Identity


@attrs.frozen
class Obscured:
    """An object came into being, or changed, and cannot be read.

    Attributes:
        unreadable: which one, and what is wrong.
    """

    unreadable: Unreadable


@attrs.frozen
class Bookmark:
    """Nothing happened up to this version.

    Attributes:
        version: where the next watch may begin.
    """

    version: str


Event = Put[T] | Removed | Obscured | Bookmark


class _Line(msgspec.Struct):
    """One event; its object is still JSON."""

    type: str
    object: msgspec.Raw


_decode = msgspec.json.Decoder(_Line).decode
_UNTOLD = 500


def parse_event(resource: Resource[T], line: bytes) -> Event[T]:
    """Read one line of a watch.

    Raises:
        BadAnswer: no event, or one of a type that nobody knows.
        KubeError: what the ERROR event says, `Gone` above all.
    """
    try:
        event = _decode(line)
        return _event(resource, event.type, bytes(event.object))
    except (msgspec.DecodeError, UnicodeDecodeError, Malformed) as error:
        raise BadAnswer(f"watch of {resource.plural}: {error}") from error


def _event(resource: Resource[T], kind: str, body: bytes) -> Event[T]:
    """Read the object as its event's type demands."""
    match kind:
        case "ADDED" | "MODIFIED":
            return _put(resource, body)
        case "DELETED":
            return Removed(metadata.identify(body))
        case "BOOKMARK":
            return Bookmark(metadata.version_of(body))
        case "ERROR":
            raise _told(resource, body)
        case _:
            raise Malformed(f"unknown event {kind[:32]!r}")


def _put(resource: Resource[T], body: bytes) -> Event[T]:
    """Read an object that is there."""
    try:
        return Put(resource.parse(body))
    except Malformed as error:
        return Obscured(Unreadable(metadata.identify(body), str(error)))


def _told(resource: Resource[T], body: bytes) -> KubeError:
    """Turn the Status of an ERROR event into the error it stands for."""
    status = read_status(body)
    code = status.code if status and status.code else _UNTOLD
    return error_of(f"watch of {resource.plural}", code, body)


async def lines_of(
    chunks: AsyncIterator[bytes], limit: int = LINE_LIMIT
) -> AsyncGenerator[bytes, None]:
    """Cut chunks into lines, without their ends.

    Raises:
        BadAnswer: a line is longer than the limit.
        Unavailable: the peer closed in the middle of a line.
    """
    rest = bytearray()
    async for chunk in chunks:
        head, *others = chunk.split(b"\n")
        rest += head
        for part in others:
            if rest:
                yield bytes(rest)
            rest = bytearray(part)
        if len(rest) > limit:
            raise BadAnswer(f"watch: a line of more than {limit} bytes")
    if rest:
        raise Unavailable("watch: cut in the middle of a line", sent=True)
