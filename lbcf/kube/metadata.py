"""Reads the metadata of an object and nothing else.

Behind the `parse` of a resource stands a narrow decoder of its kind. Where that cannot
read an object, this one still says which object it was, so that it can be held. It also
serves those who need no more of an object than that it exists.
"""

from datetime import datetime

import attrs
import msgspec

from lbcf.core.model.resources import Meta
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.wire.errors import Malformed


@attrs.frozen
class MetaOnly:
    """Any object, reduced to its metadata."""

    meta: Meta


@attrs.frozen
class Identity:
    """Which object, and which version of it.

    Attributes:
        key: namespace and name.
        uid: a namesake has another.
        version: resourceVersion.
    """

    key: ObjectKey
    uid: Uid
    version: str

    @property
    def number(self) -> int | None:
        """Return the version as a number, None if it is none."""
        return number_of(self.version)


class _Metadata(msgspec.Struct, rename="camel"):
    """Metadata as it stands in the JSON; annotations are left where they are."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: datetime | None = None
    finalizers: tuple[str, ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class _Whole(msgspec.Struct):
    """An object of which only the metadata is looked at."""

    metadata: _Metadata


class _Name(msgspec.Struct, rename="camel"):
    """The fields that identify an object, whatever the others look like."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Named(msgspec.Struct):
    """An object of which only the identity is looked at."""

    metadata: _Name


class _Version(msgspec.Struct, rename="camel"):
    """The one field that a bookmark's metadata has."""

    resource_version: str


class _Versioned(msgspec.Struct):
    """A bookmark."""

    metadata: _Version


_decode_whole = msgspec.json.Decoder(_Whole).decode
_decode_named = msgspec.json.Decoder(_Named).decode
_decode_versioned = msgspec.json.Decoder(_Versioned).decode


def parse_meta_only(body: bytes) -> MetaOnly:
    """Read an object's metadata, without its annotations.

    Raises:
        Malformed: no JSON object with a name, or a field of the wrong type.
    """
    try:
        found = _decode_whole(body).metadata
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"metadata: {error}") from error
    return MetaOnly(
        Meta(
            key=ObjectKey(found.namespace, found.name),
            uid=Uid(found.uid),
            resource_version=found.resource_version,
            generation=found.generation,
            deleting_since=found.deletion_timestamp,
            finalizers=found.finalizers,
            labels=found.labels,
        )
    )


def identify(body: bytes) -> Identity:
    """Say of any object which it is, and in what version.

    Raises:
        Malformed: not even that can be read.
    """
    try:
        found = _decode_named(body).metadata
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"an object without a name: {error}") from error
    key = ObjectKey(found.namespace, found.name)
    return Identity(key, Uid(found.uid), found.resource_version)


def version_of(body: bytes) -> str:
    """Read a bookmark's resourceVersion.

    Raises:
        Malformed: it has none.
    """
    try:
        return _decode_versioned(body).metadata.resource_version
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"a bookmark without a version: {error}") from error


def number_of(version: str) -> int | None:
    """Turn a resourceVersion into a number that grows (KEP-5504), None if it is none."""
    return int(version) if version.isascii() and version.isdigit() else None


def identity_of(meta: Meta) -> Identity:
    """Reduce metadata to what tells objects and versions apart."""
    return Identity(meta.key, meta.uid, meta.resource_version)
