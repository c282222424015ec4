"""Records that LBCF in Go wrote: which backend each is about, and how they are taken over.

They are recognized by what they say and what they leave out, never by a name: LBCF's
podBackend has no uid, and its conditions no observedGeneration (see
`BackendRecord.is_legacy`). Taking one over writes nothing into it: it says what is
registered, and an ensure of LBCF's may still be on its way, so it is not settled.
"""

import hashlib
import ipaddress
import re

from collections.abc import Iterable
from datetime import datetime

import attrs

from lbcf.core.model import conditions
from lbcf.core.model.cluster import Pod
from lbcf.core.model.names import own_name
from lbcf.core.model.resources import (
    ANY_INCARNATION,
    BackendRecord,
    PodRef,
    RecordSpec,
    RecordStatus,
)
from lbcf.core.model.values import host_port
from lbcf.core.reasons import Reason


_HASHED = re.compile(r"[0-9a-f]{32}")
"""A name of LBCF's: an MD5 in hexadecimal. Ours always have a dash."""


def is_about(record: BackendRecord, pod: Pod) -> bool:
    """Return whether a record is about this very pod, and not about an earlier namesake."""
    backend = record.spec.backend
    if not isinstance(backend, PodRef) or backend.name != pod.meta.key.name:
        return False
    if backend.uid:
        return backend.uid == pod.meta.uid
    # A StatefulSet makes namesakes. LBCF hashed the pod's uid (Binds: its address) into
    # the record's name: another hash is an earlier pod's, unless this pod's address is
    # registered anyway. Where the name is no such hash, only the pod's name is known.
    name = record.meta.key.name
    if not _HASHED.fullmatch(name) or name in _names(record, backend, pod):
        return True
    return record.address == host_port(pod.address, backend.port)


def _names(record: BackendRecord, backend: PodRef, pod: Pod) -> Iterable[str]:
    # As LBCF in Go named records of groups (v1beta1) and of Binds (v1).
    owner = own_name(record.group) if record.group else ""
    name, number = record.spec.load_balancer, backend.port.number
    for protocol in (backend.port.protocol.value, backend.port.protocol.value.lower()):
        yield _md5(f"{name}_{owner}_{pod.meta.uid}_{number}_{protocol}")
        yield _md5(f"{owner}-{name}-{backend.name}-{pod.address}-{protocol}-{number}")


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def with_uids(
    records: Iterable[BackendRecord], pods: Iterable[Pod]
) -> tuple[BackendRecord, ...]:
    """Return the records with the uid of their pod where they have none.

    Those of a namesake that is gone stay without: they belong to no pod any more.
    """
    known = {pod.meta.key.name: pod for pod in pods}
    return tuple(_with_uid(record, known) for record in records)


def _with_uid(record: BackendRecord, pods: dict[str, Pod]) -> BackendRecord:
    backend = record.spec.backend
    if not isinstance(backend, PodRef) or backend.uid:
        return record
    pod = pods.get(backend.name)
    if pod is None or not is_about(record, pod):
        return record
    known = attrs.evolve(backend, uid=pod.meta.uid)
    return attrs.evolve(record, spec=attrs.evolve(record.spec, backend=known))


def is_elsewhere(record: BackendRecord, wanted: str) -> bool:
    """Return whether what is registered is not where the backend is now.

    Args:
        record: of that backend.
        wanted: host:port, empty where only the driver could say.
    """
    found = record.address
    if not wanted or found in {"", wanted}:
        return False
    # LBCF's drivers wrote addresses in words of their own, Tencent's in JSON. Where the
    # backend is asked from now on, that is another spelling and no other place.
    return not record.is_legacy or _is_spelled_alike(found, wanted)


def _is_spelled_alike(one: str, other: str) -> bool:
    # Both are of the form IP:port, with the same port.
    (host, _, port), (_, _, same) = one.rpartition(":"), other.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return port == same


def is_needless(record: BackendRecord, spec: RecordSpec) -> bool:
    """Return whether an update of a legacy record would bring nothing but a drain.

    LBCF knew no drain: to write one into its records would have each ensured again.
    """
    if not (record.is_legacy and record.is_registered):
        return False
    return attrs.evolve(spec, drain=record.spec.drain) == record.spec


def signed(record: BackendRecord, now: datetime) -> RecordStatus:
    """Return the status that says for which generation a legacy record was registered.

    Written before its spec is changed: else LBCF's success would count for the new spec.
    An ensure of LBCF's may be out: `*` has ours repeated.
    """
    registered = conditions.find(record.status.conditions, conditions.REGISTERED)
    if registered is None:
        return record.status
    said = attrs.evolve(
        registered,
        reason=registered.reason or Reason.REGISTERED,
        observed_generation=record.meta.generation,
    )
    return attrs.evolve(
        record.status,
        conditions=conditions.with_condition(record.status.conditions, said, now),
        ensuring=ANY_INCARNATION,
    )
