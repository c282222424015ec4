"""The readiness gate of a pod: is it open, and whom does it wait for?

A rollout goes on, and old pods go, as new ones become Ready. With our gate a pod is Ready only
once it is registered at every load balancer that a group wants it at (KEP-580). The gate is
latched: what happens at load balancers later never takes a pod out of Ready.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta

import attrs

from lbcf.core.model import conditions
from lbcf.core.model.cluster import Snapshot
from lbcf.core.model.resources import (
    GATE_TIMEOUT,
    BackendGroup,
    BackendRecord,
    PodRef,
)
from lbcf.core.model.values import Gate, ObjectKey, Uid
from lbcf.core.model.verdicts import Eligible
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.desired import DesiredRecord, desired_records, judge_all
from lbcf.core.selection.hand_drain import drained_group
from lbcf.core.selection.legacy import with_uids
from lbcf.core.selection.plan import plan_group
from lbcf.core.wording import some_of


@attrs.frozen
class Claim:
    """What one group wants of a pod.

    Attributes:
        group: that selects the pod.
        snapshot: of that pod alone, or why nothing can be decided.
        optional: names of load balancers that gates do not wait for.
        unchecked: uids of registered records that wait for their load balancer's first
            checks, as far as it is known.
    """

    group: BackendGroup
    snapshot: Snapshot | Explanation
    optional: Collection[str] = ()
    unchecked: Collection[Uid] = ()


@attrs.frozen
class Wait:
    """What a gate waits for.

    Attributes:
        group: whose.
        what: a load balancer, or the group itself.
        why: it is not registered there.
        timeout: after which it is not waited for; None: it always is.
    """

    group: ObjectKey
    what: str
    why: Explanation
    timeout: timedelta | None

    def __str__(self) -> str:
        """Write it for people."""
        return f"{self.what} (group {self.group.name}): {self.why.message}"


@attrs.frozen
class OpenGate(Explanation):
    """The gate is to be opened, and why."""


@attrs.frozen
class KeepShut:
    """The gate waits.

    Attributes:
        waits: for whom, at least one.
        again: when one of them is not waited for any more; None: never by time alone.
    """

    waits: tuple[Wait, ...]
    again: timedelta | None = None


def decide_gate(
    claims: Iterable[Claim], unclear: Iterable[Wait], waited: timedelta
) -> OpenGate | KeepShut:
    """Decide about the gate of a pod that can serve, and is not being deleted.

    Args:
        claims: of all groups that select the pod.
        unclear: what cannot be understood, and may be a group that selects it.
        waited: for how long the gate has kept a pod that can serve from being Ready.
    """
    known = [claim for claim in claims if claim.group.meta.deleting_since is None]
    waits = [*unclear, *(wait for claim in known for wait in waits_of(claim))]
    left = tuple(w for w in waits if w.timeout is None or waited < w.timeout)
    if left:
        rests = [w.timeout - waited for w in left if w.timeout is not None]
        return KeepShut(left, min(rests, default=None))
    if waits:
        names = some_of([str(wait) for wait in waits], separator="; ", last="; and ")
        message = f"not registered after {waited.total_seconds():.0f} s: {names}"
        return OpenGate(Reason.GATE_TIMED_OUT, message)
    return _opened(known)


def _opened(claims: list[Claim]) -> OpenGate:
    if not claims:
        message = "no BackendGroup and no Bind selects this pod"
        return OpenGate(Reason.NO_GROUP_SELECTS, message)
    places = sorted({name for claim in claims for name in _required(claim)})
    if not places:
        message = "no load balancer is required by the groups that select this pod"
        return OpenGate(Reason.NOTHING_REQUIRED, message)
    message = f"registered at {some_of(places)}"
    return OpenGate(Reason.ALL_REGISTERED, message)


def _required(claim: Claim) -> Iterator[str]:
    if isinstance(claim.snapshot, Snapshot) and not _is_optional(claim.group):
        names = claim.snapshot.attachments
        yield from (name for name in names if name not in claim.optional)


def _is_optional(group: BackendGroup) -> bool:
    # All of a group that is drained by hand is out, old pods and new ones: a rollout changes
    # nothing about that.
    return group.gate is Gate.OPTIONAL or drained_group(group) is not None


def waits_of(claim: Claim) -> Iterator[Wait]:
    """Yield what the gate of a pod waits for, as far as one group goes."""
    group, snapshot = claim.group, claim.snapshot
    if _is_optional(group):
        return
    key, timeout = group.meta.key, group.gate_timeout
    if isinstance(snapshot, Explanation):
        yield Wait(key, "the group", snapshot, timeout)
        return
    for name, why in snapshot.undecided.items():
        if name not in claim.optional:
            yield Wait(key, name, why, timeout)
    known = with_uids(snapshot.records, snapshot.pods)
    snapshot = attrs.evolve(snapshot, records=known)
    for desired in _missing(snapshot, claim.unchecked):
        name = desired.spec.load_balancer
        if name not in claim.optional:
            why = _why_missing(desired, snapshot, claim.unchecked)
            yield Wait(key, name, why, timeout)


def _missing(snapshot: Snapshot, unchecked: Collection[Uid]) -> Iterator[DesiredRecord]:
    """Yield what a pod should be in service as, and is not."""
    going = {removal.record.meta.uid for removal in plan_group(snapshot).removals}
    out = going.union(unchecked)
    inside = {
        (record.spec.load_balancer, record.spec.backend)
        for record in snapshot.records
        if is_serving(record) and record.meta.uid not in out
    }
    eligible = {str(pod.meta.uid): Eligible() for pod in snapshot.pods}
    for desired in desired_records(snapshot, eligible):
        if desired.identity not in inside:
            yield desired


def is_serving(record: BackendRecord) -> bool:
    """Return whether a record's member gets new traffic, as far as it is known."""
    said = conditions.find(record.status.conditions, conditions.IN_SERVICE)
    is_down = said is not None and said.status is False
    return record.is_in and not record.is_deleting and not is_down


def _why_missing(
    desired: DesiredRecord, snapshot: Snapshot, unchecked: Collection[Uid]
) -> Explanation:
    """Return what stands in the way of a registration, in the best words that there are."""
    backend = desired.spec.backend
    port = f"port {backend.port}" if isinstance(backend, PodRef) else "it"
    records = [r for r in snapshot.records if r.spec.backend == backend]
    for record in records:
        if record.spec.load_balancer == desired.spec.load_balancer:
            if record.meta.uid in unchecked and is_serving(record):
                return _awaiting_checks(record)
            return _why_not_in(record, port)
    for verdict in judge_all(snapshot).values():
        if not isinstance(verdict, Eligible):
            return verdict
    message = f"the record of {port} is not written yet"
    return Explanation(Reason.AWAITING_REGISTRATION, message)


def _awaiting_checks(record: BackendRecord) -> Explanation:
    message = (
        f"record {record.meta.key.name}: {record.spec.load_balancer} sends it nothing "
        "before its own checks have passed"
    )
    return Explanation(Reason.AWAITING_REGISTRATION, message)


def _why_not_in(record: BackendRecord, port: str) -> Explanation:
    name, said = record.meta.key.name, record.status.conditions
    for kind in (conditions.IN_SERVICE, conditions.REGISTERED):
        found = conditions.find(said, kind)
        if found is None or found.status is True:
            continue
        if found.message and found.reason != Reason.NOT_LISTED:
            message = f"record {name}: {found.message}"
            return Explanation(Reason.AWAITING_REGISTRATION, message)
    doing = "being deregistered" if record.is_deleting else "being registered"
    message = f"{port} is {doing} by record {name}"
    return Explanation(Reason.AWAITING_REGISTRATION, message)


def unclear_group(key: ObjectKey, told: str) -> Wait:
    """Return that a group, which may select the pod, cannot be understood."""
    why = Explanation(Reason.GROUP_UNREADABLE, f"it cannot be understood: {told}")
    return Wait(key, "the group", why, GATE_TIMEOUT)
