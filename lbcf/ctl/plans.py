"""`plan`: what the controller would write for a group if it looked at it now.

Before it: `groups.look_at`, which plans as the controller does. After it: `tables`.
"""

from collections.abc import Iterator

import attrs

from lbcf.core.model.resources import BackendGroup, BackendRecord, RecordSpec
from lbcf.core.selection.plan import Plan, Update
from lbcf.ctl.groups import Outlook, doubts, look_at
from lbcf.ctl.problems import subject
from lbcf.ctl.reading import Reading
from lbcf.ctl.records import backend_of


@attrs.frozen
class Change:
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
    changes: tuple[Change, ...]
    kept: int
    selected: int
    unready: int
    doubts: tuple[str, ...]
    unread: tuple[str, ...]


def plan_report(reading: Reading, group: BackendGroup) -> PlanReport:
    """Plan a group as the controller does."""
    outlook = look_at(reading, group)
    plan = outlook.plan or Plan()
    return PlanReport(
        namespace=group.meta.key.namespace,
        subject=subject("bg", group.meta.key),
        changes=tuple(_changes(plan)),
        kept=plan.kept,
        selected=plan.backends,
        unready=plan.unready,
        doubts=tuple(_doubts(outlook)),
        unread=reading.unread(),
    )


def _doubts(outlook: Outlook) -> Iterator[str]:
    """Say what is left as it is, and what only the controller knows."""
    yield from (f"{doubt.reason}: {doubt.message}" for doubt in doubts(outlook))
    webhook, plan = outlook.group.webhook, outlook.plan
    if webhook is not None and (plan is None or plan.unready):
        yield (
            f"driver {webhook.driver} says what becomes of unready pods, to the "
            "controller alone; here they stay as they are"
        )


def _changes(plan: Plan) -> Iterator[Change]:
    """Say every write of a plan, and what is held."""
    for removal in plan.removals:
        yield _of("delete", removal.record, removal.reason, removal.message)
    for update in plan.updates:
        yield _of("update", update.record, "", _differing(update))
    for create in plan.creates:
        desired = create.desired
        yield Change(
            what="create",
            record=create.name,
            load_balancer=desired.spec.load_balancer,
            backend=backend_of(desired.spec.backend),
            address=desired.address,
            reason="",
            message="" if desired.address else "its driver says the address",
        )
    for hold in plan.holds:
        yield _of("hold", hold.record, hold.reason, hold.message)


def _differing(update: Update) -> str:
    """Name the fields of the spec that change."""
    before, after = update.record.spec, update.spec
    names = [field.name for field in attrs.fields(RecordSpec)]
    changed = (n for n in names if getattr(before, n) != getattr(after, n))
    return ", ".join(name.replace("_", " ") for name in changed)


def _of(what: str, record: BackendRecord, reason: str, message: str) -> Change:
    """Say what becomes of a record that there is."""
    return Change(
        what=what,
        record=record.meta.key.name,
        load_balancer=record.spec.load_balancer,
        backend=backend_of(record.spec.backend),
        address=record.address,
        reason=reason,
        message=message,
    )
