"""The difference between the desired records of a group and those that exist.

`lbcf.controller.apply` writes what a plan says, after removals that nothing but readiness
asks for may have been held (`hold_readiness_removals`), and those of pods that others
replace (`replacement`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

import attrs

from lbcf.core.model.cluster import Attachment, Snapshot
from lbcf.core.model.node_backends import NodeRef, ServiceRef
from lbcf.core.model.resources import Backend, BackendRecord, PodRef, RecordSpec
from lbcf.core.model.verdicts import Eligible, Ineligible, Undecided, Verdict
from lbcf.core.reasons import Reason
from lbcf.core.selection.desired import (
    DesiredRecord,
    Identity,
    desired_records,
    identity_of,
    judge_all,
)
from lbcf.core.selection.hand_drain import drained_group
from lbcf.core.selection.legacy import is_elsewhere, is_needless, with_uids
from lbcf.core.selection.location import Location, backend_key, has_moved, locations_of


_SHOWN = 200


@attrs.frozen
class Create:
    """A record to write.

    Attributes:
        name: the same at every run; another one beside a record that is still draining.
    """

    desired: DesiredRecord
    name: str


@attrs.frozen
class Update:
    """A live record whose parameters changed; it is ensured again, not deregistered."""

    record: BackendRecord
    spec: RecordSpec


@attrs.frozen
class Removal:
    """A live record to delete, and why.

    Attributes:
        by_readiness: nothing but readiness asks for it; guards may hold it.
    """

    record: BackendRecord
    reason: Reason
    message: str
    by_readiness: bool = False

    @property
    def as_seen_only(self) -> bool:
        """Return whether only the very version that was looked at may be deleted."""
        # A duplicate is one beside another record, and readiness comes back: two leaders
        # with views of different age may each delete another one, and none is left. Any
        # other reason holds for all versions of a record.
        return self.by_readiness or self.reason == Reason.DUPLICATE


@attrs.frozen
class Hold:
    """A live record that is kept as it is although it is not desired, and why."""

    record: BackendRecord
    reason: Reason
    message: str


RecordAction = Update | Removal | Hold | None
"""What to do about a live record; None: it is as desired."""


@attrs.frozen
class Plan:
    """What to write for one group.

    Attributes:
        kept: records that are as they should be.
        backends: how many backends the group selects, ready or not.
        unready: how many of them are not ready.
        waiting: nodes that cannot be judged, by name, and why.
        postponed: how many creates wait until others have left.
        due: when to look again at what is held; None: when anything changes.
    """

    creates: tuple[Create, ...] = ()
    updates: tuple[Update, ...] = ()
    removals: tuple[Removal, ...] = ()
    holds: tuple[Hold, ...] = ()
    kept: int = 0
    backends: int = 0
    unready: int = 0
    waiting: Mapping[str, Undecided] = attrs.Factory(dict)
    postponed: int = 0
    due: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to write."""
        return not (self.creates or self.updates or self.removals)


@attrs.frozen
class _Judged:
    """A snapshot with the verdict and location of each pod, by uid, or node, by name."""

    snapshot: Snapshot
    verdicts: Mapping[str, Verdict]
    locations: Mapping[str, Location]


def plan_group(snapshot: Snapshot) -> Plan:
    """Return what to write so that a group has the records that it should have."""
    known = with_uids(snapshot.records, snapshot.pods)
    snapshot = attrs.evolve(snapshot, records=known)
    verdicts = judge_all(snapshot)
    judged = _Judged(snapshot, verdicts, locations_of(snapshot))
    live, leaving = _by_identity(snapshot.records)
    desired = {d.identity: d for d in desired_records(snapshot, verdicts)}
    actions: list[RecordAction] = []
    served: set[Identity] = set()
    for identity, records in live.items():
        for record in sorted(records, key=_seniority):
            is_served = identity in served
            action = _action_for(
                record, desired.get(identity), judged, is_served=is_served
            )
            actions.append(action)
            if not isinstance(action, Removal):
                served.add(identity)
    return Plan(
        creates=tuple(
            Create(d, d.name(leaving.get(identity, ())))
            for identity, d in desired.items()
            if identity not in served
        ),
        updates=tuple(f for f in actions if isinstance(f, Update)),
        removals=tuple(f for f in actions if isinstance(f, Removal)),
        holds=tuple(f for f in actions if isinstance(f, Hold)),
        kept=sum(1 for f in actions if f is None),
        backends=count_backends(snapshot),
        unready=_count_unready(snapshot, verdicts),
        waiting={
            name: verdict
            for name, verdict in verdicts.items()
            if snapshot.scene is not None and isinstance(verdict, Undecided)
        },
    )


def _count_unready(snapshot: Snapshot, verdicts: Mapping[str, Verdict]) -> int:
    if snapshot.scene is None:
        return sum(1 for pod in snapshot.pods if not pod.is_ready)
    ineligible = (v for v in verdicts.values() if isinstance(v, Ineligible))
    return sum(1 for verdict in ineligible if verdict.by_readiness)


def count_backends(snapshot: Snapshot) -> int:
    """Return how many backends a group selects, ready or not, each counted once."""
    selection = snapshot.group.selection
    addresses = getattr(selection, "addresses", ())
    nodes = snapshot.scene.nodes if snapshot.scene is not None else ()
    return len(snapshot.pods) or len(nodes) or len(addresses)


def _by_identity(
    records: Iterable[BackendRecord],
) -> tuple[dict[Identity, list[BackendRecord]], dict[Identity, list[str]]]:
    """Group live records by identity, and the uids of those being deleted."""
    live: defaultdict[Identity, list[BackendRecord]] = defaultdict(list)
    leaving: defaultdict[Identity, list[str]] = defaultdict(list)
    for record in records:
        if record.is_deleting:
            leaving[identity_of(record)].append(record.meta.uid)
        else:
            live[identity_of(record)].append(record)
    return live, leaving


def _seniority(record: BackendRecord) -> tuple[bool, str]:
    return (not record.is_registered, record.meta.key.name)


def _action_for(
    record: BackendRecord,
    wanted: DesiredRecord | None,
    judged: _Judged,
    *,
    is_served: bool,
) -> RecordAction:
    """Decide about one live record."""
    name, snapshot = record.spec.load_balancer, judged.snapshot
    if (undecided := snapshot.undecided.get(name)) is not None:
        return Hold(record, undecided.reason, undecided.message)
    if name not in snapshot.attachments:
        group, why = snapshot.group.meta.key, snapshot.leaving.get(name)
        gone = f"group {group} does not name load balancer {name} any more"
        return Removal(
            record, Reason.LOAD_BALANCER_DETACHED, gone if why is None else why.message
        )
    attachment = snapshot.attachments[name]
    lost = _replaced(record, attachment) or _moved(record, judged, attachment)
    if lost is not None:
        return lost
    if wanted is None:
        return _unwanted(record, judged)
    if is_served:
        return Removal(
            record, Reason.DUPLICATE, "another record of the group says the same"
        )
    if is_elsewhere(record, wanted.address):
        message = f"the backend is at {wanted.address} now, not at {record.address}"
        return Removal(record, Reason.ADDRESS_CHANGED, message)
    spec = _updated(record.spec, wanted.spec)
    if spec == record.spec or is_needless(record, spec):
        return None
    return Update(record, spec)


def _updated(present: RecordSpec, wanted: RecordSpec) -> RecordSpec:
    return attrs.evolve(
        present,
        lb_attributes=wanted.lb_attributes,
        parameters=wanted.parameters,
        ensure_policy=wanted.ensure_policy,
        drain=wanted.drain,
    )


def _replaced(record: BackendRecord, attachment: Attachment) -> Removal | None:
    # A LoadBalancer outlives its records unless its finalizer was taken off by hand or the
    # object was restored from a backup: then it stands for another one.
    spec, now = record.spec, attachment.load_balancer
    if now.is_of(spec):
        return None
    message = (
        f"LoadBalancer {now.meta.key} was made anew: it is {_identity(now.info)} of "
        f"driver {now.driver}, and was {_identity(spec.lb_info)} of {spec.driver}"
    )
    return Removal(record, Reason.LOAD_BALANCER_REPLACED, message)


def _identity(info: Mapping[str, str] | None) -> str:
    text = ", ".join(f"{k}={v}" for k, v in sorted((info or {}).items()))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _moved(
    record: BackendRecord, judged: _Judged, attachment: Attachment
) -> Removal | None:
    now = judged.locations.get(backend_key(record))
    source = attachment.driver.address_source
    if now is None or not has_moved(record, now, source):
        return None
    was = f"{record.spec.host} {record.spec.node_uid}".strip()
    told = f"{now.host} {now.node_uid}".strip()
    message = f"{_called(record.spec.backend)} is {told} now, not {was}"
    return Removal(record, Reason.ADDRESS_CHANGED, message)


def _unwanted(record: BackendRecord, judged: _Judged) -> Removal | Hold:
    told = _called(record.spec.backend)
    if not told and (drained := drained_group(judged.snapshot.group)) is not None:
        return Removal(record, drained.reason, drained.message)
    if not told:
        return Removal(record, Reason.UNSELECTED, "the group no longer lists it")
    gone = (
        Reason.POD_GONE if isinstance(record.spec.backend, PodRef) else Reason.NODE_GONE
    )
    match judged.verdicts.get(backend_key(record)):
        case None:
            return Removal(record, gone, f"{told} is gone or no longer selected")
        case Ineligible(reason, message, by_readiness):
            return Removal(record, reason, message, by_readiness)
        case Undecided(reason, message):
            return Hold(record, reason, message)
        case Eligible():
            port = _port_of(record.spec.backend)
            group = judged.snapshot.group.meta.key
            message = f"{port} is no longer in group {group}"
            return Removal(record, Reason.UNSELECTED, message)


def strays_of(plan: Plan, snapshot: Snapshot) -> frozenset[str]:
    """Return the names of pods and nodes that stay although the group does not mean them.

    Nothing but its records tells that their end concerns the group.
    """
    meant = {pod.meta.key.name for pod in snapshot.pods}
    if snapshot.scene is not None:
        meant.update(snapshot.scene.nodes)
    held = {_backend_name(hold.record.spec.backend) for hold in plan.holds}
    return frozenset(held - meant - {""})


def _backend_name(backend: Backend) -> str:
    match backend:
        case PodRef(name=name) | ServiceRef(node=name) | NodeRef(name=name):
            return name
        case _:
            return ""


def _called(backend: Backend) -> str:
    match backend:
        case PodRef(name=name):
            return f"pod {name}"
        case ServiceRef(node=node) | NodeRef(name=node):
            return f"node {node}"
        case _:
            return ""


def _port_of(backend: Backend) -> str:
    if isinstance(backend, ServiceRef):
        return f"node port {backend.node_port}"
    return f"port {getattr(backend, 'port', '')}"


def hold_readiness_removals(plan: Plan, max_unready_percent: int | None) -> Plan:
    """Hold what only readiness asks to remove while too much of a group is unready.

    A kubelet that lost its network, or a probe that broke for all pods at once, must not
    empty a load balancer. What is gone, terminating or unselected is never held.
    """
    if max_unready_percent is None or not plan.backends:
        return plan
    if plan.unready * 100 <= max_unready_percent * plan.backends:
        return plan
    message = (
        f"{plan.unready} of {plan.backends} backends are unready, more than "
        f"protection.maxUnreadyPercent: {max_unready_percent} allows"
    )
    held = tuple(
        Hold(r.record, Reason.TOO_MANY_UNREADY, f"{r.message}; kept because {message}")
        for r in plan.removals
        if r.by_readiness
    )
    removals = tuple(r for r in plan.removals if not r.by_readiness)
    return attrs.evolve(plan, removals=removals, holds=plan.holds + held)
