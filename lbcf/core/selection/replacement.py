"""In which order pods of a group replace each other at a load balancer.

`RegisterFirst`: a pod that is being deleted and still serves stays registered as long as a
ready one is on its way in for it. It stays until that one is registered, and no longer than
its own deadline: its deletionTimestamp, the moment of the request plus the grace period
(`BeforeDelete` in k8s.io/apiserver/pkg/registry/rest/delete.go), at which it is killed; with
the drain gate the moment at which its preStop hook gives up, and it gets SIGTERM. A drain is
begun in time to be complete by then, unless a new pod is about to be registered.

`DeregisterFirst`, where a load balancer has no room for both: each member that leaves keeps
one new pod waiting.

Nothing is remembered: each look decides from the pods, the records and the moment.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain

import attrs

from lbcf.core.model.cluster import Pod, Snapshot
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, PodRef, RecordSpec
from lbcf.core.model.values import Port, ReplaceOrder
from lbcf.core.reasons import Reason
from lbcf.core.selection.location import backend_key
from lbcf.core.selection.plan import Create, Hold, Plan, Removal


_CALLS = timedelta(seconds=2)
"""For the record's deletion and the driver's call, before the pod's deadline."""

_Lane = tuple[str, Port]
"""A load balancer and a port: whose members can stand in for each other."""


@attrs.frozen
class _Leaver:
    """A member that can still serve, and is to be removed.

    Attributes:
        drain_at: until then its drain can wait and be complete in time.
        ends_at: until then it can stay at all.
    """

    removal: Removal
    drain_at: datetime
    ends_at: datetime


@attrs.frozen
class _Comer:
    """A ready pod that is not registered yet.

    Attributes:
        host: where it is by its own word.
        is_failing: what registers it has had trouble, and written it down.
    """

    host: str
    is_failing: bool = False


def order_replacements(plan: Plan, snapshot: Snapshot, now: datetime) -> Plan:
    """Return a plan with what is not to be done yet taken out.

    Args:
        plan: what would be written at once.
        snapshot: that it was made of. It has all pods of the group that leave and still
            serve, and all that are ready and not registered.
        now: the moment.
    """
    if snapshot.group.replace_order is ReplaceOrder.DEREGISTER_FIRST:
        return _postpone(plan, snapshot)
    leaving = _leavers(plan, snapshot, now)
    if not leaving:
        return plan
    coming = _comers(plan, snapshot)
    allowed = snapshot.group.max_unavailable
    kept = [
        leaver
        for lane, found in leaving.items()
        for leaver in _kept(found, coming[lane], allowed, now)
    ]
    held = {leaver.removal.record.meta.uid for leaver in kept}
    moments = (m for k in kept for m in (k.drain_at, k.ends_at) if m > now)
    return attrs.evolve(
        plan,
        removals=tuple(r for r in plan.removals if r.record.meta.uid not in held),
        holds=(*plan.holds, *(_hold(leaver) for leaver in kept)),
        due=min(moments, default=None),
    )


def still_serves(pod: Pod, nodes_gone: Collection[str] = ()) -> bool:
    """Return whether a pod is being deleted, and serves as long as it is there."""
    return pod.is_terminating and pod.is_ready and pod.node not in nodes_gone


def _leavers(
    plan: Plan, snapshot: Snapshot, now: datetime
) -> Mapping[_Lane, list[_Leaver]]:
    serving = {
        str(pod.meta.uid): pod
        for pod in snapshot.pods
        if still_serves(pod, snapshot.nodes_gone)
    }
    found: defaultdict[_Lane, list[_Leaver]] = defaultdict(list)
    for removal in plan.removals:
        record, pod = removal.record, serving.get(backend_key(removal.record))
        lane = _lane_of(record.spec)
        if removal.reason != Reason.POD_TERMINATING or not record.is_in:
            continue
        if pod is None or lane is None or pod.serves_until is None:
            continue
        ends_at = pod.serves_until - _CALLS
        if now < ends_at:
            leaver = _Leaver(removal, ends_at - _drain_of(record, snapshot), ends_at)
            found[lane].append(leaver)
    return found


def _drain_of(record: BackendRecord, snapshot: Snapshot) -> timedelta:
    attachment = snapshot.attachments[record.spec.load_balancer]
    drains = attachment.driver.declares(Operation.DRAIN_BACKEND)
    return record.spec.drain.longest if drains else timedelta(0)


def _comers(plan: Plan, snapshot: Snapshot) -> Mapping[_Lane, list[_Comer]]:
    found: defaultdict[_Lane, list[_Comer]] = defaultdict(list)
    new = ((c.desired.spec, _Comer(c.desired.spec.host)) for c in plan.creates)
    for spec, comer in chain(new, _not_registered_yet(plan, snapshot)):
        if (lane := _lane_of(spec)) is not None:
            found[lane].append(comer)
    return found


def _not_registered_yet(
    plan: Plan, snapshot: Snapshot
) -> Iterator[tuple[RecordSpec, _Comer]]:
    """Find the records of ready pods that are on their way in."""
    ready = {
        str(pod.meta.uid)
        for pod in snapshot.pods
        if pod.is_ready and not pod.is_terminating
    }
    going = {removal.record.meta.uid for removal in plan.removals}
    for record in snapshot.records:
        if record.is_deleting or record.is_in or record.meta.uid in going:
            continue
        if backend_key(record) in ready:
            yield record.spec, _Comer(record.spec.host, record.has_failed)


def _lane_of(spec: RecordSpec) -> _Lane | None:
    match spec.backend:
        case PodRef(port=port):
            return spec.load_balancer, port
        case _:
            return None


def _kept(
    leavers: Iterable[_Leaver],
    comers: Collection[_Comer],
    allowed: int,
    now: datetime,
) -> list[_Leaver]:
    """Return who stays at one load balancer: those who can serve longest."""
    # Two pods at one address and port: the second comes in when the first has left.
    claimed = {comer.host for comer in comers if comer.host}
    all_of_them = len(comers) - allowed
    # A drain is cut short for whoever is registered by the next calls, and not for one
    # that a driver refuses, or does not answer, for as long as the old pod lives.
    promising = sum(1 for comer in comers if not comer.is_failing) - allowed
    kept: list[_Leaver] = []
    for leaver in sorted(leavers, key=_staying_power):
        most = all_of_them if now < leaver.drain_at else promising
        if leaver.removal.record.spec.host not in claimed and len(kept) < most:
            kept.append(leaver)
    return kept


def _staying_power(leaver: _Leaver) -> tuple[float, str]:
    return (-leaver.ends_at.timestamp(), leaver.removal.record.meta.key.name)


def _hold(leaver: _Leaver) -> Hold:
    removal, latest = leaver.removal, leaver.ends_at
    message = (
        f"{removal.message}; it serves at {removal.record.spec.load_balancer} until pods "
        f"that are ready are registered there, at the latest until {latest:%H:%M:%S} UTC"
    )
    return Hold(removal.record, Reason.AWAITING_REPLACEMENT, message)


def _postpone(plan: Plan, snapshot: Snapshot) -> Plan:
    """Leave out as many creates as there are members that leave the same target."""
    leaving = Counter(
        _target_of(record.spec)
        for record in chain(
            (removal.record for removal in plan.removals),
            (record for record in snapshot.records if record.is_deleting),
        )
    )
    kept: list[Create] = []
    for create in plan.creates:
        target = _target_of(create.desired.spec)
        if leaving[target] > 0:
            leaving[target] -= 1
        else:
            kept.append(create)
    postponed = len(plan.creates) - len(kept)
    return attrs.evolve(plan, creates=tuple(kept), postponed=postponed)


def _target_of(spec: RecordSpec) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    return (spec.load_balancer, spec.driver, tuple(sorted(spec.lb_info.items())))
