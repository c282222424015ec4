"""`plan`: what the controller would write for a group if it looked at it now."""

from collections.abc import Iterator
from datetime import datetime

import attrs

from lbcf.controller.decision import doubts_of, guarded_plan, postponed_creates
from lbcf.controller.snapshot import take_snapshot
from lbcf.core.model.cluster import Snapshot
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    RecordSpec,
    backend_name,
)
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.plan import Plan, Update
from lbcf.core.selection.replacement import order_replacements
from lbcf.ctl.reading import Reading
from lbcf.ctl.report import object_ref
from lbcf.kube.kinds import DRIVERS, LOAD_BALANCERS


@attrs.frozen
class GroupPlan:
    """A group as the controller would see it now.

    Attributes:
        snapshot: all that decides, or why nothing is decided.
        plan: what would be written; None where nothing is decided.
    """

    group: BackendGroup
    snapshot: Snapshot | Explanation
    plan: Plan | None = None

    @property
    def doubts(self) -> tuple[Explanation, ...]:
        """Return why some or all of the group is left as it is."""
        if isinstance(self.snapshot, Explanation):
            return (self.snapshot,)
        return (*doubts_of(self.snapshot), *postponed_creates(self.plan or Plan()))


@attrs.frozen
class RecordChange:
    """One record that would be written, or is held.

    Attributes:
        what: create, update, delete, or hold.
        reason: the word for it, empty where there is no need of one.
    """

    what: str
    record: str
    load_balancer: str
    backend: str
    address: str
    reason: str
    message: str


@attrs.frozen
class PlanReport:
    """All changes.

    Attributes:
        changes: deletions first, as they are written.
        kept: records that stay as they are, and rightly.
        doubts: why some or all of the group is left as it is.
    """

    namespace: str
    subject: str
    changes: tuple[RecordChange, ...]
    kept: int
    selected: int
    unready: int
    doubts: tuple[str, ...]
    unread: tuple[str, ...]


def plan_group(reading: Reading, group: BackendGroup, now: datetime) -> GroupPlan:
    """Plan a group as the controller does.

    What a driver answered about unready pods (policy Webhook) only the controller
    knows: here such pods stay as they are.
    """
    right = reading.missing_for(group)
    if right is not None:
        return GroupPlan(group, Explanation(Reason.NOT_READ, f"we {right}"))
    unreadable = reading.view.groups.unreadable.get(group.meta.key)
    if unreadable is not None:
        return GroupPlan(group, Explanation(Reason.GROUP_UNREADABLE, unreadable))
    snapshot = take_snapshot(reading.view, group)
    if isinstance(snapshot, Explanation):
        return GroupPlan(group, snapshot)
    undecided = {
        name: _not_read(reading, group.load_balancer_key(name)) or reason
        for name, reason in snapshot.undecided.items()
    }
    # Nodes are read only for groups of nodes: of a pod's we do not know whether it is gone.
    snapshot = attrs.evolve(snapshot, undecided=undecided, nodes_gone=frozenset())
    plan = order_replacements(guarded_plan(snapshot), snapshot, now)
    # What is held because we may not read something, the controller may well change.
    holds = tuple(hold for hold in plan.holds if hold.reason != Reason.NOT_READ)
    return GroupPlan(group, snapshot, attrs.evolve(plan, holds=holds))


def _not_read(reading: Reading, key: ObjectKey) -> Explanation | None:
    """Return which missing right leaves a load balancer undecided, for us alone."""
    if reading.is_forbidden(LOAD_BALANCERS, key):
        right = reading.missing_right(LOAD_BALANCERS, key.namespace)
        return Explanation(Reason.NOT_READ, f"LoadBalancer {key}: we {right}")
    balancer = reading.view.load_balancers.get(key)
    if balancer is None or not reading.is_forbidden(DRIVERS, balancer.driver_key):
        return None
    driver = balancer.driver_key
    right = reading.missing_right(DRIVERS, driver.namespace)
    return Explanation(Reason.NOT_READ, f"LoadBalancerDriver {driver}: we {right}")


def plan_report(reading: Reading, group: BackendGroup, now: datetime) -> PlanReport:
    """Report what the controller would write for a group."""
    planned = plan_group(reading, group, now)
    plan = planned.plan or Plan()
    return PlanReport(
        namespace=group.meta.key.namespace,
        subject=object_ref("bg", group.meta.key),
        changes=tuple(_changes(plan)),
        kept=plan.kept,
        selected=plan.backends,
        unready=plan.unready,
        doubts=tuple(_doubts(planned)),
        unread=reading.unread(),
    )


def _doubts(planned: GroupPlan) -> Iterator[str]:
    yield from (f"{doubt.reason}: {doubt.message}" for doubt in planned.doubts)
    webhook, plan = planned.group.webhook, planned.plan
    if webhook is not None and (plan is None or plan.unready):
        yield (
            f"driver {webhook.driver} says what becomes of unready pods, to the "
            "controller alone; here they stay as they are"
        )


def _changes(plan: Plan) -> Iterator[RecordChange]:
    for removal in plan.removals:
        yield _change("delete", removal.record, removal.reason, removal.message)
    for update in plan.updates:
        yield _change("update", update.record, "", _changed_fields(update))
    for create in plan.creates:
        desired = create.desired
        yield RecordChange(
            what="create",
            record=create.name,
            load_balancer=desired.spec.load_balancer,
            backend=backend_name(desired.spec.backend),
            address=desired.address,
            reason="",
            message="" if desired.address else "its driver says the address",
        )
    for hold in plan.holds:
        yield _change("hold", hold.record, hold.reason, hold.message)


def _changed_fields(update: Update) -> str:
    before, after = update.record.spec, update.spec
    names = [field.name for field in attrs.fields(RecordSpec)]
    changed = (n for n in names if getattr(before, n) != getattr(after, n))
    return ", ".join(name.replace("_", " ") for name in changed)


def _change(
    what: str, record: BackendRecord, reason: str, message: str
) -> RecordChange:
    return RecordChange(
        what=what,
        record=record.meta.key.name,
        load_balancer=record.spec.load_balancer,
        backend=backend_name(record.spec.backend),
        address=record.address,
        reason=reason,
        message=message,
    )
