"""Draws what is in one panel: lines over time with their legend, or large numbers."""

import math

from collections.abc import Sequence
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from tests.monitoring.answers import Answered, Line
from tests.monitoring.server import Span
from tests.monitoring.units import clock, spelled


COLOURS: Final = (
    *("#3871dc", "#e0a100", "#299c46", "#c4162a", "#8f3bb8", "#e0752d"),
    *("#17a2b8", "#7a4b2a", "#d64191", "#6b7280"),
)
NAMED: Final = {"green": "#299c46", "orange": "#e0752d", "red": "#c4162a"}
"""Grafana's colours of thresholds."""
SMALL, PLAIN, LARGE = 6.5, 8.0, 19.0
"""Sizes of letters, in points."""
GREY: Final = "#6b7280"
_TICKS: Final = {"bytes": MultipleLocator(20 * 2**20)}
"""Where ten is no round number."""
_LEGEND_ROWS: Final = 4
_WIDE: Final = 0.55
"""Width of a letter, in its height."""


def draw_graph(
    axes: Axes, one: Answered, span: Span, marks: Sequence[float], width: float
) -> None:
    """Draw lines over time; what stands still is drawn as well.

    Args:
        axes: where to.
        one: the panel.
        span: what it covers.
        marks: moments to number, as Unix time.
        width: of the graph, in points.
    """
    for number, line in enumerate(one.lines):
        times, values = _broken(line, span.step)
        style = "-" if number < len(COLOURS) else "--"
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(times, values, style, color=colour, linewidth=1.1, label=line.legend)
    _look(axes, one, span)
    for number, at in enumerate(marks, 1):
        axes.axvline(at, color="#9aa1ab", linewidth=0.6, linestyle=":")
        place: dict[str, Any] = {
            "xy": (at, 1.0),
            "xycoords": ("data", "axes fraction"),
        }
        axes.annotate(str(number), **place, fontsize=SMALL - 1, color=GREY, ha="center")
    _legend(axes, one.lines, width)


def _look(axes: Axes, one: Answered, span: Span) -> None:
    """Give axes the range and the looks of Grafana's."""
    unit = one.panel["fieldConfig"]["defaults"]["unit"]
    axes.set_xlim(span.begin, span.end)
    highest = max((v for line in one.lines for _, v in line.points), default=0)
    axes.set_ylim(0, 1.05 * highest or 1)
    axes.yaxis.set_major_locator(_TICKS.get(unit, MaxNLocator(4)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: spelled(v, unit)))
    axes.xaxis.set_major_locator(MultipleLocator(60))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: clock(at)[:5]))
    axes.tick_params(labelsize=SMALL, colors=GREY, length=0)
    axes.grid(visible=True, color="#e8eaed", linewidth=0.6)
    for side in axes.spines.values():
        side.set_visible(False)


def legend_rows(lines: Sequence[Line], width: float) -> int:
    """Count the rows of a legend of that width in points, below which it scrolls."""
    return min(_LEGEND_ROWS, math.ceil(len(lines) / _columns(lines, width)))


def _columns(lines: Sequence[Line], width: float) -> int:
    """Count the names that a legend has beside each other."""
    longest = max((len(line.legend) for line in lines), default=0)
    return max(1, math.floor(width / ((longest + 4) * _WIDE * SMALL)))


def _legend(axes: Axes, lines: Sequence[Line], width: float) -> None:
    """Name the lines below; as many as there is room for, as Grafana would scroll."""
    columns = _columns(lines, width)
    handles, names = axes.get_legend_handles_labels()
    room = _LEGEND_ROWS * columns
    if len(names) > room:
        names[room - 1] = f"and {len(names) - room + 1} more"
    axes.legend(
        handles[:room],
        names[:room],
        loc="upper left",
        bbox_to_anchor=(-0.02, -0.14),
        ncols=columns,
        fontsize=SMALL,
        frameon=False,
        handlelength=1,
        columnspacing=1,
        labelspacing=0.25,
        borderpad=0,
    )


def draw_stat(axes: Axes, one: Answered) -> None:
    """Draw the last value of each line, large, over how it has been."""
    axes.axis("off")
    defaults = one.panel["fieldConfig"]["defaults"]
    for place, line in enumerate(one.lines):
        part = axes.inset_axes((place / len(one.lines), 0, 0.96 / len(one.lines), 1))
        part.axis("off")
        times = [at for at, _ in line.points]
        values = [value for _, value in line.points]
        colour = _colour(values[-1], defaults)
        part.fill_between(times, values, color=colour, alpha=0.15, linewidth=0)
        part.plot(times, values, color=colour, linewidth=0.8)
        part.set_ylim(0, 2.6 * max(*values, 1e-9))
        look: dict[str, Any] = {"transform": part.transAxes, "ha": "center"}
        part.text(0.5, 0.93, line.legend, fontsize=PLAIN, color=GREY, **look)
        told = spelled(values[-1], defaults["unit"])
        large: dict[str, Any] = {"fontsize": LARGE, "weight": "bold", "color": colour}
        part.text(0.5, 0.58, told, **large, **look)


def _colour(value: float, defaults: dict[str, Any]) -> str:
    """Choose the colour of the last threshold that a value has reached."""
    steps = defaults["thresholds"]["steps"]
    reached = [s for s in steps if s["value"] is None or value >= s["value"]]
    return NAMED[reached[-1]["color"]]


def _broken(line: Line, step: float) -> tuple[list[float], list[float]]:
    """Break a line where it has no value, as Grafana does."""
    times, values = [], []
    before = math.inf
    for at, value in line.points:
        if at - before > 1.5 * step:
            times.append(before + step)
            values.append(math.nan)
        times.append(at)
        values.append(value)
        before = at
    return times, values
