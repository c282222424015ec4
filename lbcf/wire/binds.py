"""Bind (v1) in JSON and back: what it shares with groups is read as a group's."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import attrs
import msgspec

from lbcf.core.model import names
from lbcf.core.model.binds import Bind, Entry, EntryStatus
from lbcf.core.model.values import EnsurePolicy, Repeat
from lbcf.wire.errors import Malformed
from lbcf.wire.fields import (
    WireCondition,
    parse_conditions,
    render_conditions,
    render_time,
    render_time_after,
)
from lbcf.wire.metadata import ObjectMeta, decode
from lbcf.wire.resources import WireGroup, WireGroupSpec, WireGroupStatus, to_group


class _Entry(msgspec.Struct):
    name: str
    driver: str
    spec: dict[str, str] | None = None
    attributes: dict[str, str] | None = None


class _EnsurePolicy(msgspec.Struct, rename="camel"):
    policy: str = Repeat.IF_NOT_SUCC.value
    resync_period_in_seconds: int | None = None


class _EntryStatus(msgspec.Struct):
    name: str
    driver: str = ""
    spec: dict[str, str] | None = msgspec.field(name="lbSpec", default=None)
    info: dict[str, str] | None = msgspec.field(name="lbInfo", default=None)
    synced: dict[str, str] | None = msgspec.field(
        name="lastSyncedAttributes", default=None
    )
    leaving_since: datetime | None = msgspec.field(
        name="deletionTimestamp", default=None
    )
    retry_after: datetime | None = msgspec.field(name="retryAfter", default=None)
    epoch: str = ""
    lock_keys: list[str] | None = msgspec.field(name="lockKeys", default=None)
    conditions: list[WireCondition] | None = None


class _BindSpec(WireGroupSpec, rename="camel"):
    """A group's spec, in which two fields are of another type."""

    load_balancers: list[_Entry] | None = None  # type: ignore[assignment]
    ensure_policy: _EnsurePolicy | None = None  # type: ignore[assignment]


class _BindStatus(WireGroupStatus, rename="camel"):
    load_balancer_statuses: list[_EntryStatus] | None = None


class _Bind(msgspec.Struct):
    metadata: ObjectMeta
    spec: _BindSpec
    status: _BindStatus = msgspec.field(default_factory=_BindStatus)


_BIND = msgspec.json.Decoder(_Bind)


def parse_bind(raw: bytes) -> Bind:
    """Read a Bind, ours or one whose status LBCF in Go wrote.

    Raises:
        Malformed: it cannot be read.
    """
    found = decode(_BIND, raw)
    entries = tuple(
        Entry(e.name, e.driver, e.spec or {}, e.attributes or {})
        for e in found.spec.load_balancers or ()
    )
    shared = {
        field: getattr(found.spec, field)
        for field in WireGroupSpec.__struct_fields__
        if field not in {"load_balancers", "ensure_policy"}
    }
    spec = WireGroupSpec(load_balancers=[e.name for e in entries], **shared)
    group = to_group(WireGroup(found.metadata, spec, found.status))
    meta = group.meta
    group = attrs.evolve(
        group,
        meta=attrs.evolve(meta, key=names.bind_group_key(meta.key)),
        ensure_policy=_parse_policy(found.spec.ensure_policy),
    )
    statuses = tuple(map(_parse_status, found.status.load_balancer_statuses or ()))
    return Bind(meta, group, entries, statuses)


def _parse_policy(found: _EnsurePolicy | None) -> EnsurePolicy:
    """Read when members are ensured again."""
    if found is None or found.policy == Repeat.IF_NOT_SUCC.value:
        return EnsurePolicy()
    if found.policy != Repeat.ALWAYS.value:
        raise Malformed(f"ensurePolicy {found.policy!r} is unknown")
    if found.resync_period_in_seconds is None:
        return EnsurePolicy(Repeat.ALWAYS)
    period = timedelta(seconds=found.resync_period_in_seconds)
    return EnsurePolicy(Repeat.ALWAYS, period)


def _parse_status(found: _EntryStatus) -> EntryStatus:
    """Read how one load balancer is."""
    return EntryStatus(
        found.name,
        found.driver,
        spec=found.spec,
        info=found.info or None,
        synced=found.synced,
        leaving_since=found.leaving_since,
        retry_after=found.retry_after,
        epoch=found.epoch,
        lock_keys=tuple(found.lock_keys or ()),
        conditions=parse_conditions(found.conditions),
    )


def render_statuses(statuses: Iterable[EntryStatus]) -> dict[str, object]:
    """Patch the whole list; it needs compare-and-swap."""
    return {"status": {"loadBalancerStatuses": [_render(s) for s in statuses]}}


def _render(status: EntryStatus) -> dict[str, object]:
    """Write how one load balancer is; what is unsaid is left out."""
    leaving, retry = status.leaving_since, status.retry_after
    body: dict[str, object] = {
        "name": status.name,
        "driver": status.driver,
        "lbSpec": None if status.spec is None else dict(status.spec),
        "lbInfo": None if status.info is None else dict(status.info),
        "lastSyncedAttributes": None if status.synced is None else dict(status.synced),
        "deletionTimestamp": leaving and render_time(leaving),
        "retryAfter": retry and render_time_after(retry),
        "epoch": status.epoch or None,
        "lockKeys": list(status.lock_keys) or None,
        "conditions": render_conditions(status.conditions),
    }
    return {key: value for key, value in body.items() if value is not None}
