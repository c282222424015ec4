"""What reports are made of: sections of lines with a mark, and the words in them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar

import attrs

from lbcf.core.lifecycle.trouble import is_failed_creation, is_trouble
from lbcf.core.model import conditions, names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.node_backends import (
    NodeSelection,
    ServiceSelection,
)
from lbcf.core.model.resources import (
    BackendRecord,
    Meta,
    PodSelection,
    Selection,
    StaticSelection,
)
from lbcf.core.model.selectors import Operator, Requirement, Selector
from lbcf.core.model.values import ObjectKey
from lbcf.core.model.verdicts import Eligible, Ineligible, Undecided, Verdict
from lbcf.core.reasons import Reason
from lbcf.core.wording import some_of


T = TypeVar("T")
U = TypeVar("U")

_FAILED_GUARDS = frozenset({Reason.TOO_MANY_UNREADY, Reason.NOT_JUDGED})
"""Reasons of RemovalsHeld after a failure; the other guards only limit the pace."""

_BETTER_FALSE = frozenset(
    {
        conditions.DRIFTED,
        conditions.ORPHANED,
        conditions.REMOVALS_HELD,
        conditions.DRAINED_BY_HAND,
        conditions.DRAINS_CUT,
    }
)
"""Conditions of negative polarity: False is the good state."""

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_UNITS_SHOWN = 2
_FEW = 5


class Mark(StrEnum):
    """The verdict of a line."""

    OK = "ok"
    NO = "NO"
    WAIT = "wait"
    UNKNOWN = "?"
    NONE = "-"


@attrs.frozen
class Line:
    """One thing that was looked at.

    Attributes:
        subject: what was looked at.
        text: what was found.
        reason: the word for it that records, conditions and logs use; may be empty.
        remedy: what to do about it; empty where nothing can be done, or the text says it.
        since: when it began; None where nobody knows, or it is no state.
    """

    mark: Mark
    subject: str
    text: str
    reason: str = ""
    remedy: str = ""
    since: datetime | None = None


@attrs.frozen
class Section:
    """Lines that belong together."""

    title: str
    lines: tuple[Line, ...]


@attrs.frozen
class WhyReport:
    """All about one object.

    Attributes:
        subject: kind/name.
        headline: the answer in a sentence.
        unread: what may not be read and may matter, in words.
    """

    namespace: str
    subject: str
    headline: str
    sections: tuple[Section, ...]
    unread: tuple[str, ...] = ()


def check_lines(
    checks: Sequence[Callable[[T, U], Verdict | None]], about: T, by: U
) -> Iterator[Line]:
    """Run eligibility checks in their order: the first with a verdict decides."""
    is_decided = False
    for check in checks:
        name = check_question(check.__name__)
        if is_decided:
            yield Line(Mark.NONE, name, "not asked any more")
            continue
        verdict = check(about, by)
        is_decided = verdict is not None
        yield verdict_line(name, verdict) if verdict else Line(Mark.OK, name, "no")


def check_question(check: str) -> str:
    """Return the question of a check: `_has_no_address` asks `no address?`."""
    words = check.strip("_").removeprefix("is_").removeprefix("has_")
    return words.replace("_", " ") + "?"


def verdict_line(name: str, verdict: Verdict) -> Line:
    """Return the line of a verdict on eligibility."""
    match verdict:
        case Eligible():
            return Line(Mark.OK, name, "it may be registered, and stays so")
        case Ineligible(reason, message):
            return Line(Mark.NO, name, message, reason)
        case Undecided(reason, message):
            return Line(Mark.WAIT, name, message, reason)


def is_wrong(condition: Condition) -> bool:
    """Return whether a condition reports a failure."""
    match condition.type:
        # What is kept out by hand is told as well: it is easily forgotten.
        case conditions.DRIFTED | conditions.ORPHANED | conditions.DRAINED_BY_HAND:
            return condition.status is True
        # A driver that says Running for so long does not list its members either.
        case conditions.REACHABLE:
            return condition.status is False
        case conditions.DRAINS_CUT:
            return False  # it is over; `status` tells of it for an hour
        case conditions.REMOVALS_HELD:
            return condition.status is True and condition.reason in _FAILED_GUARDS
        case conditions.CREATED:
            return is_failed_creation(condition)
        case _:
            return is_trouble(condition)


def condition_line(
    condition: Condition, now: datetime, mark: Mark | None = None
) -> Line:
    """Return the line of a condition: its message, and for how long it has been so.

    Args:
        condition: as it was written.
        now: the moment.
        mark: None: as the condition itself says.
    """
    status = "Unknown" if condition.status is None else condition.status
    held = f"for {age(condition.since, now)}" if condition.since else ""
    text = condition.message or held
    if condition.message and held:
        text = f"{condition.message} ({held})"
    reason = "" if condition.reason == condition.type else condition.reason
    name = f"{condition.type} {status}"
    mark = mark or _condition_mark(condition)
    return Line(mark, name, text, reason, since=condition.since)


def deletion_lines(meta: Meta, now: datetime) -> Iterator[Line]:
    """Return since when an object is being deleted, and why it was abandoned."""
    if meta.deleting_since is not None:
        text = f"since {age(meta.deleting_since, now)}"
        yield Line(Mark.WAIT, "being deleted", text, since=meta.deleting_since)
    if meta.abandoned:
        yield Line(Mark.WAIT, "abandoned", meta.abandoned)


def _condition_mark(condition: Condition) -> Mark:
    if is_wrong(condition):
        return Mark.NO
    is_good = condition.status is (condition.type not in _BETTER_FALSE)
    return Mark.OK if is_good else Mark.WAIT


def first_wrong(
    sections: Iterable[Section], besides: Collection[Line] = ()
) -> Line | None:
    """Return the first line that is wrong, else the first that waits or is open.

    Args:
        sections: whose lines are looked at.
        besides: lines that are left out.
    """
    every = (line for section in sections for line in section.lines)
    lines = [line for line in every if line not in besides]
    for mark in (Mark.NO, Mark.WAIT, Mark.UNKNOWN):
        found = next((line for line in lines if line.mark is mark), None)
        if found is not None:
            return found
    return None


def human_duration(length: timedelta) -> str:
    """Return a duration in its two largest units, as kubectl: `7s`, `2m5s` or `3d4h`."""
    left = max(int(length.total_seconds()), 0)
    parts: list[str] = []
    for unit, seconds in _UNITS:
        count, left = divmod(left, seconds)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return "".join(parts[:_UNITS_SHOWN]) or "0s"


def age(moment: datetime | None, now: datetime) -> str:
    """Return the time since a moment, empty where that is unknown."""
    return "" if moment is None else human_duration(now - moment)


def relative_time(moment: datetime, now: datetime) -> str:
    """Return a moment as `in 12s` or `3s ago`."""
    if moment >= now:
        return f"in {human_duration(moment - now)}"
    return f"{human_duration(now - moment)} ago"


def object_ref(kind: str, key: ObjectKey) -> str:
    """Return KIND/NAME as the commands take it; a Bind's group goes by the Bind."""
    bind = names.bind_of(key)
    if kind == "bg" and bind is not None:
        return f"bind/{bind.name}"
    return f"{kind}/{key.name}"


def user_ref(kind: str, user: ObjectKey, used: ObjectKey) -> str:
    """Return KIND/NAME of an object's user, with the namespace if it is another one."""
    away = f" in {user.namespace}" if user.namespace != used.namespace else ""
    return f"{object_ref(kind, user)}{away}"


def first_few(subjects: Iterable[str]) -> str:
    """Return the first few of many names, and the number of the others."""
    return some_of(sorted(subjects), most=_FEW) or "none"


def record_counts(records: Collection[BackendRecord]) -> str:
    """Return how many records are registered, not yet registered, and leaving."""
    leaving = sum(1 for record in records if record.is_deleting)
    inside = sum(1 for r in records if r.is_registered and not r.is_deleting)
    rest = len(records) - leaving - inside
    return f"{inside} registered, {rest} not yet, {leaving} on their way out"


def selection_text(selection: Selection) -> str:
    """Return what a group selects, with selectors as `kubectl` writes them."""
    match selection:
        case PodSelection(names=chosen) if chosen is not None:
            return f"pods named {', '.join(sorted(chosen))}"
        case PodSelection(selector=selector, excluded=excluded):
            but = f" except {', '.join(sorted(excluded))}" if excluded else ""
            return f"pods with {_selector_text(selector or Selector())}{but}"
        case StaticSelection(addresses=addresses):
            return f"{len(addresses)} static addresses"
        case ServiceSelection(name=name, port=port):
            return f"port {port} of Service {name} on nodes"
        case NodeSelection(selector=selector):
            return f"nodes with {_selector_text(selector)}"


def _selector_text(selector: Selector) -> str:
    parts = [f"{key}={value}" for key, value in selector.labels.items()]
    parts += [_requirement_text(one) for one in selector.requirements]
    return ",".join(parts) or "any labels"


def _requirement_text(one: Requirement) -> str:
    values = f"({', '.join(sorted(one.values))})"
    match one.operator:
        case Operator.IN:
            return f"{one.key} in {values}"
        case Operator.NOT_IN:
            return f"{one.key} notin {values}"
        case Operator.EXISTS:
            return one.key
        case Operator.DOES_NOT_EXIST:
            return f"!{one.key}"
