"""The API server in a dry run: what is read is real, what is written is imagined.

In the place of `Transport` below `KubeClient`, so that nothing can write past it. An
object that would have been written is answered as it would be then, and found so when
it is read again, as long as the real one is the version that it was made from. Lists
and watches tell of real objects alone.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import attrs
import msgspec

from lbcf.kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from lbcf.kube.requests import (
    JSON_PATCH,
    STRATEGIC_PATCH,
    ApiRequest,
    HttpTransport,
)
from lbcf.runtime.clock import Clock
from lbcf.runtime.metrics import DrySteps


Json = dict[str, Any]

_Merge = Callable[[Json, Mapping[str, Any]], Json]
_STATUS = "/status"


@attrs.frozen
class _Imagined:
    """An object as it would be.

    Attributes:
        base: resourceVersion of the real one that it was made from; empty: there is none.
        body: None where it would be gone.
    """

    base: str
    body: Json | None


class DryRunTransport:
    """Implements `HttpTransport` without ever writing.

    Args:
        real: the way to the API server; only GET goes there.
        clock: makes uids and creation times.
        steps: told of each write.
    """

    def __init__(self, real: HttpTransport, clock: Clock, steps: DrySteps) -> None:
        self._real = real
        self._clock = clock
        self._steps = steps
        self._imagined: dict[str, _Imagined] = {}
        self._latest = 0

    def stream(
        self, request: ApiRequest, silence: timedelta
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Watch what is real."""
        return self._real.stream(request, silence)

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Read, or imagine a write.

        Raises:
            KubeError: as the API server would refuse it, as far as that can be known.
        """
        if request.method == "GET":
            if request.path not in self._imagined:
                return await self._real.send(request, within)
            body = await self._read(request.path)
        else:
            body = await self._write(request)
        return msgspec.json.encode(body)

    async def _read(self, path: str) -> Json:
        """Read an object, as it would be where it would be another."""
        try:
            real = _json(await self._real.send(ApiRequest("GET", path)))
        except NotFound:
            imagined = self._imagined.get(path)
            if imagined is None or imagined.base or imagined.body is None:
                raise
            return imagined.body
        imagined = self._imagined.get(path)
        if imagined is None or imagined.base != _version(real):
            self._imagined.pop(path, None)
            return real
        if imagined.body is None:
            raise NotFound(f"GET {path}: deleted in this dry run", status=404)
        return imagined.body

    async def _write(self, request: ApiRequest) -> Json:
        """Imagine a write and tell of it."""
        body = _json(request.body or b"{}")
        path = request.path.removesuffix(_STATUS)
        match request.method:
            case "POST":
                made = await self._create(path, body)
                path = f"{path}/{made['metadata']['name']}"
            case "PATCH":
                if request.content_type == JSON_PATCH:
                    raise Invalid(f"{request}: a dry run takes merge patches alone")
                merge = _by_kind(request.content_type)
                made = await self._patch(
                    path, body, merge, is_status=path != request.path
                )
            case _:
                made = await self._delete(path, body.get("preconditions", {}))
        step = {"POST": "would_create", "PATCH": "would_patch"}.get(
            request.method, "would_delete"
        )
        target = path.rsplit("/", 2)[-2]
        self._steps.tell(step, target, path=request.path, body=body)
        return made

    async def _create(self, collection: str, body: Json) -> Json:
        """Imagine a new object."""
        path = f"{collection}/{body['metadata']['name']}"
        try:
            await self._read(path)
        except NotFound:
            pass
        else:
            raise AlreadyExists(f"POST {path}: it exists", status=409)
        parts = collection.split("/")
        namespace = (
            parts[parts.index("namespaces") + 1] if "namespaces" in parts else ""
        )
        metadata = {
            **body["metadata"],
            "namespace": namespace,
            "uid": self._clock.new_id(),
            "resourceVersion": await self._next_version(path),
            "generation": 1,
            "creationTimestamp": self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return self._keep(path, "", {**body, "metadata": metadata})

    async def _patch(
        self, path: str, patch: Json, merge: _Merge, *, is_status: bool
    ) -> Json:
        """Imagine a change."""
        old, base = await self._before(path)
        _check_named(f"PATCH {path}", old, patch.get("metadata", {}))
        new = merge(old, patch)
        changed = not is_status and new.get("spec") != old.get("spec")
        new["metadata"] |= {
            "resourceVersion": await self._next_version(path),
            "generation": old["metadata"].get("generation", 0) + changed,
        }
        gone = "deletionTimestamp" in old["metadata"] and not new["metadata"].get(
            "finalizers"
        )
        self._imagined[path] = _Imagined(base, None if gone else new)
        return new

    async def _delete(self, path: str, named: Json) -> Json:
        """Imagine an end, or its beginning where finalizers hold the object."""
        old, base = await self._before(path)
        _check_named(f"DELETE {path}", old, named)
        metadata = old["metadata"]
        if not metadata.get("finalizers"):
            self._imagined[path] = _Imagined(base, None)
            return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        ending = {
            "deletionTimestamp": self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "generation": metadata.get("generation", 0) + 1,
            "resourceVersion": await self._next_version(path),
        }
        return self._keep(path, base, {**old, "metadata": {**metadata, **ending}})

    async def _before(self, path: str) -> tuple[Json, str]:
        old = await self._read(path)
        known = self._imagined.get(path)
        return old, _version(old) if known is None else known.base

    def _keep(self, path: str, base: str, body: Json) -> Json:
        self._imagined[path] = _Imagined(base, body)
        return body

    async def _next_version(self, path: str) -> str:
        """Make a version that is later than all that anybody has told so far.

        Imagined versions run ahead of the real ones: a store that was shown one takes a
        real change of that object only when the API server has counted so far.
        """
        collection = path.rsplit("/", 1)[0]
        listed = await self._real.send(ApiRequest("GET", collection, {"limit": "1"}))
        self._latest = max(self._latest, int(_version(_json(listed)))) + 1
        return str(self._latest)


def _json(body: bytes) -> Json:
    return msgspec.json.decode(body, type=dict[str, Any])


def _version(body: Json) -> str:
    return str(body["metadata"]["resourceVersion"])


def _check_named(asked: str, old: Json, named: Mapping[str, Any]) -> None:
    """Refuse a write that was meant for another version, or another object.

    Raises:
        Conflict: it was.
    """
    for field in ("uid", "resourceVersion"):
        if named.get(field) not in {None, old["metadata"][field]}:
            raise Conflict(f"{asked}: its {field} is another", status=409)


def _by_kind(content_type: str) -> _Merge:
    return _merged_by_type if content_type == STRATEGIC_PATCH else _merged


def _merged_by_type(old: Json, patch: Mapping[str, Any]) -> Json:
    """Apply a strategic merge patch, of which conditions are all that we send."""
    new = _merged(old, patch)
    fresh = patch.get("status", {}).get("conditions", [])
    named = {condition["type"] for condition in fresh}
    kept = old.get("status", {}).get("conditions") or []
    new["status"]["conditions"] = [c for c in kept if c["type"] not in named] + fresh
    return new


def _merged(old: Json, patch: Mapping[str, Any]) -> Json:
    """Apply a merge patch (RFC 7396)."""
    new = dict(old)
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        elif isinstance(value, Mapping):
            before = old.get(key)
            new[key] = _merged(before if isinstance(before, dict) else {}, value)
        else:
            new[key] = value
    return new
