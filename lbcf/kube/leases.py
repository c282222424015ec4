"""Leases of coordination.k8s.io: how they are read and written.

`lease` elects leaders with them, `locks` locks addresses. Their times are written for
people: nobody here decides by another machine's clock.
"""

from datetime import datetime
from typing import Final

import attrs
import msgspec

from lbcf.core.model.names import API_GROUP
from lbcf.core.model.resources import Meta
from lbcf.kube.metadata import parse_meta_only
from lbcf.kube.resource import Resource
from lbcf.runtime.process_identity import ProcessIdentity
from lbcf.wire.errors import Malformed


ANNOTATION_HOLDER: Final = f"{API_GROUP}/holder-process"
"""Which process the holder is, as `render_process` writes it."""


@attrs.frozen
class Lease:
    """Who holds something, and for how long without a renewal.

    Attributes:
        holder: identity of the holder, empty when nobody holds it.
        duration: seconds; 0 where unsaid.
        transitions: how often the holder changed.
        renewed_at: by the holder's clock, for people; None where unsaid.
        process: which process the holder is; None where that is unknown.
    """

    meta: Meta
    holder: str
    duration: int
    transitions: int
    renewed_at: datetime | None = None
    process: ProcessIdentity | None = None

    @property
    def incarnation(self) -> str:
        """Say which run of a process leads: what follows the host in its identity."""
        return self.holder.rpartition("_")[2]


class _Spec(msgspec.Struct, rename="camel"):
    """The fields that are used; all are optional in the API."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    renew_time: datetime | None = None


class _Annotations(msgspec.Struct):
    """The one annotation of a Lease that is ours."""

    process: str | None = msgspec.field(default=None, name=ANNOTATION_HOLDER)


class _Metadata(msgspec.Struct):
    """Metadata of a Lease, as far as `parse_meta_only` leaves it."""

    annotations: _Annotations | None = None


class _Lease(msgspec.Struct):
    """A Lease but for its other metadata."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Holder(msgspec.Struct):
    """The value of the annotation.

    Attributes:
        identity: the holder that it speaks of. A version that knows no annotation
            changes the holder and leaves it as it is.
    """

    identity: str
    process: ProcessIdentity


_decode = msgspec.json.Decoder(_Lease).decode
_decode_holder = msgspec.json.Decoder(_Holder).decode


def parse_lease(body: bytes) -> Lease:
    """Read a Lease.

    Raises:
        Malformed: it is none.
    """
    meta = parse_meta_only(body).meta
    try:
        lease = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"lease {meta.key}: {error}") from error
    spec = lease.spec
    annotations = lease.metadata.annotations
    told = annotations.process if annotations is not None else None
    return Lease(
        meta=meta,
        holder=spec.holder_identity or "",
        duration=spec.lease_duration_seconds or 0,
        transitions=spec.lease_transitions or 0,
        renewed_at=spec.renew_time,
        process=_process_of(spec.holder_identity, told),
    )


def render_process(identity: str, process: ProcessIdentity) -> str:
    """Write the annotation that says which process a holder is."""
    return msgspec.json.encode(_Holder(identity, process)).decode()


def _process_of(identity: str | None, told: str | None) -> ProcessIdentity | None:
    """Read the annotation; None where it is none, or speaks of another holder."""
    if not identity or not told:
        return None
    try:
        holder = _decode_holder(told)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return holder.process if holder.identity == identity else None


LEASES: Final[Resource[Lease]] = Resource(
    "coordination.k8s.io", "v1", "leases", "Lease", parse_lease
)


def micro_time(moment: datetime) -> str:
    """Write a moment, which must be in UTC, as the API's MicroTime."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
