"""Draws the dashboard as Grafana lays it out, from what a Prometheus answered.

`answers` has asked the Prometheus, `graphs` draws what is in a panel. Text stays text in the
SVG, so that it can be searched.
"""

import io
import re
import textwrap

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import matplotlib as mpl

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tests.monitoring import dashboard
from tests.monitoring.answers import ROW, Answered
from tests.monitoring.graphs import (
    GREY,
    PLAIN,
    SMALL,
    draw_graph,
    draw_stat,
    legend_rows,
)
from tests.monitoring.scene import Event
from tests.monitoring.server import Span
from tests.monitoring.units import clock


INCH: Final = 1.75
"""Columns of the grid in one inch."""
_LETTERS: Final = 11
"""Small ones in a column."""
TALL: Final = 0.62
"""Height of a grid's row, in its columns."""
HEAD: Final = 4.2
"""Rows above the grid, for the headline and what happened."""
FRAME, PAPER = "#d8dbe0", "#f4f5f5"
_LONG: Final = re.compile(r">[^<]*<|-?\d+\.\d{2,}")
"""Places, and texts, which are not to be touched."""
_STYLE: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lbcf",
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
    "path.simplify_threshold": 0.5,
}


class Picture:
    """The whole dashboard.

    Args:
        shown: rows and panels with their lines.
        span: what the graphs cover.
        events: what happened in that time.
    """

    def __init__(
        self, shown: Sequence[Answered], span: Span, events: Sequence[Event]
    ) -> None:
        self._span = span
        self._events = events
        mpl.rcParams.update(cast("Any", _STYLE))
        self._rows = HEAD + max(
            one.panel["gridPos"]["y"] + one.panel["gridPos"]["h"] for one in shown
        )
        size = (dashboard.WIDTH / INCH, self._rows * TALL / INCH)
        self._figure = Figure(figsize=size, facecolor=PAPER)
        self._headline()
        for one in shown:
            self._row(one) if one.panel["type"] == ROW else self._panel(one)

    def save(self, path: Path) -> None:
        """Write it as SVG, with places in tenths of a point."""
        drawn = io.StringIO()
        self._figure.savefig(
            drawn, format="svg", metadata={"Date": None, "Creator": None}
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_LONG.sub(_shortened, drawn.getvalue()), "utf-8")

    def _text(self, x: float, y: float, text: str, **how: Any) -> None:
        """Write at a place of the grid, counted from the upper left."""
        look: dict[str, Any] = {
            "fontsize": PLAIN,
            "va": "top",
            "color": "#1f2329",
            **how,
        }
        self._figure.text(x / dashboard.WIDTH, 1 - y / self._rows, text, **look)

    def _headline(self) -> None:
        """Say what is seen, and what happened meanwhile."""
        begin, end = clock(self._span.begin), clock(self._span.end)
        self._text(0.2, 0.35, "lbcf", fontsize=14, weight="bold")
        about = f"{begin} to {end} UTC, drawn by `make pictures`, not by Grafana"
        self._text(23.8, 0.5, about, ha="right", color=GREY)
        told = [f"{n}  {event.told}" for n, event in enumerate(self._events, 1)]
        for place, text in enumerate(told):
            self._text(0.2 + 8 * (place % 3), 1.9 + 1.0 * (place // 3), text)

    def _row(self, row: Answered) -> None:
        """Write the headline of a row."""
        y = HEAD + row.panel["gridPos"]["y"]
        self._text(0.2, y + 0.3, f"▾ {row.title}", fontsize=9, weight="bold")

    def _panel(self, one: Answered) -> None:
        """Draw one panel with its frame, its title and what it is good for."""
        place = one.panel["gridPos"]
        x, y, width, height = place["x"], HEAD + place["y"], place["w"], place["h"]
        left, low, wide, high = self._box(x + 0.08, y + 0.1, width - 0.16, height - 0.2)
        frame = Rectangle((left, low), wide, high, zorder=-1, fc="white", ec=FRAME)
        self._figure.add_artist(frame)
        self._text(x + 0.25, y + 0.35, one.title, weight="bold")
        why = textwrap.wrap(one.panel["description"], round(width * _LETTERS))
        self._text(x + 0.25, y + 1.15, "\n".join(why), fontsize=SMALL, color=GREY)
        top = y + 1.6 + 0.6 * len(why)
        bottom = y + height
        if one.panel["type"] == "stat":
            inner = self._box(x + 0.25, top, width - 0.5, bottom - top - 0.3)
            draw_stat(self._figure.add_axes(inner), one)
        else:
            points = (width - 1.5) / INCH * 72
            below = 1.1 + 0.5 * legend_rows(one.lines, points)
            inner = self._box(x + 1.15, top, width - 1.5, bottom - top - below)
            marks = [event.at for event in self._events]
            draw_graph(self._figure.add_axes(inner), one, self._span, marks, points)

    def _box(
        self, x: float, y: float, width: float, height: float
    ) -> tuple[float, float, float, float]:
        """Turn a place of the grid into one of the figure: left, bottom, and size."""
        columns, rows = dashboard.WIDTH, self._rows
        return x / columns, 1 - (y + height) / rows, width / columns, height / rows


def _shortened(found: re.Match[str]) -> str:
    """Give a place in tenths of a point; leave a text as it is."""
    return found[0] if found[0].startswith(">") else f"{float(found[0]):.1f}"
