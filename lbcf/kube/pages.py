"""Lists: what is asked for, and one page of what comes back.

`client` asks for pages, `informer` puts them into a `store`. A page that lacks its list
or its version is no answer; an object that cannot be read is named, never left out.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

import attrs
import msgspec

from lbcf.kube import metadata
from lbcf.kube.errors import BadAnswer
from lbcf.kube.metadata import Identity
from lbcf.kube.resource import HasMeta, Resource
from lbcf.wire.errors import Malformed


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


def read_page(resource: Resource[T], body: bytes) -> Page[T]:
    """Read the answer to a list request.

    Raises:
        BadAnswer: no list, no version, or an object without even a name.
    """
    try:
        found = _decode(body)
        bodies = (bytes(item) for item in found.items or ())
        objects, unreadable = read_each(resource, bodies)
    except (msgspec.DecodeError, UnicodeDecodeError, Malformed) as error:
        raise BadAnswer(f"list of {resource.plural}: {error}") from error
    if not found.metadata.version:
        raise BadAnswer(f"list of {resource.plural}: it has no resourceVersion")
    return Page(objects, unreadable, found.metadata.version, found.metadata.rest)


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
            unreadable.append(Unreadable(metadata.identify(body), str(error)))
    return tuple(objects), tuple(unreadable)
