"""Reads metadata of objects (metav1.ObjectMeta), as far as it is used.

`ObjectMeta` is the part of each kind's narrow decoder. Where that cannot read an object,
`identify` still says which object it was, so that nobody takes it for gone. Equal maps
and lists of texts are interned: pods of one template have the same labels, records of one
load balancer the same identity, and a cache of thousands holds each of them once.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Final, TypeVar

import attrs
import msgspec

from lbcf.core.model.names import API_GROUP
from lbcf.core.model.resources import Meta
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.wire.errors import Malformed
from lbcf.wire.plain import plain


_REMEMBERED: Final = 1024
"""Values of each sort; those beyond it are simply not shared."""

_LONGEST_ANNOTATION: Final = 4096
"""Characters that are kept of one of ours: three reasons of people fit into a condition."""

NOTHING: Final[Mapping[str, str]] = {}
"""The empty map; nobody writes into what was decoded."""


def interned_map(found: dict[str, str] | None) -> Mapping[str, str]:
    """Return an equal map, the same one for equal maps."""
    return _map(tuple(found.items())) if found else NOTHING


def interned_texts(found: Iterable[str] | None) -> tuple[str, ...]:
    """Return the texts, the same tuple for equal ones."""
    return _texts(tuple(found)) if found else ()


@lru_cache(_REMEMBERED)
def _map(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)


@lru_cache(_REMEMBERED)
def _texts(texts: tuple[str, ...]) -> tuple[str, ...]:
    return texts


T = TypeVar("T")


class Owner(msgspec.Struct, rename="camel"):
    """One of metadata.ownerReferences."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(msgspec.Struct, rename="camel"):
    """metadata, as far as we use it."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    generation: int = 0
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None

    def to_meta(self) -> Meta:
        """Turn it into the core's value; only annotations of our group are kept.

        What people say in them reaches conditions: it is kept as it can be shown.
        """
        annotations = {
            k: plain(v[:_LONGEST_ANNOTATION])
            for k, v in (self.annotations or NOTHING).items()
            if API_GROUP in k
        }
        return Meta(
            key=ObjectKey(intern(self.namespace), self.name),
            uid=Uid(self.uid),
            resource_version=self.resource_version,
            generation=self.generation,
            deleting_since=self.deletion_timestamp,
            finalizers=interned_texts(self.finalizers),
            labels=interned_map(self.labels),
            annotations=interned_map(annotations),
        )

    def controller(self, kind: str) -> Owner | None:
        """Find the controlling owner, if it is of this kind."""
        for owner in self.owner_references or ():
            if owner.controller and owner.kind == kind:
                return owner
        return None


def decode(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    """Decode one object.

    Raises:
        Malformed: a field that decisions use is missing or of the wrong type.
    """
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(str(error)) from error


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


class _Whole(msgspec.Struct):
    metadata: ObjectMeta


class _Name(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Named(msgspec.Struct):
    metadata: _Name


class _Version(msgspec.Struct, rename="camel"):
    resource_version: str


class _Versioned(msgspec.Struct):
    metadata: _Version


_WHOLE = msgspec.json.Decoder(_Whole)
_NAMED = msgspec.json.Decoder(_Named)
_VERSIONED = msgspec.json.Decoder(_Versioned)


def parse_meta_only(body: bytes) -> MetaOnly:
    """Read an object of any kind, reduced to its metadata.

    Raises:
        Malformed: no object with a name, uid and resourceVersion, or a field of the wrong
            type.
    """
    return MetaOnly(decode(_WHOLE, body).metadata.to_meta())


def identify(body: bytes) -> Identity:
    """Read which object it is, and in what version, whatever its other fields are like.

    Raises:
        Malformed: not even that can be read.
    """
    found = decode(_NAMED, body).metadata
    key = ObjectKey(found.namespace, found.name)
    return Identity(key, Uid(found.uid), found.resource_version)


def version_of(body: bytes) -> str:
    """Read a bookmark's resourceVersion.

    Raises:
        Malformed: it has none.
    """
    return decode(_VERSIONED, body).metadata.resource_version


def number_of(version: str) -> int | None:
    """Turn a resourceVersion into a number that grows (KEP-5504), None if it is none."""
    return int(version) if version.isascii() and version.isdigit() else None


def identity_of(meta: Meta) -> Identity:
    """Return what tells objects and their versions apart."""
    return Identity(meta.key, meta.uid, meta.resource_version)


def render_finalizer_added(meta: Meta, finalizer: str) -> dict[str, object]:
    """Patch a finalizer on; the list is replaced, so it needs compare-and-swap."""
    return {"metadata": {"finalizers": [*meta.finalizers, finalizer]}}


def render_finalizer_removed(meta: Meta, finalizer: str) -> dict[str, object]:
    """Patch a finalizer away; the list is replaced, so it needs compare-and-swap."""
    left = [held for held in meta.finalizers if held != finalizer]
    return {"metadata": {"finalizers": left}}
