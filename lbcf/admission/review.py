"""AdmissionReview (admission.k8s.io/v1): the API server's question and our answer."""

from collections.abc import Sequence
from typing import Final

import attrs
import msgspec

from lbcf.admission.decisions import Admitted, Cause, Verdict
from lbcf.wire.driver_requests import BackendType
from lbcf.wire.errors import Malformed


_VERSION: Final = "admission.k8s.io/v1"
_LONGEST_WARNING: Final = 256
"""Characters; clients may cut longer ones (Kubernetes' AdmissionResponse)."""
_CODES: Final = {Cause.INVALID: 422, Cause.FORBIDDEN: 403, Cause.UNAVAILABLE: 503}


@attrs.frozen
class Review:
    """One question.

    Attributes:
        uid: of the question; the answer repeats it.
        resource: plural of the kind.
        operation: CREATE, UPDATE, DELETE or CONNECT.
        dry_run: nothing is going to be stored.
        new: the object as it is to be, in JSON; empty at its end.
        old: the object as it is, in JSON; empty before its beginning.
    """

    uid: str
    resource: str
    operation: str
    namespace: str
    name: str
    dry_run: bool
    new: bytes
    old: bytes


class _Resource(msgspec.Struct):
    group: str = ""
    version: str = ""
    resource: str = ""


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    resource: _Resource
    operation: str
    namespace: str = ""
    name: str = ""
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


class _ReviewedSpec(msgspec.Struct):
    """Which of a group's types of backends is there."""

    pods: msgspec.Raw = msgspec.Raw(b"null")
    service: msgspec.Raw = msgspec.Raw(b"null")
    static: msgspec.Raw = msgspec.Raw(b"null")
    nodes: msgspec.Raw = msgspec.Raw(b"null")


class _GroupObject(msgspec.Struct):
    spec: _ReviewedSpec


_REVIEW = msgspec.json.Decoder(_Review)
_GROUP = msgspec.json.Decoder(_GroupObject)
_OBJECT = msgspec.json.Decoder(dict[str, object])


def parse_review(body: bytes) -> Review:
    """Read a question.

    Raises:
        Malformed: it is no AdmissionReview of the version that we speak.
    """
    try:
        review = _REVIEW.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"not an AdmissionReview: {error}") from error
    if (review.api_version, review.kind) != (_VERSION, "AdmissionReview"):
        raise Malformed(
            f"{review.kind} of {review.api_version}: only AdmissionReview of {_VERSION} "
            "is answered"
        )
    asked = review.request
    try:
        new, old = _completed(asked, asked.object), _completed(asked, asked.old_object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"object of an AdmissionReview: {error}") from error
    return Review(
        uid=asked.uid,
        resource=asked.resource.resource,
        operation=asked.operation,
        namespace=asked.namespace,
        name=asked.name,
        dry_run=bool(asked.dry_run),
        new=new,
        old=old,
    )


def _completed(asked: _Request, raw: msgspec.Raw) -> bytes:
    """Complete the metadata of an object that is not stored yet.

    Before the create there is no resourceVersion, and of a generated name nothing.
    """
    if bytes(raw) == b"null":
        return b""
    found = _OBJECT.decode(raw)
    metadata = found.get("metadata")
    known: dict[str, object] = {
        "name": asked.name,
        "namespace": asked.namespace,
        "uid": "",
        "resourceVersion": "",
    }
    found["metadata"] = known | (metadata if isinstance(metadata, dict) else {})
    return msgspec.json.encode(found)


def without_status(obj: bytes) -> bytes:
    """Return an object of an AdmissionReview without its status."""
    found = _OBJECT.decode(obj)
    found.pop("status", None)
    return msgspec.json.encode(found)


def backend_type_of(group: bytes) -> BackendType:
    """Return the type of the backends of a BackendGroup.

    Raises:
        Malformed: its spec names no type that is known.
    """
    try:
        spec = _GROUP.decode(group).spec
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"not a BackendGroup: {error}") from error
    types = (
        (spec.pods, BackendType.POD),
        (spec.service, BackendType.SERVICE),
        (spec.static, BackendType.STATIC),
        (spec.nodes, BackendType.NODE),
    )
    for part, backend_type in types:
        if bytes(part) != b"null":
            return backend_type
    raise Malformed("spec has none of pods, service, static and nodes")


def render_review(uid: str, verdict: Verdict) -> bytes:
    """Write the answer to a question."""
    response: dict[str, object] = {"uid": uid, "allowed": isinstance(verdict, Admitted)}
    if isinstance(verdict, Admitted):
        if verdict.warnings:
            response["warnings"] = _cut(verdict.warnings)
    else:
        response["status"] = {
            "code": _CODES[verdict.cause],
            "reason": verdict.cause.value,
            "message": verdict.message,
        }
    return msgspec.json.encode(
        {"apiVersion": _VERSION, "kind": "AdmissionReview", "response": response}
    )


def _cut(warnings: Sequence[str]) -> list[str]:
    return [warning[:_LONGEST_WARNING] for warning in warnings]
