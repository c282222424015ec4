"""The difference between the records that should be and those that are.

Before it: `lbcf.core.desired`. After it: `lbcf.core.guards` may hold removals, then
`lbcf.controller.apply` writes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import attrs

from lbcf.core.cluster import Snapshot
from lbcf.core.desired import (
    DesiredRecord,
    Identity,
    desired_records,
    identity_of,
    judge_all,
)
from lbcf.core.eligibility import GONE, Eligible, Ineligible, Verdict, Waiting
from lbcf.core.inheritance import is_elsewhere, is_needless, with_uids
from lbcf.core.node_backends import NodeBackend, ServiceBackend
from lbcf.core.node_policy import NODE_GONE
from lbcf.core.resources import Backend, BackendRecord, PodBackend, RecordSpec


DUPLICATE = "Duplicate"
"""Another live record says the same; one of them is enough."""
DETACHED = "LoadBalancerDetached"
"""The group no longer names the load balancer, or that is being deleted."""
ADDRESS_CHANGED = "AddressChanged"
"""The backend lives on under another address; a record never changes its own."""
UNSELECTED = "Unselected"
"""The group no longer names this backend or this port."""


@attrs.frozen
class Create:
    """A record to write.

    Attributes:
        name: deterministic, unlike that of a namesake which is still being drained.
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
    reason: str
    message: str
    by_readiness: bool = False


@attrs.frozen
class Hold:
    """A live record that stays as it is although it is not desired, and why."""

    record: BackendRecord
    reason: str
    message: str


Fate = Update | Removal | Hold | None
"""What becomes of a live record; None: it stays as it is, and rightly."""


@attrs.frozen
class Plan:
    """What to write for one group.

    Attributes:
        kept: records that are as they should be.
        backends: how many backends the group selects, ready or not.
        unready: how many of them are not ready.
        waiting: nodes that cannot be judged, by name, and why.
    """

    creates: tuple[Create, ...] = ()
    updates: tuple[Update, ...] = ()
    removals: tuple[Removal, ...] = ()
    holds: tuple[Hold, ...] = ()
    kept: int = 0
    backends: int = 0
    unready: int = 0
    waiting: Mapping[str, Waiting] = attrs.Factory(dict)

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to write."""
        return not (self.creates or self.updates or self.removals)


def plan_group(snapshot: Snapshot) -> Plan:
    """Compare what should be with what is."""
    known = with_uids(snapshot.records, snapshot.pods)
    snapshot = attrs.evolve(snapshot, records=known)
    verdicts = judge_all(snapshot)
    live, leaving = _by_identity(snapshot.records)
    desired = {d.identity: d for d in desired_records(snapshot, verdicts)}
    fates: list[Fate] = []
    served: set[Identity] = set()
    for identity, records in live.items():
        for record in sorted(records, key=_seniority):
            wanted, is_served = desired.get(identity), identity in served
            fate = _fate(record, wanted, is_served, snapshot, verdicts)
            fates.append(fate)
            if not isinstance(fate, Removal):
                served.add(identity)
    return Plan(
        creates=tuple(
            Create(d, d.name(leaving.get(identity, ())))
            for identity, d in desired.items()
            if identity not in served
        ),
        updates=tuple(f for f in fates if isinstance(f, Update)),
        removals=tuple(f for f in fates if isinstance(f, Removal)),
        holds=tuple(f for f in fates if isinstance(f, Hold)),
        kept=sum(1 for f in fates if f is None),
        backends=count_backends(snapshot),
        unready=_count_unready(snapshot, verdicts),
        waiting={
            name: verdict
            for name, verdict in verdicts.items()
            if snapshot.scene is not None and isinstance(verdict, Waiting)
        },
    )


def _count_unready(snapshot: Snapshot, verdicts: Mapping[str, Verdict]) -> int:
    """Count the backends that only their readiness keeps out."""
    if snapshot.scene is None:
        return sum(1 for pod in snapshot.pods if not pod.is_ready)
    ineligible = (v for v in verdicts.values() if isinstance(v, Ineligible))
    return sum(1 for verdict in ineligible if verdict.by_readiness)


def count_backends(snapshot: Snapshot) -> int:
    """Count what a group selects, ready or not, each once (LBCF's `status.backends`)."""
    selection = snapshot.group.selection
    addresses = getattr(selection, "addresses", ())
    nodes = snapshot.scene.nodes if snapshot.scene is not None else ()
    return len(snapshot.pods) or len(nodes) or len(addresses)


def _by_identity(
    records: Iterable[BackendRecord],
) -> tuple[dict[Identity, list[BackendRecord]], dict[Identity, list[str]]]:
    """Sort records by what they are about: the live ones, and the uids of the others."""
    live: defaultdict[Identity, list[BackendRecord]] = defaultdict(list)
    leaving: defaultdict[Identity, list[str]] = defaultdict(list)
    for record in records:
        if record.is_deleting:
            leaving[identity_of(record)].append(record.meta.uid)
        else:
            live[identity_of(record)].append(record)
    return live, leaving


def _seniority(record: BackendRecord) -> tuple[bool, str]:
    """Order records that say the same: the registered one first, then by name."""
    return (not record.is_registered, record.meta.key.name)


def _fate(
    record: BackendRecord,
    wanted: DesiredRecord | None,
    is_served: bool,
    snapshot: Snapshot,
    verdicts: Mapping[str, Verdict],
) -> Fate:
    """Say what becomes of one live record."""
    name = record.spec.load_balancer
    if (undecided := snapshot.undecided.get(name)) is not None:
        return Hold(record, undecided.reason, undecided.message)
    if name not in snapshot.attachments:
        message = f"load balancer {name} is leaving group {snapshot.group.meta.key}"
        return Removal(record, DETACHED, message)
    if wanted is None:
        return _unwanted(record, snapshot, verdicts)
    if is_served:
        return Removal(record, DUPLICATE, "another record of the group says the same")
    if is_elsewhere(record, wanted.address):
        message = f"the backend is at {wanted.address} now, not at {record.address}"
        return Removal(record, ADDRESS_CHANGED, message)
    spec = _updated(record.spec, wanted.spec)
    if spec == record.spec or is_needless(record, spec):
        return None
    return Update(record, spec)


def _updated(present: RecordSpec, wanted: RecordSpec) -> RecordSpec:
    """Carry over what may change in a record's life: all but its identity."""
    return attrs.evolve(
        present,
        lb_attributes=wanted.lb_attributes,
        parameters=wanted.parameters,
        ensure_policy=wanted.ensure_policy,
        drain_timeout=wanted.drain_timeout,
    )


def _unwanted(
    record: BackendRecord, snapshot: Snapshot, verdicts: Mapping[str, Verdict]
) -> Removal | Hold:
    """Say why a record that nobody desires goes, or must wait."""
    known = _judged_as(record.spec.backend)
    if known is None:
        return Removal(record, UNSELECTED, "the group no longer lists it")
    key, told, gone = known
    match verdicts.get(key):
        case None:
            return Removal(record, gone, f"{told} is gone or no longer selected")
        case Ineligible(reason, message, by_readiness):
            return Removal(record, reason, message, by_readiness)
        case Waiting(reason, message):
            return Hold(record, reason, message)
        case Eligible():
            port = _port_of(record.spec.backend)
            message = f"{port} is no longer in group {snapshot.group.meta.key}"
            return Removal(record, UNSELECTED, message)


def _judged_as(backend: Backend) -> tuple[str, str, str] | None:
    """Say under which key a backend was judged, its name for people, its end's reason."""
    match backend:
        case PodBackend(name, uid):
            return uid, f"pod {name}", GONE
        case ServiceBackend(node=node) | NodeBackend(name=node):
            return node, f"node {node}", NODE_GONE
        case _:
            return None


def _port_of(backend: Backend) -> str:
    """Say which port of a pod or node a backend is."""
    if isinstance(backend, ServiceBackend):
        return f"node port {backend.node_port}"
    return f"port {getattr(backend, 'port', '')}"
