"""An API server in a dict, for tests in virtual time, where no socket lives.

It knows single objects, versions, uids and preconditions; no lists, no watches, no
finalizers. `test_contract` holds it to what the real one does.
"""

import asyncio

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from enum import Enum, auto
from http import HTTPStatus
from typing import cast

import msgspec

from lbcf.kube.errors import KubeError, Unavailable, error_of
from lbcf.kube.exchange import Request


Json = dict[str, object]


class Fault(Enum):
    """What happens to a request on its way."""

    UNSENT = auto()
    """It never arrives, and the sender knows."""

    UNANSWERED = auto()
    """It is carried out, and the answer is lost."""

    STALLED = auto()
    """It arrives, and nothing ever comes back."""


class TinyApi:
    """Implements `Exchange`.

    Attributes:
        objects: by path.
        requests: all that arrived, as method and path.
        fault: happens to each request while it is set.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.requests: list[str] = []
        self.fault: Fault | None = None
        self._revision = 0

    async def send(self, request: Request, within: timedelta | None = None) -> bytes:
        """Carry a request out, or let its fault happen."""
        fault = self.fault
        if fault is Fault.UNSENT:
            raise Unavailable(f"{request}: refused", sent=False)
        if fault is Fault.STALLED:
            await asyncio.sleep(within.total_seconds() if within else 30)
            raise Unavailable(f"{request}: no answer", sent=None)
        self.requests.append(str(request))
        answer = self._perform(request)
        await asyncio.sleep(0)
        if fault is Fault.UNANSWERED:
            raise Unavailable(f"{request}: cut", sent=None)
        return msgspec.json.encode(answer)

    def stream(
        self, request: Request, silence: timedelta
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Refuse: there are no watches here."""
        raise NotImplementedError(f"{request} within {silence}")

    def _perform(self, request: Request) -> Json:
        """Carry a request out."""
        body = cast("Json", msgspec.json.decode(request.body or b"{}"))
        match request.method:
            case "GET":
                return self._found(request)
            case "POST":
                return self._create(request, body)
            case "PATCH":
                return self._patch(request, body)
            case "DELETE":
                return self._delete(request, body)

    def _found(self, request: Request) -> Json:
        """Return an object that exists."""
        found = self.objects.get(request.path)
        if found is None:
            raise _refused(request, HTTPStatus.NOT_FOUND, "NotFound")
        return found

    def _create(self, request: Request, body: Json) -> Json:
        """Make an object."""
        metadata = cast("Json", body["metadata"])
        path = f"{request.path}/{metadata['name']}"
        if path in self.objects:
            raise _refused(request, HTTPStatus.CONFLICT, "AlreadyExists")
        namespace = request.path.split("/")[-2]
        uid = f"uid-{self._revision + 1}"
        whole = {**body, "metadata": {**metadata, "namespace": namespace, "uid": uid}}
        return self._store(path, whole)

    def _patch(self, request: Request, body: Json) -> Json:
        """Change an object by a merge patch."""
        found = self._found(request)
        self._check(request, found, cast("Json", body.get("metadata", {})))
        return self._store(request.path, _merged(found, body))

    def _delete(self, request: Request, body: Json) -> Json:
        """Remove an object."""
        found = self._found(request)
        self._check(request, found, cast("Json", body.get("preconditions", {})))
        del self.objects[request.path]
        return {"kind": "Status", "status": "Success"}

    def _check(self, request: Request, found: Json, named: Json) -> None:
        """Refuse unless the uid and version that are named are the object's."""
        metadata = cast("Json", found["metadata"])
        for field in ("uid", "resourceVersion"):
            if field in named and named[field] != metadata[field]:
                raise _refused(request, HTTPStatus.CONFLICT, "Conflict")

    def _store(self, path: str, whole: Json) -> Json:
        """Keep an object in a new version."""
        self._revision += 1
        metadata = cast("Json", whole["metadata"])
        version = {"resourceVersion": str(self._revision)}
        self.objects[path] = {**whole, "metadata": {**metadata, **version}}
        return self.objects[path]


def _merged(old: Mapping[str, object], patch: Mapping[str, object]) -> Json:
    """Apply a merge patch (RFC 7386)."""
    merged = dict(old)
    for name, value in patch.items():
        below = merged.get(name)
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict) and isinstance(below, dict):
            merged[name] = _merged(below, value)
        else:
            merged[name] = value
    return merged


def _refused(request: Request, code: HTTPStatus, reason: str) -> KubeError:
    """Make the error that the real server's answer becomes."""
    details = {"name": request.path.rsplit("/", 1)[-1]}
    status = {"kind": "Status", "reason": reason, "details": details}
    return error_of(str(request), code, msgspec.json.encode(status))
