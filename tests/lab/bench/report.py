"""Prints outcomes as tables, and all figures as JSON."""

import json

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs

from rich.console import Console
from rich.table import Table

from tests.lab.bench.ground import OURS
from tests.lab.bench.outcome import Outcome
from tests.lab.bench.verdict import Line


_MIB = 2**20
_COLUMNS = (
    "phase",
    "s",
    "floor s",
    "ratio",
    "writes each",
    "driver calls",
    "CPU ms each",
    "peak MiB",
    "lag ms",
    "others' CPU s",
)


def show(console: Console, outcomes: Iterable[Outcome], title: str) -> None:
    """Print a scenario's phases: one table of costs, one of times, one of requests."""
    known = list(outcomes)
    costs = Table(*_COLUMNS, title=title)
    for found in known:
        costs.add_row(*_costs(found))
    times = Table("phase", "time", "p50 ms", "p99 ms", "max ms", "cases")
    for found in known:
        for name, s in found.spreads.items():
            figures = (f"{1000 * x:.0f}" for x in (s.p50, s.p99, s.longest))
            times.add_row(found.name, name, *figures, str(s.count))
    requests = Table("phase", "who", "requests and driver calls")
    for found in known:
        for who, counts in {**found.requests, "driver": found.driver}.items():
            listed = ", ".join(f"{n} {what}" for what, n in counts.items())
            requests.add_row(found.name, who, listed)
    programs = list(dict.fromkeys(name for found in known for name in found.cpu))
    cpu = Table("phase", *programs, title="CPU seconds")
    for found in known:
        cpu.add_row(found.name, *(f"{found.cpu.get(n, 0):.2f}" for n in programs))
    for table in (costs, times, requests, cpu):
        console.print(table)


def _costs(found: Outcome) -> list[str]:
    """Write the row of one phase."""
    each = found.lifecycles
    return [
        found.name,
        f"{found.seconds:.2f}",
        "" if found.floor is None else f"{found.floor:.2f}",
        "" if found.ratio is None else f"{found.ratio:.2f}",
        f"{found.writes / each:.2f}" if each else str(found.writes),
        str(found.asked),
        " + ".join(_cpu_each(found, name) for name in OURS),
        " / ".join(f"{found.peak.get(name, 0) / _MIB:.0f}" for name in OURS),
        " / ".join(f"{1000 * found.lag.get(name, 0):.0f}" for name in OURS),
        f"{found.others_cpu:.1f}",
    ]


def _cpu_each(found: Outcome, name: str) -> str:
    """Write a program's CPU per lifecycle, or all of it where there is none."""
    cpu = found.cpu.get(name, 0.0)
    each = found.lifecycles
    return f"{1000 * cpu / each:.2f}" if each else f"{cpu:.2f} s"


def show_batches(
    console: Console, singly: Sequence[Outcome], batched: Sequence[Outcome]
) -> None:
    """Print what batches change: CPU of a life, times to the first call, driver calls."""
    size = singly[0].size
    table = Table(
        "", "singly", "in batches", "ratio", title=f"{size} pods, batches of the driver"
    )
    for what, figure in (
        ("CPU of a life, ms", lambda all_: 1000 * sum(o.our_cpu for o in all_) / size),
        ("ready to first call, p99 s", lambda all_: _p99(all_, "ready to first call")),
        (
            "deletion to first call, p99 s",
            lambda all_: _p99(all_, "deletion to first call"),
        ),
        ("driver calls", lambda all_: float(sum(o.asked for o in all_))),
    ):
        one, other = figure(singly), figure(batched)
        table.add_row(what, f"{one:.2f}", f"{other:.2f}", f"{other / one:.2f}")
    console.print(table)


def _p99(outcomes: Iterable[Outcome], name: str) -> float:
    """Return the p99 of a time that one of the phases has."""
    return next(o.spreads[name].p99 for o in outcomes if name in o.spreads)


def show_verdict(console: Console, lines: Iterable[Line]) -> None:
    """Print each limit with what was measured."""
    table = Table("what", "measured", "limit", "holds", title="limits")
    for line in lines:
        holds = "yes" if line.holds else "NO"
        table.add_row(line.what, f"{line.figure:.3g}", f"{line.limit:.3g}", holds)
    console.print(table)


def save(path: Path, **parts: Any) -> None:
    """Write all figures to a file."""

    def plain(part: Any) -> Any:
        """Make JSON of values."""
        return attrs.asdict(part)

    path.write_text(json.dumps(parts, default=plain, indent=1) + "\n")
