"""BackendRecord in JSON and back: reading, creating, patching.

What we change is always a merge patch of the fields that we mean, never the object as
read: fields that a newer version of this project added survive. `lbcf.kube.client` adds
the uid and the resourceVersion that were read, so that a patch fails where anything has
changed since.
"""

import math

from collections.abc import Mapping
from datetime import datetime, timedelta
from sys import intern
from types import MappingProxyType

import msgspec

from lbcf.core.model import names
from lbcf.core.model.node_backends import NodeRef, ServiceRef
from lbcf.core.model.resources import (
    USUAL_SETTLING,
    Backend,
    BackendGroup,
    BackendRecord,
    DrainProgress,
    PodRef,
    RecordSpec,
    RecordStatus,
    StaticRef,
    Waiting,
)
from lbcf.core.model.values import NO_DRAIN, BootTime, ObjectKey, Uid
from lbcf.core.selection.desired import DesiredRecord
from lbcf.wire.errors import Malformed
from lbcf.wire.fields import (
    WireCondition,
    WireDrain,
    WireEnsurePolicy,
    WirePort,
    parse_conditions,
    parse_drain,
    parse_ensure_policy,
    parse_port,
    render_conditions,
    render_drain,
    render_ensure_policy,
    render_port,
    render_time,
    render_time_after,
    replaced,
)
from lbcf.wire.metadata import ObjectMeta, decode, interned_map


NO_LABELS: Mapping[str, str] = MappingProxyType({})


class _PodRef(msgspec.Struct):
    name: str
    port: WirePort
    uid: str = ""


class _ServiceRef(msgspec.Struct, rename="camel"):
    name: str
    port: WirePort
    node_port: int
    node_name: str


class _NodeRef(msgspec.Struct):
    name: str
    port: WirePort


class _RecordSpec(msgspec.Struct, rename="camel"):
    lb_name: str
    lb_driver: str
    lb_info: dict[str, str] | None = None
    lb_attributes: dict[str, str] | None = None
    parameters: dict[str, str] | None = None
    ensure_policy: WireEnsurePolicy | None = None
    pod_backend: _PodRef | None = None
    service_backend: _ServiceRef | None = None
    node_backend: _NodeRef | None = None
    static_addr: str | None = None
    backend_addr: str = ""
    drain: WireDrain | None = None
    backend_host: str = ""
    node_uid: str = msgspec.field(default="", name="nodeUID")


class _Progress(msgspec.Struct, rename="camel"):
    started_at: datetime | None = None
    deadline: datetime | None = None
    active_connections: int | None = None


class _BootTime(msgspec.Struct):
    boot: str = ""
    seconds: float = 0.0


class _Waiting(msgspec.Struct, rename="camel"):
    uid: str = ""
    ended: bool = False
    gone_at: _BootTime | None = None


class _RecordStatus(msgspec.Struct, rename="camel"):
    backend_addr: str = ""
    injected_info: dict[str, str] | None = None
    conditions: list[WireCondition] | None = None
    ensuring: str = ""
    drain: _Progress | None = None
    next_attempt: datetime | None = None
    backend_gone: bool = False
    deregistrar: str = ""
    waiting_for: _Waiting | None = None
    deletion_seen_at: _BootTime | None = None
    lock_settling_seconds: int = 0


class _Record(msgspec.Struct):
    metadata: ObjectMeta
    spec: _RecordSpec
    status: _RecordStatus = msgspec.field(default_factory=_RecordStatus)


_DECODER = msgspec.json.Decoder(_Record)


def parse_record(raw: bytes) -> BackendRecord:
    """Read a record, ours or one that LBCF in Go wrote.

    Raises:
        Malformed: it cannot be read.
    """
    record = decode(_DECODER, raw)
    owner = record.metadata.controller("BackendGroup")
    bind = record.metadata.controller("Bind")
    namespace = intern(record.metadata.namespace)
    group = ObjectKey(namespace, intern(owner.name)) if owner else None
    if bind is not None:
        key = names.bind_group_key(ObjectKey(namespace, bind.name))
        owner, group = bind, ObjectKey(namespace, intern(key.name))
    return BackendRecord(
        meta=record.metadata.to_meta(),
        spec=_parse_spec(record.spec),
        status=_parse_status(record.status),
        group=group,
        group_uid=Uid(intern(owner.uid) if owner else ""),
    )


def _parse_spec(spec: _RecordSpec) -> RecordSpec:
    """Read what is promised."""
    return RecordSpec(
        load_balancer=intern(spec.lb_name),
        driver=intern(spec.lb_driver),
        lb_info=interned_map(spec.lb_info),
        backend=_parse_backend(spec),
        lb_attributes=interned_map(spec.lb_attributes),
        parameters=interned_map(spec.parameters),
        ensure_policy=parse_ensure_policy(spec.ensure_policy),
        address=spec.backend_addr,
        drain=NO_DRAIN if spec.drain is None else parse_drain(spec.drain),
        host=spec.backend_host,
        node_uid=Uid(intern(spec.node_uid)),
    )


def _parse_backend(spec: _RecordSpec) -> Backend:
    """Read what is registered."""
    if spec.pod_backend is not None:
        pod = spec.pod_backend
        return PodRef(pod.name, Uid(pod.uid), parse_port(pod.port))
    if spec.static_addr is not None:
        return StaticRef(spec.static_addr)
    if spec.service_backend is not None:
        service = spec.service_backend
        port = parse_port(service.port)
        node = intern(service.node_name)
        return ServiceRef(intern(service.name), port, service.node_port, node)
    if spec.node_backend is not None:
        node = intern(spec.node_backend.name)
        return NodeRef(node, parse_port(spec.node_backend.port))
    raise Malformed(
        "spec names none of podBackend, staticAddr, serviceBackend, nodeBackend"
    )


def _parse_status(status: _RecordStatus) -> RecordStatus:
    """Read how far it is."""
    wire, drain = status.drain, None
    if wire is not None and wire.started_at is not None and wire.deadline is not None:
        drain = DrainProgress(wire.started_at, wire.deadline, wire.active_connections)
    waits = status.waiting_for
    return RecordStatus(
        address=status.backend_addr,
        injected_info=interned_map(status.injected_info),
        conditions=parse_conditions(status.conditions),
        ensuring=status.ensuring,
        drain=drain,
        next_attempt=status.next_attempt,
        backend_gone=status.backend_gone,
        deregistrar=intern(status.deregistrar),
        waiting=None if waits is None else _parse_waiting(waits),
        deletion_seen_at=_parse_boot_time(status.deletion_seen_at),
        lock_settling=timedelta(seconds=status.lock_settling_seconds),
    )


def _parse_waiting(waits: _Waiting) -> Waiting:
    return Waiting(Uid(waits.uid), waits.ended, _parse_boot_time(waits.gone_at))


def _parse_boot_time(moment: _BootTime | None) -> BootTime | None:
    return None if moment is None else BootTime(moment.boot, moment.seconds)


def render_new_record(
    desired: DesiredRecord, name: str, labels: Mapping[str, str] = NO_LABELS
) -> dict[str, object]:
    """Write a record to create: the finalizer and the owner are in it from the start.

    Args:
        desired: it.
        name: of it.
        labels: that it has beside those of its own.
    """
    group = desired.group.meta
    return {
        "apiVersion": names.API_VERSION,
        "kind": "BackendRecord",
        "metadata": {
            "name": name,
            "namespace": group.key.namespace,
            "labels": {**desired.labels(), **labels},
            "finalizers": [names.FINALIZER_RECORD],
            **_render_annotations(desired),
            "ownerReferences": [
                {
                    **_owner(desired.group),
                    "uid": group.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": _render_spec(desired.spec),
    }


def _owner(group: BackendGroup) -> dict[str, object]:
    version = names.BIND_VERSION if group.is_bind else names.API_VERSION
    kind = "Bind" if group.is_bind else "BackendGroup"
    name = names.own_name(group.meta.key)
    return {"apiVersion": version, "kind": kind, "name": name}


def _render_spec(spec: RecordSpec) -> dict[str, object]:
    """Write what is promised; what is empty is left out."""
    body: dict[str, object] = {
        "lbName": spec.load_balancer,
        "lbDriver": spec.driver,
        "lbInfo": dict(spec.lb_info),
        **_render_backend(spec.backend),
        "backendAddr": spec.address,
        "backendHost": spec.host,
        "nodeUID": spec.node_uid,
        **_render_changeable(spec),
    }
    return {key: value for key, value in body.items() if value not in (None, {}, "")}


def _render_changeable(spec: RecordSpec) -> dict[str, object]:
    """Write what may change in a record's life; None takes a field out of a patch."""
    return {
        "lbAttributes": dict(spec.lb_attributes) or None,
        "parameters": dict(spec.parameters) or None,
        "ensurePolicy": render_ensure_policy(spec.ensure_policy),
        "drain": render_drain(spec.drain),
    }


def _render_backend(backend: Backend) -> dict[str, object]:
    """Write what is registered."""
    match backend:
        case PodRef(name, uid, port):
            where = render_port(port)
            return {"podBackend": {"name": name, "uid": uid, "port": where}}
        case StaticRef(address):
            return {"staticAddr": address}
        case ServiceRef(name, port, node_port, node):
            body = {"name": name, "port": render_port(port), "nodePort": node_port}
            return {"serviceBackend": {**body, "nodeName": node}}
        case NodeRef(name, port):
            return {"nodeBackend": {"name": name, "port": render_port(port)}}


def _render_annotations(desired: DesiredRecord) -> dict[str, object]:
    unusual = desired.settling != USUAL_SETTLING
    said = _settling(desired.settling) if unusual else {}
    if desired.drain_gate:
        said[names.ANNOTATION_DRAIN_GATE] = desired.drain_gate
    return {"annotations": said} if said else {}


def _settling(settling: timedelta) -> dict[str, object]:
    return {names.ANNOTATION_SETTLING: str(int(settling.total_seconds()))}


def render_settling(settling: timedelta) -> dict[str, object]:
    """Patch for how long ensures may take effect."""
    return {"metadata": {"annotations": _settling(settling)}}


def render_spec_update(record: BackendRecord, spec: RecordSpec) -> dict[str, object]:
    """Patch what may change in a record's life."""
    before, after = _render_changeable(record.spec), _render_changeable(spec)
    changed = {k: replaced(before[k], v) for k, v in after.items() if before[k] != v}
    return {"spec": changed}


def render_status_update(
    record: BackendRecord, status: RecordStatus
) -> dict[str, object]:
    """Patch what differs of the status."""
    before, after = _render_status(record.status), _render_status(status)
    changed = {k: replaced(before[k], v) for k, v in after.items() if before[k] != v}
    return {"status": changed}


def _render_status(status: RecordStatus) -> dict[str, object]:
    """Write how far it is."""
    drain, attempt, waits = status.drain, status.next_attempt, status.waiting
    return {
        "backendAddr": status.address or None,
        "injectedInfo": dict(status.injected_info) or None,
        "conditions": render_conditions(status.conditions),
        "ensuring": status.ensuring or None,
        "drain": drain and _render_progress(drain),
        "nextAttempt": attempt and render_time_after(attempt),
        "backendGone": status.backend_gone or None,
        "deregistrar": status.deregistrar or None,
        "waitingFor": waits and _render_waiting(waits),
        "deletionSeenAt": _render_boot_time(status.deletion_seen_at),
        "lockSettlingSeconds": int(status.lock_settling.total_seconds()) or None,
    }


def _render_waiting(waits: Waiting) -> dict[str, object]:
    gone_at = _render_boot_time(waits.gone_at)
    return {"uid": waits.holder, "ended": waits.is_over, "goneAt": gone_at}


def _render_boot_time(moment: BootTime | None) -> dict[str, object] | None:
    if moment is None:
        return None
    # Rounded up: who counts from it must wait no less.
    return {"boot": moment.boot, "seconds": math.ceil(moment.seconds)}


def _render_progress(drain: DrainProgress) -> dict[str, object]:
    """Write the drain's clock and what is left."""
    return {
        "startedAt": render_time(drain.started_at),
        "deadline": render_time_after(drain.deadline),
        "activeConnections": drain.connections,
    }
