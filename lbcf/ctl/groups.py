"""What a group comes to: read as the controller reads it, and told line by line.

Before it: the view with all that the group depends on. After it: `pods` and `nodes` look
at one backend of it, `plans` at what would be written; `why bg/NAME` is all of it.
"""

from collections.abc import Iterator
from datetime import datetime

import attrs

from lbcf.controller.decision import doubts_of, guarded_plan
from lbcf.controller.snapshot import take_snapshot
from lbcf.core.model.cluster import Snapshot
from lbcf.core.model.names import own_name
from lbcf.core.model.resources import BackendGroup
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.plan import Plan
from lbcf.ctl.history import sections_of
from lbcf.ctl.problems import subject
from lbcf.ctl.reading import Reading
from lbcf.ctl.verdicts import Line, Mark, Section, Why, condition_line, first_wrong
from lbcf.kube.kinds import DRIVERS, LOAD_BALANCERS


@attrs.frozen
class Outlook:
    """A group as the controller would see it now.

    Attributes:
        snapshot: all that decides, or why nothing is decided.
        plan: what would be written; None where nothing is decided.
    """

    group: BackendGroup
    snapshot: Snapshot | Explanation
    plan: Plan | None = None


def look_at(reading: Reading, group: BackendGroup) -> Outlook:
    """Read and plan a group as the controller does.

    What a driver ruled about unready pods (policy Webhook) only the controller knows:
    here such pods stay as they are.
    """
    gap = reading.blocked(group)
    if gap is not None:
        return Outlook(group, Explanation(Reason.NOT_READ, f"we {gap}"))
    unreadable = reading.view.groups.unreadable.get(group.meta.key)
    if unreadable is not None:
        return Outlook(group, Explanation(Reason.GROUP_UNREADABLE, unreadable))
    snapshot = take_snapshot(reading.view, group)
    if isinstance(snapshot, Explanation):
        return Outlook(group, snapshot)
    undecided = {
        name: _not_read(reading, group.load_balancer_key(name)) or told
        for name, told in snapshot.undecided.items()
    }
    snapshot = attrs.evolve(snapshot, undecided=undecided)
    plan = guarded_plan(snapshot)
    # What is held because we may not read something, the controller may well change.
    holds = tuple(hold for hold in plan.holds if hold.reason != Reason.NOT_READ)
    return Outlook(group, snapshot, attrs.evolve(plan, holds=holds))


def _not_read(reading: Reading, key: ObjectKey) -> Explanation | None:
    """Say that we alone cannot decide about a load balancer: we may not read enough."""
    if reading.is_hidden(LOAD_BALANCERS, key):
        gap = reading.gap(LOAD_BALANCERS, key.namespace)
        return Explanation(Reason.NOT_READ, f"LoadBalancer {key}: we {gap}")
    balancer = reading.view.load_balancers.get(key)
    if balancer is None or not reading.is_hidden(DRIVERS, balancer.driver_key):
        return None
    driver = balancer.driver_key
    gap = reading.gap(DRIVERS, driver.namespace)
    return Explanation(Reason.NOT_READ, f"LoadBalancerDriver {driver}: we {gap}")


def why_group(reading: Reading, group: BackendGroup, now: datetime) -> Why:
    """Tell how a group is, and what of it is not as it should be."""
    outlook = look_at(reading, group)
    found = reading.view.records_of(group.meta.key)
    sections = (
        Section("as the controller last wrote", tuple(_written(group, now))),
        Section("load balancers", tuple(balancer_lines(outlook))),
        Section("what would change now", tuple(_changes(outlook))),
        *sections_of(found, reading, now, outlook.plan),
    )
    return Why(
        group.meta.key.namespace,
        subject("bg", group.meta.key),
        _headline(group, sections),
        sections,
        reading.unread(),
    )


def _headline(group: BackendGroup, sections: tuple[Section, ...]) -> str:
    """Say how a group is in a sentence."""
    status = group.status
    counts = (
        f"{status.registered} registered, {status.draining} on their way out, "
        f"{status.backends} selected"
    )
    wrong = first_wrong(sections[:2])
    if group.meta.deleting_since is not None:
        return f"being deleted; {counts}"
    if wrong is not None:
        return f"{wrong.text}; {counts}"
    return f"nothing is wrong with the group itself; {counts}"


def _written(group: BackendGroup, now: datetime) -> Iterator[Line]:
    """Say the conditions of a group."""
    for said in group.status.conditions:
        yield condition_line(said, now)
    if group.status.observed_generation < group.meta.generation:
        text = "no controller has looked at it as it is now"
        yield Line(Mark.WAIT, "its spec", text)


def balancer_lines(outlook: Outlook) -> Iterator[Line]:
    """Say of each load balancer of a group whether it can be used."""
    snapshot = outlook.snapshot
    if isinstance(snapshot, Explanation):
        yield Line(Mark.UNKNOWN, "all of it", snapshot.message, snapshot.reason)
        return
    for name in outlook.group.load_balancers:
        key = outlook.group.load_balancer_key(name)
        called = f"lb/{own_name(key)}"
        undecided = snapshot.undecided.get(name)
        if undecided is not None:
            mark = Mark.UNKNOWN if undecided.reason == Reason.NOT_READ else Mark.NO
            yield Line(mark, called, undecided.message, undecided.reason)
        elif (attachment := snapshot.attachments.get(name)) is not None:
            text = f"can be used, through driver {attachment.driver.meta.key}"
            yield Line(Mark.OK, called, text)
        else:
            why = snapshot.leaving[name]
            yield Line(Mark.WAIT, called, why.message, why.reason)


def doubts(outlook: Outlook) -> tuple[Explanation, ...]:
    """Say why some or all of a group is left as it is."""
    snapshot = outlook.snapshot
    return (snapshot,) if isinstance(snapshot, Explanation) else doubts_of(snapshot)


def doubt_lines(outlook: Outlook) -> Iterator[Line]:
    """Say what leaves a group as it is, beside its load balancers."""
    if isinstance(outlook.snapshot, Snapshot):
        told = set(outlook.snapshot.undecided.values())
        for doubt in doubts(outlook):
            if doubt not in told:
                yield Line(Mark.NO, "the group", doubt.message, doubt.reason)


def _changes(outlook: Outlook) -> Iterator[Line]:
    """Count what would be written, and say where to see it."""
    yield from doubt_lines(outlook)
    plan = outlook.plan
    if plan is None:
        yield Line(Mark.UNKNOWN, "plan", "nothing can be told")
        return
    counts = (
        f"{len(plan.creates)} to create, {len(plan.updates)} to update, "
        f"{len(plan.removals)} to delete, {len(plan.holds)} held, {plan.kept} kept"
    )
    settled = plan.is_empty and not plan.holds
    mark = Mark.OK if settled else Mark.WAIT
    if any(doubt.reason == Reason.NOT_READ for doubt in doubts(outlook)):
        mark, counts = Mark.UNKNOWN, f"{counts}, as far as we may read"
    yield Line(mark, "plan", counts)
