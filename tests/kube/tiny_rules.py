"""What `TinyApi` does to one object: create, patch, begin to delete.

Pure: JSON in, JSON out, as the real server stores it. Objects are never changed in
place, so that every version that was ever stored stays as it was.
"""

import functools

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import cast

import attrs
import msgspec

from lbcf.kube.errors import KubeError, error_of
from lbcf.kube.requests import STRATEGIC_PATCH, ApiRequest


Json = dict[str, object]

_COUNTED = frozenset(
    {"backendrecords", "backendgroups", "loadbalancers", "loadbalancerdrivers"}
)
"""Kinds with a generation and with a status that is written apart from the rest."""

_SERVERS_OWN = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
"""Metadata that no patch changes."""


@attrs.frozen
class Place:
    """Where a request points to.

    Attributes:
        kind: group, version and plural, such as `apis/apps/v1/deployments`.
        plural: the last part of the kind.
        namespace: empty: all of them, or that the kind has none.
        name: empty: the collection.
        subresource: empty: the object itself.
    """

    kind: str
    plural: str
    namespace: str
    name: str
    subresource: str

    @property
    def path(self) -> str:
        """Return the path of the object, without a subresource."""
        root = self.kind.removesuffix(f"/{self.plural}")
        inside = f"namespaces/{self.namespace}/" if self.namespace else ""
        return f"/{root}/{inside}{self.plural}/{self.name}"

    @property
    def is_counted(self) -> bool:
        """Tell whether the kind has a generation and a status of its own."""
        return self.plural in _COUNTED


@functools.cache
def place_of(path: str) -> Place:
    """Take a path apart."""
    parts = path.strip("/").split("/")
    size = 2 if parts[0] == "api" else 3
    root, rest = "/".join(parts[:size]), parts[size:]
    namespace = ""
    # What stands alone, or before a name alone, is the kind of namespaces itself.
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    return Place(f"{root}/{plural}", plural, namespace, name, subresource)


def metadata_of(whole: Mapping[str, object]) -> Json:
    """Return an object's metadata."""
    return cast("Json", whole.get("metadata") or {})


def with_metadata(whole: Mapping[str, object], **fields: object) -> Json:
    """Return an object with some of its metadata set."""
    return {**whole, "metadata": {**metadata_of(whole), **fields}}


def created(place: Place, body: Json, uid: str, now: datetime) -> Json:
    """Make a new object of what was sent."""
    own: Json = {
        "namespace": place.namespace,
        "uid": uid,
        "creationTimestamp": stamp(now),
    }
    if place.is_counted:
        body = {name: value for name, value in body.items() if name != "status"}
        own["generation"] = 1
    return with_metadata(body, **own)


def patched(request: ApiRequest, place: Place, found: Json, body: Json) -> Json:
    """Apply a merge patch to the object, or to its status alone.

    Raises:
        Invalid: the object would break a rule.
    """
    if place.subresource:
        part = {"status": body.get("status", {})}
        if request.content_type == STRATEGIC_PATCH:
            part = {"status": with_conditions(found, cast("Json", part["status"]))}
        return _checked(request, found, merged(found, part))
    if place.is_counted:
        body = {name: value for name, value in body.items() if name != "status"}
    whole = merged(found, body)
    known = metadata_of(found)
    own = {name: known[name] for name in _SERVERS_OWN if name in known}
    whole = with_metadata(whole, **own)
    if place.is_counted and whole.get("spec") != found.get("spec"):
        whole = with_metadata(whole, generation=_generation(found) + 1)
    return _checked(request, found, whole)


def json_patched(request: ApiRequest, found: Json, operations: list[Json]) -> Json:
    """Apply the operations `test` and `add` of a JSON patch (RFC 6902) to members.

    Raises:
        Invalid: a test fails.
    """
    change: Json = {}
    for one in operations:
        *way, name = str(one["path"]).strip("/").split("/")
        here, there = found, change
        for part in way:
            here = cast("Json", here.get(part) or {})
            there = cast("Json", there.setdefault(part, {}))
        if one["op"] == "add":
            there[name] = one["value"]
        elif here.get(name) != one["value"]:
            raise refused(request, HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid")
    return merged(found, change)


def with_conditions(found: Json, status: Json) -> Json:
    """Merge the conditions of a strategic patch among those there are, by their type."""
    known = cast("Json", found.get("status", {})).get("conditions") or []
    whole = {c["type"]: c for c in cast("list[Json]", known)}
    for fresh in cast("list[Json]", status.get("conditions", [])):
        whole[fresh["type"]] = {**whole.get(fresh["type"], {}), **fresh}
    return {**status, "conditions": list(whole.values())}


def ending(place: Place, found: Json, now: datetime) -> Json:
    """Begin the end of an object that finalizers hold.

    To set deletionTimestamp counts as a change of the spec (measured on Kubernetes
    1.36: generation grows by one).
    """
    whole = with_metadata(found, deletionTimestamp=stamp(now))
    if place.is_counted:
        whole = with_metadata(whole, generation=_generation(found) + 1)
    return whole


def is_over(whole: Json) -> bool:
    """Tell whether nothing holds an object any more whose end was asked for."""
    metadata = metadata_of(whole)
    return bool(metadata.get("deletionTimestamp")) and not metadata.get("finalizers")


def check_named(request: ApiRequest, found: Json, named: Json) -> None:
    """Refuse unless the uid and version that are named are the object's.

    Raises:
        Conflict: another version; for a delete also another uid.
        Invalid: a patch names this version of another uid.
    """
    known = metadata_of(found)
    if (
        named.get("resourceVersion", known["resourceVersion"])
        != (known["resourceVersion"])
    ):
        raise refused(request, HTTPStatus.CONFLICT, "Conflict")
    if named.get("uid", known["uid"]) != known["uid"]:
        if request.method == "DELETE":
            raise refused(request, HTTPStatus.CONFLICT, "Conflict")
        raise refused(request, HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid")


def _checked(request: ApiRequest, before: Json, after: Json) -> Json:
    """Hold an object to the rules that ours rely on.

    Raises:
        Invalid: a finalizer was added at the end, or an address was changed.
    """
    old, new = metadata_of(before), metadata_of(after)
    had = set(cast("list[str]", old.get("finalizers") or ()))
    has = set(cast("list[str]", new.get("finalizers") or ()))
    revived = bool(old.get("deletionTimestamp")) and not has <= had
    if revived or any(_moved(before, after, part) for part in ("spec", "status")):
        raise refused(request, HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid")
    return after


def _moved(before: Json, after: Json, part: str) -> bool:
    """Tell whether backendAddr, once set, is another one (CRD validation rule)."""
    address = cast("Json", before.get(part) or {}).get("backendAddr")
    return bool(address) and address != (
        cast("Json", after.get(part) or {}).get("backendAddr")
    )


def _generation(whole: Json) -> int:
    """Return how often the spec changed."""
    return cast("int", metadata_of(whole).get("generation", 0))


def stamp(now: datetime) -> str:
    """Write a moment as metadata has it, in whole seconds."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def merged(old: Mapping[str, object], patch: Mapping[str, object]) -> Json:
    """Apply a merge patch (RFC 7386)."""
    result = dict(old)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            below = result.get(name)
            result[name] = merged(below if isinstance(below, dict) else {}, value)
        else:
            result[name] = value
    return result


def refused(
    request: ApiRequest, code: HTTPStatus, reason: str, message: str = ""
) -> KubeError:
    """Make the error that the real server's answer becomes."""
    details = {"name": place_of(request.path).name or "new"}
    status = {"kind": "Status", "reason": reason, "code": code, "details": details}
    status["message"] = message
    return error_of(str(request), code, msgspec.json.encode(status))
