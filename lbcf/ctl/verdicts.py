"""What a report on one object is made of: sections of lines, each with a mark.

Before it: nothing; these are values. After it: `pods`, `nodes`, `groups`, `balancers`
and `history` fill them, `tables` draws them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

import attrs

from lbcf.core.lifecycle.trouble import is_trouble
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.verdicts import Eligible, Ineligible, Undecided, Verdict
from lbcf.core.reasons import Reason
from lbcf.ctl.spans import since


T = TypeVar("T")
U = TypeVar("U")

_WRONG_HOLDS = frozenset({Reason.TOO_MANY_UNREADY, Reason.NOT_JUDGED})
"""Guards that hold because something has failed; the others only do their work."""

_CREATED_WELL = frozenset({"", Reason.CREATED, Reason.CREATION_UNCLEAR})
"""Reasons of Created that tell of nothing that has failed."""

_BETTER_FALSE = frozenset({conditions.DRIFTED, conditions.REMOVALS_HELD})
"""Conditions that say True where something is to be told."""


class Mark(StrEnum):
    """What a line says at a glance."""

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
    """

    mark: Mark
    subject: str
    text: str
    reason: str = ""


@attrs.frozen
class Section:
    """Lines that belong together."""

    title: str
    lines: tuple[Line, ...]


@attrs.frozen
class Why:
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


def asked(
    checks: Sequence[Callable[[T, U], Verdict | None]], about: T, by: U
) -> Iterator[Line]:
    """Ask checks in their order, as those do who judge: the first that speaks wins."""
    spoken = False
    for check in checks:
        name = question(check.__name__)
        if spoken:
            yield Line(Mark.NONE, name, "not asked any more")
            continue
        verdict = check(about, by)
        spoken = verdict is not None
        yield Line(Mark.OK, name, "no") if verdict is None else judged(name, verdict)


def question(check: str) -> str:
    """Call a check by what it asks: `_has_no_address` is `no address?`."""
    words = check.strip("_").removeprefix("is_").removeprefix("has_")
    return words.replace("_", " ") + "?"


def judged(name: str, verdict: Verdict) -> Line:
    """Say a verdict as a line."""
    match verdict:
        case Eligible():
            return Line(Mark.OK, name, "it may be registered, and stays so")
        case Ineligible(reason, message):
            return Line(Mark.NO, name, message, reason)
        case Undecided(reason, message):
            return Line(Mark.WAIT, name, message, reason)


def is_wrong(said: Condition) -> bool:
    """Tell whether a condition says that something has failed."""
    match said.type:
        case conditions.DRIFTED:
            return said.status is True
        case conditions.REMOVALS_HELD:
            return said.status is True and said.reason in _WRONG_HOLDS
        case conditions.CREATED:
            # Unknown from the first call on, True while its end is told of: what is
            # wrong is in the reason; those of LBCF in Go, of no generation, say nothing.
            is_ours = said.status is not True or bool(said.observed_generation)
            told = attrs.evolve(said, status=False)
            return is_ours and said.reason not in _CREATED_WELL and is_trouble(told)
        case _:
            return is_trouble(said)


def _is_quiet(said: Condition) -> bool:
    """Tell whether a condition says that all is done."""
    return said.status is (said.type not in _BETTER_FALSE)


def mark_of(said: Condition) -> Mark:
    """Say what a condition says at a glance."""
    if is_wrong(said):
        return Mark.NO
    return Mark.OK if _is_quiet(said) else Mark.WAIT


def condition_line(said: Condition, now: datetime, mark: Mark | None = None) -> Line:
    """Say a condition as a line: its words, and for how long it has been so.

    Args:
        said: the condition.
        now: the moment.
        mark: None: as the condition itself says.
    """
    status = "Unknown" if said.status is None else said.status
    held = f"for {since(said.since, now)}" if said.since else ""
    text = f"{said.message} ({held})" if said.message and held else said.message or held
    reason = "" if said.reason == said.type else said.reason
    return Line(mark or mark_of(said), f"{said.type} {status}", text, reason)


def first_wrong(sections: Iterable[Section]) -> Line | None:
    """Find the first line that says no, else the first that waits."""
    lines = [line for section in sections for line in section.lines]
    for mark in (Mark.NO, Mark.WAIT, Mark.UNKNOWN):
        found = next((line for line in lines if line.mark is mark), None)
        if found is not None:
            return found
    return None
