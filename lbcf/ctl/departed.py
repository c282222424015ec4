"""What groups remember of registrations that have ended, for those who ask too late."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from lbcf.core.lifecycle.departures import recent
from lbcf.core.model.departures import Departure, Outcome
from lbcf.core.model.resources import BackendGroup
from lbcf.core.reasons import Reason
from lbcf.core.wording import some_of
from lbcf.ctl.report import Line, Mark, Section, object_ref, relative_time


_ENDED = {
    Outcome.DRAINED: (Mark.OK, "drained, nothing was left"),
    Outcome.CUT: (Mark.NO, "cut at the deadline of its drain"),
    Outcome.BACKEND_GONE: (Mark.NONE, "the backend was gone before its drain was over"),
    Outcome.NOT_DRAINED: (
        Mark.NONE,
        "not drained: its drain is off, or its driver has none",
    ),
    Outcome.NEVER_REGISTERED: (Mark.NONE, "never registered"),
    Outcome.ABANDONED: (Mark.NO, "abandoned, without being deregistered"),
    Outcome.UNKNOWN: (Mark.UNKNOWN, "how its drain ended is not known"),
}


def departed_sections(
    groups: Iterable[BackendGroup],
    is_meant: Callable[[Departure], bool],
    now: datetime,
) -> Iterator[Section]:
    """Return a section for each group that remembers what is meant, newest first."""
    for group in sorted(groups, key=lambda group: group.meta.key):
        found = filter(is_meant, recent(group.status.departed, now))
        if lines := tuple(_line(one, now) for one in found):
            title = f"{object_ref('bg', group.meta.key)} remembers for a day"
            yield Section(title, lines)


def departed_headline(sections: Iterable[Section]) -> str:
    """Return how it ended, of what is known by these sections alone."""
    lines = [line for section in sections for line in section.lines]
    return some_of([f"{one.subject} {_said(one)}" for one in lines], separator="; ")


def _said(line: Line) -> str:
    return line.text.partition(";")[0]


def _line(one: Departure, now: datetime) -> Line:
    mark, ended = _ENDED[one.outcome]
    if one.connections is not None:
        ended = f"{ended}, with {one.connections} connections by the last count"
    text = f"{relative_time(one.time, now)}: {ended}; {_why(one)}"
    subject = f"left {one.load_balancer}"
    return Line(mark, subject, text, one.outcome, since=one.time)


def _why(one: Departure) -> str:
    if one.reason is None:
        return "why its record was deleted is not known"
    means = f": {one.reason.means}" if isinstance(one.reason, Reason) else ""
    return f"{one.reason}{means}"
