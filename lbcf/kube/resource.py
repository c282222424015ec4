"""What a kind of object is to the client: its paths, and how one of it is read."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar
from urllib.parse import quote

import attrs

from lbcf.core.model.resources import Meta
from lbcf.core.model.values import ObjectKey


class HasMeta(Protocol):
    """Anything that was read from the API server."""

    @property
    def meta(self) -> Meta:
        """Return its metadata."""


T = TypeVar("T", bound=HasMeta)


@attrs.frozen
class Resource(Generic[T]):
    """One kind of object, read as values of one class.

    Attributes:
        group: API group; empty for the core group.
        version: of the group, such as `v1beta1`.
        plural: as in paths.
        kind: as in the objects.
        parse: reads one object's JSON, which in a list of a built-in kind has neither
            apiVersion nor kind; raises `lbcf.wire.errors.Malformed`.
        namespaced: False for kinds of the whole cluster.
    """

    group: str
    version: str
    plural: str
    kind: str
    parse: Callable[[bytes], T]
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return what objects say in apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection(self, namespace: str | None = None) -> str:
        """Return the path of a namespace's objects; None: of all namespaces'."""
        root = "/apis" if self.group else "/api"
        path = f"{root}/{self.api_version}"
        if self.namespaced and namespace:
            path += f"/namespaces/{quote(namespace, safe='')}"
        return f"{path}/{self.plural}"

    def path(self, key: ObjectKey, subresource: str = "") -> str:
        """Return the path of one object, or of a part of it such as `status`."""
        path = f"{self.collection(key.namespace)}/{quote(key.name, safe='')}"
        return f"{path}/{subresource}" if subresource else path
