"""One record: how far it is, who is waited for, and its section in a report."""

from collections.abc import Collection, Iterator
from datetime import datetime

from lbcf.core.backoff import CAP
from lbcf.core.lifecycle.in_service import said_of
from lbcf.core.lifecycle.trouble import is_trouble
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.core.selection.plan import Hold, Plan, Removal, Update
from lbcf.ctl.balancer_troubles import balancer_troubles, trouble_headline
from lbcf.ctl.departed import departed_headline, departed_sections
from lbcf.ctl.flags import Kind
from lbcf.ctl.in_service import unsaid_line
from lbcf.ctl.plan import plan_group
from lbcf.ctl.reading import Reading, not_found
from lbcf.ctl.remedies import Trouble, remedied_line
from lbcf.ctl.report import (
    Line,
    Mark,
    Section,
    WhyReport,
    deletion_lines,
    human_duration,
    relative_time,
)


_MAX_SECTIONS = 10
_ENDING = (conditions.DEREGISTERED, conditions.DRAINED)


def why_record(reading: Reading, key: ObjectKey, now: datetime) -> WhyReport:
    """Report how far a record is, and what its group's plan has for it.

    Raises:
        ObjectNotFound: there is none, and no group remembers one.
    """
    record = reading.view.records.get(key)
    if record is None:
        return _gone(reading, key, now)
    group = None if record.group is None else reading.view.groups.get(record.group)
    plan = None if group is None else plan_group(reading, group, now).plan
    who, stage = waits_for(record, reading, now), stage_of(record)
    sections = [record_section(record, reading, now, plan)]
    troubles = tuple(balancer_troubles(reading, record.load_balancer_key, now))
    if troubles:
        sections.append(Section("its load balancer", troubles))
    trouble, unread = trouble_of(record), reading.unread()
    told = trouble_headline(troubles)
    if trouble is not None:  # with a who, the stage is its reason
        told = "" if who else trouble.message
    parts = (stage, f"waits for {who}" if who else "", told)
    headline = "; ".join(filter(None, parts))
    subject = f"br/{key.name}"
    return WhyReport(key.namespace, subject, headline, tuple(sections), unread)


def _gone(reading: Reading, key: ObjectKey, now: datetime) -> WhyReport:
    groups = reading.view.groups.by_index("namespace", key.namespace)
    found = departed_sections(groups, lambda one: one.record == key.name, now)
    if not (sections := tuple(found)):
        raise not_found(reading, Kind.RECORD, key)
    headline = f"there is no such record now; {departed_headline(sections)}"
    subject, unread = f"br/{key.name}", reading.unread()
    return WhyReport(key.namespace, subject, headline, sections, unread)


def current_condition(record: BackendRecord) -> Condition | None:
    """Return the condition that says how far a record is, None before the first one."""
    kinds = _ENDING if record.is_deleting else (conditions.REGISTERED,)
    found = (conditions.find(record.status.conditions, kind) for kind in kinds)
    return next((condition for condition in found if condition is not None), None)


def trouble_of(record: BackendRecord) -> Condition | None:
    """Return the condition that reports a failure, None where there is none."""
    current = current_condition(record)
    if current is not None and is_trouble(current):
        return current
    found = said_of(record) if _is_inside(record) else None
    return found if found is not None and is_trouble(found) else None


def records_in_trouble(records: Collection[BackendRecord]) -> str:
    """Return how many records fail, and how many members are down; empty: none."""
    ordered = sorted(records, key=lambda record: record.meta.key)
    found = [trouble for record in ordered if (trouble := trouble_of(record))]
    down = [one.message for one in found if one.type == conditions.IN_SERVICE]
    failing = [one.message for one in found if one.type != conditions.IN_SERVICE]
    told = (
        _counted(failing, "record", "in trouble"),
        _counted(down, "registered member", "not in service"),
    )
    return "; ".join(filter(None, told))


def _counted(messages: list[str], noun: str, state: str) -> str:
    if not messages:
        return ""
    subject = f"{noun} is" if len(messages) == 1 else f"{noun}s are"
    return f"{len(messages)} {subject} {state}: {messages[0]}"


def _is_inside(record: BackendRecord) -> bool:
    return record.is_registered and not record.is_deleting


def stage_of(record: BackendRecord) -> str:
    """Return how far a record is: the reason of its condition, if there is one."""
    current = current_condition(record)
    if record.is_deleting:
        return "Deleting" if current is None else current.reason
    if current is None or not (record.is_registered or current.status is False):
        return "New" if current is None else "Changed"
    return current.reason


def waits_for(record: BackendRecord, reading: Reading, now: datetime) -> str:
    """Return who or what has to act next, empty where nobody has."""
    if record.is_deleting and not record.is_held:
        left = ", ".join(record.meta.finalizers)
        return (
            f"whoever holds the finalizer {left}" if left else "the garbage collector"
        )
    if record.is_registered and not record.is_deleting:
        return ""
    who = "the deregistrar" if record.is_deleting else "the controller"
    if record.meta.abandoned and record.is_deleting:
        return f"{who}, which lets go of it: it was abandoned"
    unavailable = reading.driver_unavailable(record.driver_key)
    if unavailable is not None and not (record.is_deleting and not record.address):
        return unavailable.message
    current = current_condition(record)
    if current is None or current.status is not False:
        return who
    return _waits_for_reason(record, current.reason, now)


def _waits_for_reason(record: BackendRecord, reason: str, now: datetime) -> str:
    if reason == Reason.DRAINING:
        drain = record.status.drain
        if drain is not None and drain.deadline < now:
            return f"driver {record.driver_key}, to deregister it"
        return "connections to end"
    if reason == Reason.WAITING_TO_CONFIRM:
        return "the end of registrations that were sent earlier"
    if reason == Reason.ADDRESS_IN_USE:
        return "the record that has its address"
    if reason == Reason.ADDRESS_NOT_FREE_YET:
        return "the last calls for the record that had its address"
    return f"driver {record.driver_key}"


def attempt_of(record: BackendRecord) -> datetime | None:
    """Return when a driver was to be asked again; None: none has to be."""
    is_settled = record.is_registered and not record.is_deleting
    return None if is_settled else record.status.next_attempt


def next_attempt(moment: datetime | None, now: datetime) -> str:
    """Return when, or how often, a driver is asked again, in words; empty for None."""
    if moment is None:
        return ""
    if moment >= now:
        return relative_time(moment, now)
    # The moment is written with its condition, and not again while that stays the same.
    return f"with pauses of up to {human_duration(CAP)}"


def record_sections(
    records: Collection[BackendRecord],
    reading: Reading,
    now: datetime,
    plan: Plan | None = None,
) -> Iterator[Section]:
    """Return sections for records that are not settled: failures first, at most ten."""
    unsettled = [r for r in records if not _is_inside(r) or trouble_of(r)]
    unsettled.sort(key=_urgency)
    for record in unsettled[:_MAX_SECTIONS]:
        yield record_section(record, reading, now, plan)
    more = len(unsettled) - _MAX_SECTIONS
    if more > 0:
        text = f"{more} records that are to be registered, or are leaving"
        yield Section("and more", (Line(Mark.NONE, "not shown", text),))


def _urgency(record: BackendRecord) -> tuple[bool, bool, ObjectKey]:
    has_failed = trouble_of(record) is not None
    return (not has_failed, not record.is_deleting, record.meta.key)


def record_section(
    record: BackendRecord, reading: Reading, now: datetime, plan: Plan | None = None
) -> Section:
    """Return a record's conditions, the plan for it, and who is waited for."""
    lines = (
        *_origin(record, now),
        *_conditions(record, reading, now),
        *_planned(record, plan),
        *_next(record, reading, now),
    )
    at = f" ({record.address})" if record.address else ""
    title = f"record {record.meta.key.name}{at} at {record.spec.load_balancer}"
    return Section(title, lines)


def _origin(record: BackendRecord, now: datetime) -> Iterator[Line]:
    group = "nothing" if record.group is None else str(record.group)
    yield Line(Mark.OK, "belongs to", f"{group}, driver {record.driver_key}")
    yield from deletion_lines(record.meta, now)


def _conditions(
    record: BackendRecord, reading: Reading, now: datetime
) -> Iterator[Line]:
    current = current_condition(record)
    driver = reading.view.drivers.get(record.driver_key)
    for condition in record.status.conditions:
        # Registered is history, not a verdict, once the record is being deleted.
        is_old = record.is_deleting and condition is not current
        if condition.type == conditions.IN_SERVICE and not _is_inside(record):
            continue  # what it was before
        trouble = Trouble(record.meta.key, condition, driver)
        yield remedied_line(trouble, now, Mark.NONE if is_old else None)
    if _is_inside(record) and said_of(record) is None:
        yield unsaid_line(record, reading, now)


def _planned(record: BackendRecord, plan: Plan | None) -> Iterator[Line]:
    actions: tuple[Removal | Update | Hold, ...] = ()
    if plan is not None:
        actions = (*plan.removals, *plan.updates, *plan.holds)
    for action in (one for one in actions if one.record.meta.uid == record.meta.uid):
        match action:
            case Removal(_, reason, message):
                yield Line(Mark.NO, "to be deleted", message, reason)
            case Hold(_, reason, message):
                yield Line(Mark.WAIT, "kept as it is", message, reason)
            case Update():
                text = "the group's words have changed: it is ensured again"
                yield Line(Mark.WAIT, "to be updated", text)


def _next(record: BackendRecord, reading: Reading, now: datetime) -> Iterator[Line]:
    drain = record.status.drain
    if drain is not None and record.is_deleting:
        count = drain.connections
        shown = "" if count is None else f", {count} connections"
        text = f"{relative_time(drain.deadline, now)}{shown}"
        yield Line(Mark.WAIT, "drain ends", text)
    attempt = next_attempt(attempt_of(record), now)
    if attempt:
        yield Line(Mark.WAIT, "tried again", attempt)
    who = waits_for(record, reading, now)
    yield Line(Mark.WAIT if who else Mark.OK, "waits for", who or "nobody")
