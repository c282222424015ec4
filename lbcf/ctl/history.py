"""One record as a section: its conditions, its driver's last answer, what comes next.

Before it: a record that was read. After it: every report that `why` makes has one of these
for each record that it is about.
"""

from collections.abc import Collection, Iterator
from datetime import datetime

from lbcf.core.lifecycle.trouble import is_trouble
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.core.selection.plan import Hold, Plan, Removal, Update
from lbcf.ctl.reading import Reading
from lbcf.ctl.records import last_word, next_attempt, waits_for
from lbcf.ctl.spans import since, when
from lbcf.ctl.verdicts import Line, Mark, Section, condition_line


_SHOWN = 10
"""Records that are told in full."""


def sections_of(
    records: Collection[BackendRecord],
    reading: Reading,
    now: datetime,
    plan: Plan | None = None,
) -> Iterator[Section]:
    """Tell the records of which there is something to tell, the bad ones first.

    Of very many only the first few: their number is told.
    """
    found = _by_trouble(records)
    for record in found[:_SHOWN]:
        yield section_of(record, reading, now, plan)
    if len(found) > _SHOWN:
        text = (
            f"{len(found) - _SHOWN} records that are to be registered, or are leaving"
        )
        yield Section("and more", (Line(Mark.NONE, "not shown", text),))


def _by_trouble(records: Collection[BackendRecord]) -> list[BackendRecord]:
    """Return the records that are not registered, or not to stay so, the bad ones first."""
    open_ends = [r for r in records if r.is_deleting or not r.is_registered]

    def badness(record: BackendRecord) -> tuple[bool, bool, ObjectKey]:
        """Order by trouble, then by being on the way out."""
        word = last_word(record)
        bad = word is not None and is_trouble(word)
        return (not bad, not record.is_deleting, record.meta.key)

    return sorted(open_ends, key=badness)


def section_of(
    record: BackendRecord, reading: Reading, now: datetime, plan: Plan | None = None
) -> Section:
    """Tell a record's life so far, and what the group's plan has for it."""
    lines = [
        *_origin(record, now),
        *(_condition(record, one, now) for one in record.status.conditions),
        *_planned(record, plan),
        *_next(record, reading, now),
    ]
    at = f" ({record.address})" if record.address else ""
    where = f"record {record.meta.key.name}{at} at {record.spec.load_balancer}"
    return Section(where, tuple(lines))


def _origin(record: BackendRecord, now: datetime) -> Iterator[Line]:
    """Say what was ordered about it."""
    group = "nothing" if record.group is None else str(record.group)
    yield Line(Mark.OK, "belongs to", f"{group}, driver {record.driver_key}")
    if record.meta.deleting_since is not None:
        text = f"since {since(record.meta.deleting_since, now)}"
        yield Line(Mark.WAIT, "being deleted", text)
    why = record.meta.abandoned
    if why:
        yield Line(Mark.WAIT, "abandoned", why)


def _condition(record: BackendRecord, said: Condition, now: datetime) -> Line:
    """Say what a condition says, and since when; an answer of a driver is in its words."""
    # What was said of the registration is history once the end was asked for.
    is_old = record.is_deleting and said is not last_word(record)
    return condition_line(said, now, Mark.NONE if is_old else None)


def _planned(record: BackendRecord, plan: Plan | None) -> Iterator[Line]:
    """Say what the controller does with it now, if anything."""
    fates: tuple[Removal | Update | Hold, ...] = ()
    if plan is not None:
        fates = (*plan.removals, *plan.updates, *plan.holds)
    for fate in (f for f in fates if f.record.meta.uid == record.meta.uid):
        match fate:
            case Removal(_, reason, message):
                yield Line(Mark.NO, "to be deleted", message, reason)
            case Hold(_, reason, message):
                yield Line(Mark.WAIT, "kept as it is", message, reason)
            case Update():
                text = "the group's words have changed: it is ensured again"
                yield Line(Mark.WAIT, "to be updated", text)


def _next(record: BackendRecord, reading: Reading, now: datetime) -> Iterator[Line]:
    """Say when a drain ends, when its driver is asked again, and who is waited for."""
    drain = record.status.drain
    if drain is not None and record.is_deleting:
        count = (
            "" if drain.connections is None else f", {drain.connections} connections"
        )
        yield Line(Mark.WAIT, "drain ends", f"{when(drain.deadline, now)}{count}")
    attempt = next_attempt(record, now)
    if attempt:
        yield Line(Mark.WAIT, "tried again", attempt)
    who = waits_for(record, reading, now)
    yield Line(Mark.WAIT if who else Mark.OK, "waits for", who or "nobody")
