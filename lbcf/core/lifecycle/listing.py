"""What listBackends says of a load balancer: lost members, drift, and failures to list.

A new epoch in the answer means that the load balancer has lost its members: their records
are registered again. Epochs that change all the time, as two processes of one driver
with an epoch each answer in turn, are acted on at growing intervals only.

A registered member that is missing under the same epoch was taken out by hand. That is
shown in condition Drifted and otherwise respected: only ensurePolicy Always puts it back.
Condition Reachable says whether they can be listed, and why not: resets go unseen
meanwhile. When that is told is decided by `lbcf.core.lifecycle.steadiness`.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import attrs

from lbcf.core.backoff import delay_for
from lbcf.core.lifecycle.steps import CallFailure
from lbcf.core.lifecycle.turn import describe_failure
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    BackendRecord,
    LoadBalancer,
    LoadBalancerDriver,
    RecordStatus,
)
from lbcf.core.model.values import Listed, MemberKey, Uid
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.wording import some_of


def can_drift(record: BackendRecord) -> bool:
    """Return whether a record's member must be in the load balancer."""
    return not record.is_deleting and record.is_registered


def missing_members(
    records: Iterable[BackendRecord], listed: Iterable[Listed], member_key: MemberKey
) -> tuple[BackendRecord, ...]:
    """Return the records whose member is not listed."""
    there = tuple(listed)
    named = member_key is MemberKey.RECORD
    # Where members are named after records, a member of the same address may be another
    # record's: only one whose record the driver does not know counts by address.
    ids = {record_id for _, record_id in there if record_id and named}
    known = {address for address, record_id in there if not (named and record_id)}
    return tuple(
        record
        for record in records
        if record.meta.uid not in ids and record.address not in known
    )


def drift_of(
    load_balancer: LoadBalancer, missing: tuple[BackendRecord, ...]
) -> Condition | None:
    """Return the condition Drifted, None where it was never set and nothing is missing."""
    generation = load_balancer.meta.generation
    if missing:
        ordered = sorted(missing, key=lambda record: record.meta.key)
        names = [f"{record.address} of {record.meta.key}" for record in ordered]
        message = (
            f"{len(missing)} registered members are not there, and were not taken out "
            f"by us: {some_of(names)}; ensurePolicy Always puts them back by period, "
            "else change the group's parameters or delete the records"
        )
        return Condition(
            conditions.DRIFTED, True, Reason.MEMBERS_MISSING, message, generation
        )
    if conditions.find(load_balancer.conditions, conditions.DRIFTED) is None:
        return None
    message = "every registered member is there"
    return Condition(conditions.DRIFTED, False, Reason.IN_STEP, message, generation)


def orphans_of(
    records: Iterable[BackendRecord], listed: Iterable[Listed], member_key: MemberKey
) -> tuple[Listed, ...]:
    """Return the members that were registered for records other than these.

    Of a member whose record its driver does not name nothing can be said. Where members
    are known by their addresses, one whose address a record has is that record's.

    Args:
        records: of the load balancer, also those that are being deleted.
        listed: its members.
        member_key: by what members are told apart.
    """
    present = tuple(records)
    uids = {record.meta.uid for record in present}
    named = member_key is MemberKey.RECORD
    held = frozenset[str]() if named else {record.address for record in present}
    return tuple(m for m in listed if m[1] and m[1] not in uids and m[0] not in held)


def orphaned(
    load_balancer: LoadBalancer, orphans: tuple[Listed, ...]
) -> Condition | None:
    """Return the condition Orphaned, None where it was never set and there are none."""
    generation = load_balancer.meta.generation
    if orphans:
        names = [f"{address} of {record_id}" for address, record_id in sorted(orphans)]
        noun = "member belongs" if len(orphans) == 1 else "members belong"
        message = (
            f"{len(orphans)} {noun} to no record of this cluster, and may get traffic: "
            f"{some_of(names)}"
        )
        reason = Reason.MEMBERS_ORPHANED
        return Condition(conditions.ORPHANED, True, reason, message, generation)
    if conditions.find(load_balancer.conditions, conditions.ORPHANED) is None:
        return None
    message = "every member that its driver lists belongs to a record"
    return Condition(conditions.ORPHANED, False, Reason.NO_ORPHANS, message, generation)


AT_ONCE = 3
"""How many resets in a row are acted on without waiting."""
CALM = timedelta(minutes=10)
"""After so long without a reset the next one is the first again."""
_BASE = timedelta(seconds=10)
_CAP = timedelta(minutes=5)


@attrs.frozen
class Epochs:
    """The epochs of one load balancer that were read and acted on.

    Attributes:
        epoch: the last one that was acted on; empty: none yet.
        resets: how many there were in a row.
        reset_at: monotonic seconds of the last one.
    """

    epoch: str = ""
    resets: int = 0
    reset_at: float = 0.0

    def rest(self, now: float) -> timedelta:
        """Return how long to wait before a reset is acted on; zero: no longer."""
        passed = timedelta(seconds=now - self.reset_at)
        in_a_row = self.resets - AT_ONCE + 1
        if in_a_row < 1:
            return timedelta(0)
        wait = delay_for(in_a_row, 0.0, base=_BASE, cap=_CAP)
        return max(wait - passed, timedelta(0))

    def changes(self, now: float) -> int:
        """Return the number of resets in a row; 0 where so few are plausible."""
        is_calm = timedelta(seconds=now - self.reset_at) >= CALM
        return 0 if is_calm or self.resets <= AT_ONCE else self.resets

    def acted_on(self, epoch: str) -> "Epochs":
        """Return the state after the first epoch, or after one without a loss."""
        return attrs.evolve(self, epoch=epoch)

    def after_reset(self, epoch: str, now: float) -> "Epochs":
        """Return the state after an epoch whose members all have to be put back."""
        is_calm = timedelta(seconds=now - self.reset_at) >= CALM
        return Epochs(epoch, 1 if is_calm else self.resets + 1, now)


def lost_members(
    records: Iterable[BackendRecord],
    listed: Iterable[Listed],
    member_key: MemberKey,
    epoch_before: str,
) -> tuple[BackendRecord, ...]:
    """Return the records whose member a load balancer with a new epoch may have lost."""
    # Also those that are not Registered yet: their success may be older than the loss, and
    # they would become Registered without a member (w28).
    may_be_in = [r for r in records if not r.is_deleting and r.address]
    if epoch_before:
        return tuple(may_be_in)
    # Without a known epoch nobody can tell whether there was a reset: whatever is not
    # listed counts as lost (w38).
    return missing_members(may_be_in, listed, member_key)


def lost_elsewhere(record: BackendRecord, why: str, now: datetime) -> RecordStatus:
    """Return the status of a record that another shard registers, whose member was lost.

    `ensuring` stays as it is: who writes this calls nobody for the record.
    """
    generation, reason = record.meta.generation, Reason.LOAD_BALANCER_RESET
    condition = Condition(conditions.REGISTERED, False, reason, why, generation)
    said = conditions.with_condition(record.status.conditions, condition, now)
    return attrs.evolve(record.status, conditions=said)


@attrs.frozen
class Loss:
    """A reset whose members are being put back.

    Attributes:
        before: the epoch before it.
        epoch: that was read.
        members: whose member was lost.
        seen_at: monotonic seconds at which it was seen.
    """

    before: str
    epoch: str
    members: frozenset[Uid]
    seen_at: float

    @property
    def story(self) -> str:
        """Return what has happened."""
        noun = "member" if len(self.members) == 1 else "members"
        return (
            f"the load balancer was reset and has lost its {len(self.members)} {noun} "
            f"(epoch {self.epoch}, before {self.before}); what it lost is being put back"
        )


def being_restored(load_balancer: LoadBalancer, loss: Loss) -> Condition:
    """Return the condition Restored while members are put back."""
    generation = load_balancer.meta.generation
    reason = Reason.LOAD_BALANCER_RESET
    return Condition(conditions.RESTORED, False, reason, loss.story, generation)


def restored(
    load_balancer: LoadBalancer, loss: Loss | None, back: int, now: float
) -> Condition:
    """Return the condition Restored once every member is put back, or has gone.

    Args:
        load_balancer: that was reset.
        loss: what was lost; None: an earlier process saw that.
        back: how many of them are registered again.
        now: monotonic seconds.
    """
    message = "every member that was lost is registered again, or gone"
    if loss is not None:
        gone = len(loss.members) - back
        others = f"; {gone} left meanwhile" if gone else ""
        message = (
            f"{back} of {len(loss.members)} members that were lost are registered again, "
            f"{now - loss.seen_at:.0f} s after that was seen{others}"
        )
    reason, generation = Reason.MEMBERS_PUT_BACK, load_balancer.meta.generation
    return Condition(conditions.RESTORED, True, reason, message, generation)


RETOLD = timedelta(minutes=1)
"""How soon another message of the same reason is written."""

_UNSEEN = "; that it loses its members goes unseen as long as this lasts"


def unreachable(
    load_balancer: LoadBalancer, driver: LoadBalancerDriver, trouble: CallFailure
) -> Condition:
    """Return the condition Reachable of a load balancer whose members are not listed."""
    why = describe_failure(trouble, driver, Operation.LIST_BACKENDS)
    return _condition(load_balancer, False, why.reason, why.message + _UNSEEN)


def reachable(load_balancer: LoadBalancer, epochs: Epochs, now: float) -> Condition:
    """Return the condition Reachable after a listing."""
    if changes := epochs.changes(now):
        message = (
            f"listBackends has shown another epoch {changes} times in a row, the last "
            f"one {epochs.epoch}: the load balancer loses its members again and again, "
            "or several processes of the driver answer with an epoch each; members are "
            "put back every few minutes only until that ends"
        )
        return _condition(load_balancer, False, Reason.EPOCH_CHANGING, message)
    message = "its driver lists its members"
    return _condition(load_balancer, True, Reason.REACHABLE, message)


def not_asked(load_balancer: LoadBalancer, why: Explanation | None) -> Condition:
    """Return the condition Reachable of a load balancer that cannot be read.

    Args:
        load_balancer: whose members nobody lists.
        why: there is no driver to ask; None: it does not declare listBackends.
    """
    if why is not None:
        return _condition(load_balancer, None, why.reason, why.message)
    message = f"driver {load_balancer.driver_key} does not declare listBackends"
    return _condition(load_balancer, None, Reason.NOT_LISTED, message)


def _condition(
    load_balancer: LoadBalancer, status: bool | None, reason: Reason, message: str
) -> Condition:
    """Make the condition."""
    old = conditions.find(load_balancer.conditions, conditions.REACHABLE)
    generation = load_balancer.meta.generation
    # It is not about the spec: a change of that alone is worth no write.
    if old is not None and (old.status, old.reason) == (status, reason):
        generation = old.observed_generation
    return Condition(conditions.REACHABLE, status, reason, message, generation)
