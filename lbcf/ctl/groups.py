"""`why bg/NAME`: one group, or Bind: its conditions, load balancers, plan and records."""

from collections.abc import Iterator
from datetime import datetime

from lbcf.core.model.cluster import Snapshot
from lbcf.core.model.names import own_name
from lbcf.core.model.resources import BackendGroup
from lbcf.core.reasons import Explanation, Reason
from lbcf.ctl.plan import GroupPlan, plan_group
from lbcf.ctl.reading import Reading
from lbcf.ctl.records import members_down, record_sections
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
        Section("load balancers", tuple(load_balancer_lines(planned))),
        Section("what would change now", tuple(_plan_lines(planned))),
        *record_sections(records, reading, now, planned.plan),
    )
    down = members_down(records)
    headline, subject = _headline(group, sections, down), object_ref("bg", key)
    return WhyReport(key.namespace, subject, headline, sections, reading.unread())


def _headline(group: BackendGroup, sections: tuple[Section, ...], down: str) -> str:
    status = group.status
    counts = (
        f"{status.registered} registered, {status.draining} on their way out, "
        f"{status.backends} selected"
    )
    wrong = first_wrong(sections[:2])
    if group.meta.deleting_since is not None:
        return f"being deleted; {counts}"
    if down and (wrong is None or wrong.mark is not Mark.NO):
        return f"{down}; {counts}"
    if wrong is not None:
        return f"{wrong.text}; {counts}"
    return f"nothing is wrong with the group itself; {counts}"


def _conditions(group: BackendGroup, now: datetime) -> Iterator[Line]:
    for condition in group.status.conditions:
        yield remedied_line(Trouble(group.meta.key, condition), now)
    if group.status.observed_generation < group.meta.generation:
        text = "no controller has looked at it as it is now"
        yield Line(Mark.WAIT, "its spec", text)


def load_balancer_lines(planned: GroupPlan) -> Iterator[Line]:
    """Return a line for each load balancer of a group: whether it can be used."""
    snapshot = planned.snapshot
    if isinstance(snapshot, Explanation):
        yield Line(Mark.UNKNOWN, "all of it", snapshot.message, snapshot.reason)
        return
    for name in planned.group.load_balancers:
        key = planned.group.load_balancer_key(name)
        subject = f"lb/{own_name(key)}"
        undecided = snapshot.undecided.get(name)
        if undecided is not None:
            mark = Mark.UNKNOWN if undecided.reason == Reason.NOT_READ else Mark.NO
            yield Line(mark, subject, undecided.message, undecided.reason)
        elif (attachment := snapshot.attachments.get(name)) is not None:
            text = f"can be used, through driver {attachment.driver.meta.key}"
            yield Line(Mark.OK, subject, text)
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
