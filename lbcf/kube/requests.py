"""Requests of the API server: what one says, how urgent it is, and what carries it.

`client` makes them, `transport` sends them over HTTP. A patch names the uid and the
resourceVersion that it was made for, which the server compares with those that the object
has: 409 where they differ. The uid goes with the version for a namesake that would have
the same one after a restore of etcd: alone it gets a 422 (measured on Kubernetes 1.36).
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Final, Literal, Protocol

import attrs

from lbcf.core.model.resources import Meta


Method = Literal["GET", "POST", "PATCH", "DELETE"]


@attrs.frozen
class ApiRequest:
    """What is to be sent.

    Attributes:
        path: below the host, beginning with a slash, quoted.
        query: parameters by name.
        body: JSON, None for none.
        content_type: of the body.
        most: bytes of the answer that the asker takes, None for any number.
    """

    method: Method
    path: str
    query: Mapping[str, str] = attrs.Factory(dict)
    body: bytes | None = None
    content_type: str = "application/json"
    most: int | None = None

    def __str__(self) -> str:
        """Write it as it stands in messages."""
        return f"{self.method} {self.path}"


class HttpTransport(Protocol):
    """The way to an API server; `Transport` is the real one."""

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Return the body of a successful answer, or raise a `KubeError`."""

    def stream(
        self, request: ApiRequest, silence: timedelta
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open an answer that comes in chunks, and ends when nothing comes."""


Middleware = Callable[[HttpTransport], HttpTransport]
"""Puts itself between whoever asks and the API server."""


_RANKS: Final[Mapping[Method, int]] = {"DELETE": 0, "GET": 0, "PATCH": 2, "POST": 3}
_STATUS: Final = 1
_NAMESPACES: Final = "/namespaces/"


def rank_of(request: ApiRequest) -> int:
    """Return how urgent a request is; the smaller, the sooner it is sent.

    Deletes first, and what is read to allow them; then what completes work under way,
    statuses before finalizers, which are in no hurry; what begins new work comes last, so
    that nothing is begun faster than it is completed.
    """
    if request.path.endswith("/status"):
        return _STATUS
    return _RANKS[request.method]


def namespace_of(request: ApiRequest) -> str:
    """Return the namespace that a request is about; empty: all, or none."""
    return request.path.partition(_NAMESPACES)[2].partition("/")[0]


Body = Mapping[str, object]
"""A JSON object that is to be sent."""

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
"""Lists of built-in kinds are merged by their key, such as conditions by their type."""


def merge_cas(body: Body, cas: Meta | None) -> Body:
    """Add the uid and resourceVersion that it was made for to a merge patch."""
    if cas is None:
        return body
    given = body.get("metadata", {})
    named = {"uid": cas.uid, "resourceVersion": cas.resource_version}
    rest = given if isinstance(given, Mapping) else {}
    return {**body, "metadata": {**rest, **named}}


def json_cas(operations: Sequence[Body], cas: Meta | None) -> Sequence[Body]:
    """Add the uid and resourceVersion that it was made for to a JSON patch.

    Writing the two fields makes the server compare them and answer 409; a `test` that
    fails would come back as 422, as if the patch were wrong.
    """
    if cas is None:
        return operations
    fields = (("uid", cas.uid), ("resourceVersion", cas.resource_version))
    named = [
        {"op": "replace", "path": f"/metadata/{name}", "value": value}
        for name, value in fields
    ]
    return [*named, *operations]
