"""`why bg/NAME`: one group, or Bind: its conditions, load balancers, plan and records."""

from collections.abc import Collection, Iterator
from datetime import datetime

from lbcf.core.model.cluster import Snapshot
from lbcf.core.model.resources import BackendGroup, BackendRecord
from lbcf.core.reasons import Explanation, Reason
from lbcf.ctl.balancer_troubles import (
    balancer_subject,
    balancer_troubles,
    trouble_headline,
)
from lbcf.ctl.plan import GroupPlan, plan_group
from lbcf.ctl.reading import Reading
from lbcf.ctl.records import record_sections, records_in_trouble
from lbcf.ctl.remedies import Trouble, remedied_line
from lbcf.ctl.report import (
    Line,
    Mark,
    Section,
    WhyReport,
    first_wrong,
    object_ref,
)


def why_group(reading: Reading, group: BackendGroup, now: datetime) -> WhyReport:
    """Report how a group is, and what of it is not as it should be."""
    planned, key = plan_group(reading, group, now), group.meta.key
    records = reading.view.records_of(key)
    sections = (
        Section("as the controller last wrote", tuple(_conditions(group, now))),
        Section("load balancers", tuple(load_balancer_lines(planned, reading, now))),
        Section("what would change now", tuple(_plan_lines(planned))),
        *record_sections(records, reading, now, planned.plan),
    )
    told = _told(sections, group_troubles(planned, reading, now), records)
    headline, subject = _headline(group, told), object_ref("bg", key)
    return WhyReport(key.namespace, subject, headline, sections, reading.unread())


def _told(
    sections: tuple[Section, ...],
    troubles: tuple[Line, ...],
    records: Collection[BackendRecord],
) -> str:
    """Return what is wrong: with the group, its records, or its load balancers."""
    own = first_wrong(sections[:2], troubles)
    if own is not None and own.mark is Mark.NO:
        return own.text
    others = records_in_trouble(records) or trouble_headline(troubles)
    if own is not None:
        return others or own.text
    return others or "nothing is wrong with the group itself"


def _headline(group: BackendGroup, told: str) -> str:
    status = group.status
    counts = (
        f"{status.registered} registered, {status.draining} on their way out, "
        f"{status.backends} selected"
    )
    if group.meta.deleting_since is not None:
        return f"being deleted; {counts}"
    return f"{told}; {counts}"


def _conditions(group: BackendGroup, now: datetime) -> Iterator[Line]:
    for condition in group.status.conditions:
        yield remedied_line(Trouble(group.meta.key, condition), now)
    if group.status.observed_generation < group.meta.generation:
        text = "no controller has looked at it as it is now"
        yield Line(Mark.WAIT, "its spec", text)


def group_troubles(
    planned: GroupPlan, reading: Reading, now: datetime
) -> tuple[Line, ...]:
    """Return what speaks against the load balancers that a group can use."""
    if isinstance(planned.snapshot, Explanation):
        return ()
    keys = (a.load_balancer.meta.key for a in planned.snapshot.attachments.values())
    return tuple(line for key in keys for line in balancer_troubles(reading, key, now))


def load_balancer_lines(
    planned: GroupPlan, reading: Reading, now: datetime
) -> Iterator[Line]:
    """Return for each load balancer of a group whether it can be used, or its troubles."""
    snapshot = planned.snapshot
    if isinstance(snapshot, Explanation):
        yield Line(Mark.UNKNOWN, "all of it", snapshot.message, snapshot.reason)
        return
    for name in planned.group.load_balancers:
        key = planned.group.load_balancer_key(name)
        subject = balancer_subject(key)
        undecided = snapshot.undecided.get(name)
        if undecided is not None:
            mark = Mark.UNKNOWN if undecided.reason == Reason.NOT_READ else Mark.NO
            yield Line(mark, subject, undecided.message, undecided.reason)
        elif (attachment := snapshot.attachments.get(name)) is not None:
            text = f"can be used, through driver {attachment.driver.meta.key}"
            usable = Line(Mark.OK, subject, text)
            yield from tuple(balancer_troubles(reading, key, now)) or (usable,)
        else:
            why = snapshot.leaving[name]
            yield Line(Mark.WAIT, subject, why.message, why.reason)


def doubt_lines(planned: GroupPlan) -> Iterator[Line]:
    """Return what leaves a group as it is, beside its load balancers."""
    if isinstance(planned.snapshot, Snapshot):
        of_load_balancers = set(planned.snapshot.undecided.values())
        for doubt in planned.doubts:
            if doubt not in of_load_balancers:
                yield Line(Mark.NO, "the group", doubt.message, doubt.reason)


def _plan_lines(planned: GroupPlan) -> Iterator[Line]:
    yield from doubt_lines(planned)
    plan = planned.plan
    if plan is None:
        yield Line(Mark.UNKNOWN, "plan", "nothing can be told")
        return
    counts = (
        f"{len(plan.creates)} to create, {len(plan.updates)} to update, "
        f"{len(plan.removals)} to delete, {len(plan.holds)} held, {plan.kept} kept"
    )
    is_settled = plan.is_empty and not plan.holds
    mark = Mark.OK if is_settled else Mark.WAIT
    if any(doubt.reason == Reason.NOT_READ for doubt in planned.doubts):
        mark, counts = Mark.UNKNOWN, f"{counts}, as far as we may read"
    yield Line(mark, "plan", counts)
