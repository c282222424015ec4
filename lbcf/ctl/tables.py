"""Draws reports as tables: with colours in a terminal's width, or plain and never cut."""

import re
import sys

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import singledispatch
from typing import Final

import attrs

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lbcf.core.reasons import Reason
from lbcf.ctl.abandon import Abandonment
from lbcf.ctl.drains import DrainsReport
from lbcf.ctl.hand_drain import HandDrainReport
from lbcf.ctl.orphans import OrphansReport
from lbcf.ctl.plan import PlanReport, RecordChange
from lbcf.ctl.records import next_attempt
from lbcf.ctl.report import Line, Mark, Section, WhyReport, age, relative_time
from lbcf.ctl.status import Problem, StatusReport
from lbcf.wire.plain import plain


_UNLIMITED: Final = 10_000
"""Columns of a pipe or a file: lines are never folded."""

_SUBJECT_PART: Final = 3
"""What was looked at may take a third of the width; longer names take a second line."""

_PLAN: Final = "WHAT|BACKEND|LB|ADDRESS|RECORD|WHY"
_GAP: Final = 2
_LEAST: Final = 10
"""Columns that a column of words needs."""

_ADDRESSES: Final = frozenset({"ADDRESS", "BACKEND", "URL"})
_PART: Final = re.compile(r"\[[^]]*\]|\d+(?:\.\d+){3}|\w+://|:\d+|[-./]?[^-./:\[]+|.")
"""What of an address stays in one line: an address of IP, a port, a word."""

_STYLES: Final[Mapping[str, str]] = {
    Mark.OK: "green",
    Mark.NO: "bold red",
    Mark.WAIT: "yellow",
    Mark.UNKNOWN: "magenta",
    Mark.NONE: "dim",
    "create": "green",
    "update": "yellow",
    "delete": "red",
    "hold": "magenta",
}


def make_console(width: int | None = None) -> Console:
    """Return a console of a width; None: the terminal's, and no limit without one."""
    if width is None and not sys.stdout.isatty():
        width = _UNLIMITED
    return _GuardedConsole(width=width, highlight=False, markup=False, emoji=False)


class _GuardedConsole(Console):
    """Keeps escape sequences in the texts of objects from reaching the terminal."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Draw something; what is not printable is escaped."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                lines = map(plain, segment.text.split("\n"))
                yield Segment("\n".join(lines), segment.style)


def print_report(report: object) -> None:
    """Draw a report."""
    sys.stdout.write(as_text(draw(report), make_console()))


@contextmanager
def live() -> Iterator[Callable[[object], None]]:
    """Provide what draws a report in the place of the one before."""
    with Live(console=make_console(), auto_refresh=False, transient=True) as place:

        def redraw(report: object) -> None:
            place.update(draw(report), refresh=True)

        yield redraw


def as_text(drawing: RenderableType, console: Console) -> str:
    """Render a drawing, without the blanks that fill up its cells."""
    with console.capture() as capture:
        console.print(drawing)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


@singledispatch
def draw(report: object) -> RenderableType:
    """Draw a report of any kind."""
    raise TypeError(f"no drawing of {type(report).__name__}")


@draw.register
def _(report: StatusReport) -> RenderableType:
    here = report.namespace
    parts: list[RenderableType] = [_nothing_wrong(report)]
    if report.problems:
        parts = [Text(f"WRONG ({len(report.problems)})", "bold red")]
        parts.extend(_problem(problem, report) for problem in report.problems)
    if report.lately:
        parts.append(Text(f"LATELY ({len(report.lately)})", "bold yellow"))
        parts.extend(_problem(problem, report) for problem in report.lately)
    groups = [
        (
            *(g.namespace, g.name, ",".join(g.load_balancers), g.ready),
            *(g.selected, g.registered),
            *("" if g.in_service is None else g.in_service, g.draining),
        )
        for g in report.groups
    ]
    balancers = [
        (b.namespace, b.name, b.driver, b.state, b.registered, b.pending, b.ending)
        for b in report.load_balancers
    ]
    drivers = [
        (d.namespace, d.name, d.url, d.accepted, d.healthy, d.load_balancers)
        for d in report.drivers
    ]
    leaders = [
        (one.namespace, one.name, one.holder, age(one.renewed, report.at))
        for one in report.leaders
    ]
    return Group(
        *parts,
        *_section_table(
            "GROUP|LOAD BALANCERS|READY|SELECTED|IN|IN SERVICE|LEAVING", groups, here
        ),
        *_section_table(
            "LOAD BALANCER|DRIVER|STATE|IN|NOT YET|LEAVING", balancers, here
        ),
        *_section_table("DRIVER|URL|ACCEPTED|HEALTHY|LOAD BALANCERS", drivers, here),
        *_section_table("LEASE|LEADER|RENEWED", leaders, here),
        *_unread(report.unread),
    )


def _nothing_wrong(report: StatusReport) -> Text:
    if not (report.groups or report.load_balancers or report.drivers or report.unread):
        place = f"in namespace {report.namespace} (-A asks about all of them)"
        where = place if report.namespace else "in the cluster"
        nothing = f"there is no group, load balancer or driver {where}"
        return Text(f"nothing is wrong: {nothing}", "yellow")
    if report.unread:
        return Text("nothing is wrong in what may be read", "yellow")
    return Text("nothing is wrong", "green")


def _problem(problem: Problem, report: StatusReport) -> RenderableType:
    far = problem.namespace not in {"", report.namespace}
    more = f" and {problem.count - 1} more" if problem.count > 1 else ""
    head = Text.assemble(
        (f"{problem.namespace} " if far else "", "dim"),
        (problem.subject, "bold"),
        more,
        "  ",
        (problem.reason, "red"),
        f"  {age(problem.since, report.at)}",
    )
    attempt = next_attempt(problem.next, report.at)
    following = f"; tried again {attempt}" if attempt else ""
    words = [Text(f"{problem.message}{following}")]
    if problem.remedy:
        words.append(_remedy(problem.remedy))
    return Padding(Group(head, Padding(Group(*words), (0, 0, 0, 4))), (0, 0, 0, 2))


def _remedy(text: str) -> Text:
    return Text(f"to do: {text}", "cyan")


@draw.register
def _(report: WhyReport) -> RenderableType:
    place = f" in namespace {report.namespace}" if report.namespace else ""
    head = Text.assemble((report.subject, "bold"), (place, "dim"))
    width = max((len(x.subject) for s in report.sections for x in s.lines), default=0)
    sections = [_DrawnSection(section, width) for section in report.sections]
    return Group(head, Text(report.headline), *sections, *_unread(report.unread))


@attrs.frozen
class _DrawnSection:
    """A section of a report, its subjects as wide as the widest of all sections."""

    section: Section
    widest: int

    def __rich_console__(
        self, _console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Draw it for a width."""
        width = min(self.widest, options.max_width // _SUBJECT_PART)
        grid = Table.grid(padding=(0, _GAP, 0, 0))
        grid.add_column(width=4, no_wrap=True)
        grid.add_column(width=width, overflow="fold")
        grid.add_column(overflow="fold")
        for line in self.section.lines:
            subject = _folded(line.subject, width)
            grid.add_row(Text(line.mark, _STYLES[line.mark]), subject, _words(line))
        yield Text(f"\n{self.section.title}", "bold")
        yield Padding(grid, (0, 0, 0, 2))


def _words(line: Line) -> Text:
    words = Text(line.text)
    if line.reason:
        words = Text.assemble((line.reason, _STYLES[line.mark]), f": {line.text}")
    return words if not line.remedy else words + "\n" + _remedy(line.remedy)


@draw.register
def _(report: PlanReport) -> RenderableType:
    counts = f"{report.selected} selected, {report.unready} unready, {report.kept} kept"
    head = Text.assemble((report.subject, "bold"), f": {counts}")
    if not report.changes:
        nothing = "nothing can be told" if report.doubts else "nothing would change"
        lines: list[RenderableType] = [Text(nothing)]
    else:
        lines = [_KubectlTable(_PLAN, tuple(map(_change, report.changes)))]
    doubts = [Text(f"undecided: {doubt}", "yellow") for doubt in report.doubts]
    return Group(head, *doubts, *lines, *_unread(report.unread))


def _change(change: RecordChange) -> tuple[object, ...]:
    why = f"{change.reason}: {change.message}" if change.reason else change.message
    what = Text(change.what, _STYLES[change.what])
    where = (change.load_balancer, change.address or "-")
    return (what, change.backend, *where, change.record, why)


@draw.register
def _(report: DrainsReport) -> RenderableType:
    if not report.drains:
        known = " that could be read" if report.unread else ""
        nothing = Text(f"nothing{known} is on its way out")
        return Group(nothing, *_unread(report.unread))
    rows = [
        (
            *(d.namespace, d.backend, d.load_balancer or "-", d.address or "-"),
            age(d.since, report.at),
            "-" if d.deadline is None else relative_time(d.deadline, report.at),
            "-" if d.connections is None else d.connections,
            d.waits_for if d.stage == Reason.DRAINING else f"{d.waits_for} ({d.stage})",
        )
        for d in report.drains
    ]
    header = "BACKEND|LB|ADDRESS|SINCE|DEADLINE|CONNS|WAITS FOR"
    return Group(
        _with_namespaces(header, rows, report.namespace), *_unread(report.unread)
    )


@draw.register
def _(report: HandDrainReport) -> RenderableType:
    what = f"drained by hand: {report.reason}" if report.reason else "back in service"
    head = Text.assemble((report.subject, "bold"), f": {what}")
    if not report.left:
        done = "nothing of it is in service" if report.reason else "nobody is missing"
        return Group(head, Text(done), *_unread(report.unread))
    left = DrainsReport(report.at, report.namespace, report.left, report.unread)
    return Group(head, draw(left))


@draw.register
def _(report: Abandonment) -> RenderableType:
    return Text(f"{report.subject} in namespace {report.namespace}: {report.told}")


@draw.register
def _(report: OrphansReport) -> RenderableType:
    others = f"; {report.others} more: run it again" if report.others else ""
    told = "to be taken out" if report.left else "nothing is left to be taken out"
    head = Text.assemble((report.subject, "bold"), f": {told}{others}")
    rows = tuple((one.address, one.record) for one in report.left)
    return Group(head, _KubectlTable("ADDRESS|RECORD", rows)) if rows else head


def _unread(texts: Iterable[str]) -> Iterable[RenderableType]:
    lines = [Text(f"not read: {one}", "magenta") for one in texts]
    return [Text(""), *lines] if lines else []


def _section_table(
    header: str, rows: Sequence[tuple[object, ...]], here: str
) -> Iterable[RenderableType]:
    return [Text(""), _with_namespaces(header, rows, here)] if rows else []


def _with_namespaces(
    header: str, rows: Sequence[tuple[object, ...]], here: str
) -> "_KubectlTable":
    if any(row[0] != here for row in rows):
        return _KubectlTable(f"NAMESPACE|{header}", tuple(rows))
    return _KubectlTable(header, tuple(row[1:] for row in rows))


@attrs.frozen
class _KubectlTable:
    """A table as kubectl draws it; numbers stand to the right.

    Where it is too wide, its last column is folded, and the others only if what that
    leaves is too little to read: the widest first, and addresses between their parts.
    """

    header: str
    rows: tuple[tuple[object, ...], ...]

    def __rich_console__(
        self, _console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Draw it for a width."""
        names = self.header.split("|")
        columns = [[str(row[n]) for row in self.rows] for n in range(len(names))]
        widths = _fitting(names, columns, options.max_width)
        table = Table(
            box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold"
        )
        for number, name in enumerate(names):
            is_number = all(isinstance(row[number], int) for row in self.rows)
            table.add_column(
                name,
                justify="right" if is_number else "left",
                overflow="fold",
                width=widths[number],
            )
        for row in self.rows:
            cells = zip(names, row, widths, strict=True)
            table.add_row(*(_cell(name, cell, width) for name, cell, width in cells))
        yield table


def _cell(name: str, cell: object, width: int) -> Text:
    if isinstance(cell, Text):
        return cell
    text = str(cell)
    return Text(_folded(text, width) if name in _ADDRESSES else text)


def _fitting(
    names: Sequence[str], columns: Sequence[Sequence[str]], most: int
) -> list[int]:
    """Return the columns' widths; together they may be too wide if all are narrow."""
    pairs = list(zip(names, columns, strict=True))
    widths = [max(map(len, (name, *cells))) for name, cells in pairs]
    least = [_least(name, cells) for name, cells in pairs]
    # Of a table of one column the last is the first.
    for number in (len(names) - 1, None):
        while (excess := sum(widths) + _GAP * (len(widths) - 1) - most) > 0:
            one = number if number is not None else _widest(widths, least)
            if one is None or widths[one] <= least[one]:
                break
            step = excess if number is not None else 1
            widths[one] = max(widths[one] - step, least[one])
    return widths


def _widest(widths: Sequence[int], least: Sequence[int]) -> int | None:
    able = [n for n in range(len(widths)) if widths[n] > least[n]]
    return max(able, key=lambda n: widths[n], default=None)


def _least(name: str, cells: Sequence[str]) -> int:
    """Return the width below which a column cannot be read."""
    longest = max(map(len, (name, *cells)))
    if name not in _ADDRESSES:
        return min(longest, max(_LEAST, *map(len, name.split())))
    return max(len(part) for cell in (name, *cells) for part in _PART.findall(cell))


def _folded(name: str, width: int) -> str:
    """Return an address or a name in lines, which end between its parts."""
    lines = [""]
    for part in _PART.findall(name):
        if len(lines[-1]) + len(part) > width and lines[-1]:
            lines.append("")
        lines[-1] += part if lines[-1] else part.lstrip()
    return "\n".join(lines)
