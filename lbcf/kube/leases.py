"""Leases of coordination.k8s.io: how they are read and written.

`leader_election` elects leaders with them, `address_locks` locks addresses. Their times are written for
people: nobody here decides by another machine's clock.
"""

from datetime import datetime
from typing import Final

import attrs
import msgspec

from lbcf.core.model.names import API_GROUP
from lbcf.core.model.resources import Meta
from lbcf.kube.kinds import Resource
from lbcf.runtime.process_identity import ProcessIdentity
from lbcf.wire.metadata import ObjectMeta, decode


ANNOTATION_HOLDER: Final = f"{API_GROUP}/holder-process"
"""Which process the holder is, as `render_holder` writes it."""


@attrs.frozen
class Lease:
    """Who holds something, and for how long without a renewal.

    Attributes:
        holder: identity of the holder, empty when nobody holds it.
        duration: seconds; 0 where unsaid.
        transitions: how often the holder changed.
        renewed_at: by the holder's clock, for people; None where unsaid.
        process: which process the holder is; None where that is unknown.
        inherited: name of the run in whose place the holder began; empty: of none.
    """

    meta: Meta
    holder: str
    duration: int
    transitions: int
    renewed_at: datetime | None = None
    process: ProcessIdentity | None = None
    inherited: str = ""

    @property
    def run(self) -> str:
        """Return the own name of the run that leads: it follows the host."""
        return self.holder.rpartition("_")[2]

    @property
    def incarnation(self) -> str:
        """Return by which name records know it: its own, or that of the run before it."""
        return self.inherited or self.run


class _Spec(msgspec.Struct, rename="camel"):
    """The fields that are used; all are optional in the API."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    renew_time: datetime | None = None


class _Lease(msgspec.Struct):
    metadata: ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Holder(msgspec.Struct):
    """The value of the annotation.

    Attributes:
        identity: the holder that it speaks of. A version that knows no annotation
            changes the holder and leaves it as it is.
        inherited: as in `Lease`.
    """

    identity: str
    process: ProcessIdentity
    inherited: str = ""


_LEASE = msgspec.json.Decoder(_Lease)
_decode_holder = msgspec.json.Decoder(_Holder).decode


def parse_lease(body: bytes) -> Lease:
    """Read a Lease.

    Raises:
        Malformed: it is none.
    """
    lease = decode(_LEASE, body)
    spec, annotations = lease.spec, lease.metadata.annotations or {}
    holder = _read_holder(spec.holder_identity, annotations.get(ANNOTATION_HOLDER))
    return Lease(
        meta=lease.metadata.to_meta(),
        holder=spec.holder_identity or "",
        duration=spec.lease_duration_seconds or 0,
        transitions=spec.lease_transitions or 0,
        renewed_at=spec.renew_time,
        process=holder.process if holder else None,
        inherited=holder.inherited if holder else "",
    )


def render_holder(identity: str, process: ProcessIdentity, inherited: str) -> str:
    """Write the annotation that says which process a holder is."""
    return msgspec.json.encode(_Holder(identity, process, inherited)).decode()


def _read_holder(identity: str | None, told: str | None) -> _Holder | None:
    """Read the annotation; None where it is none, or speaks of another holder."""
    if not identity or not told:
        return None
    try:
        holder = _decode_holder(told)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return holder if holder.identity == identity else None


LEASES: Final[Resource[Lease]] = Resource(
    "coordination.k8s.io", "v1", "leases", "Lease", parse_lease
)


def micro_time(moment: datetime) -> str:
    """Write a moment, which must be in UTC, as the API's MicroTime."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
