"""Leases of coordination.k8s.io: how they are read and written.

`lease` elects leaders with them, `locks` locks addresses. Their times are written for
people: nobody here decides by another machine's clock.
"""

from datetime import datetime
from typing import Final

import attrs
import msgspec

from lbcf.core.resources import Meta
from lbcf.kube.metadata import parse_meta_only
from lbcf.kube.resource import Resource
from lbcf.wire.errors import Malformed


@attrs.frozen
class Lease:
    """Who holds something, and for how long without a renewal.

    Attributes:
        holder: identity of the holder, empty when nobody holds it.
        duration: seconds; 0 where unsaid.
        transitions: how often the holder changed.
        renewed_at: by the holder's clock, for people; None where unsaid.
    """

    meta: Meta
    holder: str
    duration: int
    transitions: int
    renewed_at: datetime | None = None


class _Spec(msgspec.Struct, rename="camel"):
    """The fields that are used; all are optional in the API."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    renew_time: datetime | None = None


class _Lease(msgspec.Struct):
    """A Lease but for its metadata."""

    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = msgspec.json.Decoder(_Lease).decode


def parse_lease(body: bytes) -> Lease:
    """Read a Lease.

    Raises:
        Malformed: it is none.
    """
    meta = parse_meta_only(body).meta
    try:
        spec = _decode(body).spec
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"lease {meta.key}: {error}") from error
    return Lease(
        meta=meta,
        holder=spec.holder_identity or "",
        duration=spec.lease_duration_seconds or 0,
        transitions=spec.lease_transitions or 0,
        renewed_at=spec.renew_time,
    )


LEASES: Final[Resource[Lease]] = Resource(
    "coordination.k8s.io", "v1", "leases", "Lease", parse_lease
)


def micro_time(moment: datetime) -> str:
    """Write a moment, which must be in UTC, as the API's MicroTime."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
