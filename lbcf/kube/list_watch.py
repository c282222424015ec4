"""Answers to list and watch requests: pages of objects, and events of a stream.

`client` asks, `informer` puts what comes into a `store`. A page that lacks its list or its
version is an error. An object that cannot be read is named as `Unreadable`, never left
out: whoever decides about it must hold. ERROR and BOOKMARK events never reach the decoder
of the kind.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Final, Generic, TypeVar

import attrs
import msgspec

from lbcf.kube.errors import (
    KubeError,
    Unavailable,
    UnreadableAnswer,
    error_of,
    read_status,
)
from lbcf.kube.kinds import HasMeta, Resource
from lbcf.wire.errors import Malformed
from lbcf.wire.metadata import Identity, identify, version_of


T = TypeVar("T", bound=HasMeta)


@attrs.frozen
class Selection:
    """Which objects of a kind.

    Attributes:
        namespace: None for all.
        labels: a label selector as in kubectl, empty for all.
        fields: a field selector as in kubectl, empty for all.
    """

    namespace: str | None = None
    labels: str = ""
    fields: str = ""

    def query(self) -> dict[str, str]:
        """Render the selectors as parameters."""
        query = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in query.items() if value}


EVERYTHING = Selection()


@attrs.frozen
class Unreadable:
    """An object that exists but cannot be read.

    Attributes:
        identity: which one, in the version that cannot be read.
        message: what is wrong with it.
    """

    identity: Identity
    message: str


@attrs.frozen
class Page(Generic[T]):
    """A part of a list, or a whole one.

    Attributes:
        objects: those that could be read, in the server's order.
        unreadable: the others.
        version: resourceVersion of the list, where a watch begins.
        rest: the token for what follows, empty at the end.
    """

    objects: tuple[T, ...]
    unreadable: tuple[Unreadable, ...]
    version: str
    rest: str = ""


class _ListMeta(msgspec.Struct):
    """Metadata of a list; without a version it is none."""

    version: str = msgspec.field(name="resourceVersion")
    rest: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    """A list whose objects are still JSON; Go writes an empty one as null at times."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None


_decode = msgspec.json.Decoder(_List).decode


@attrs.frozen
class Answer:
    """The answer to a list request, its objects still unread.

    Attributes:
        bodies: the JSON of each object.
        version: resourceVersion of the list, where a watch begins.
        rest: the token for what follows, empty at the end.
    """

    bodies: Sequence[msgspec.Raw]
    version: str
    rest: str

    def read(self, resource: Resource[T]) -> Page[T]:
        """Read the objects.

        Raises:
            UnreadableAnswer: an object without even a name.
        """
        try:
            objects, unreadable = read_each(resource, map(bytes, self.bodies))
        except (msgspec.DecodeError, UnicodeDecodeError, Malformed) as error:
            raise UnreadableAnswer(f"list of {resource.plural}: {error}") from error
        return Page(objects, unreadable, self.version, self.rest)


def open_answer(plural: str, body: bytes) -> Answer:
    """Read what the answer to a list request says of the list itself.

    Raises:
        UnreadableAnswer: no list, or no version.
    """
    try:
        found = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableAnswer(f"list of {plural}: {error}") from error
    if not found.metadata.version:
        raise UnreadableAnswer(f"list of {plural}: it has no resourceVersion")
    return Answer(found.items or (), found.metadata.version, found.metadata.rest)


def read_each(
    resource: Resource[T], bodies: Iterable[bytes]
) -> tuple[tuple[T, ...], tuple[Unreadable, ...]]:
    """Parse objects one by one; what cannot be read does not spoil the others.

    Raises:
        Malformed: one that does not even say which object it is.
    """
    objects: list[T] = []
    unreadable: list[Unreadable] = []
    for body in bodies:
        try:
            objects.append(resource.parse(body))
        except Malformed as error:
            unreadable.append(Unreadable(identify(body), str(error)))
    return tuple(objects), tuple(unreadable)


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


class _WatchLine(msgspec.Struct):
    """One event; its object is still JSON."""

    type: str
    object: msgspec.Raw


_decode_line = msgspec.json.Decoder(_WatchLine).decode
_UNTOLD = 500


def parse_event(resource: Resource[T], line: bytes) -> Event[T]:
    """Read one line of a watch.

    Raises:
        BadAnswer: no event, or one of a type that nobody knows.
        KubeError: what the ERROR event says, `Expired` above all.
    """
    try:
        event = _decode_line(line)
        return _event(resource, event.type, bytes(event.object))
    except (msgspec.DecodeError, UnicodeDecodeError, Malformed) as error:
        raise UnreadableAnswer(f"watch of {resource.plural}: {error}") from error


def _event(resource: Resource[T], kind: str, body: bytes) -> Event[T]:
    """Read the object as its event's type demands."""
    match kind:
        case "ADDED" | "MODIFIED":
            return _put_event(resource, body)
        case "DELETED":
            return Removed(identify(body))
        case "BOOKMARK":
            return Bookmark(version_of(body))
        case "ERROR":
            raise _error_event(resource, body)
        case _:
            raise Malformed(f"unknown event {kind[:32]!r}")


def _put_event(resource: Resource[T], body: bytes) -> Event[T]:
    try:
        return Put(resource.parse(body))
    except Malformed as error:
        return Obscured(Unreadable(identify(body), str(error)))


def _error_event(resource: Resource[T], body: bytes) -> KubeError:
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
            raise UnreadableAnswer(f"watch: a line of more than {limit} bytes")
    if rest:
        raise Unavailable("watch: cut in the middle of a line", sent=True)
