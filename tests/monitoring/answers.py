"""What a Prometheus answers to each panel of the dashboard, as it is shipped.

`drawing` draws it; tests look whether every query is taken, and whether there is an
answer at all.
"""

import json

from collections.abc import Iterator
from typing import Any

import attrs

from tests.monitoring import dashboard
from tests.monitoring.server import Prometheus, Span


ROW = "row"
"""The type of what is a headline between panels."""


@attrs.frozen
class Line:
    """One line of a panel.

    Attributes:
        legend: what it is called.
        points: moments, as Unix time, with the values there.
    """

    legend: str
    points: tuple[tuple[float, float], ...]


@attrs.frozen
class Answered:
    """One panel with its lines.

    Attributes:
        panel: as in the dashboard's JSON; a row is one without lines.
        lines: in the order of the queries.
    """

    panel: dict[str, Any]
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """What stands above it."""
        title: str = self.panel["title"]
        return title

    @property
    def is_empty(self) -> bool:
        """Whether Grafana would say that there is no data."""
        return self.panel["type"] != ROW and not self.lines


def panels() -> Iterator[dict[str, Any]]:
    """Read the dashboard's panels and rows, as Grafana would."""
    yield from json.loads(dashboard.PAGE.read_text())["panels"]


async def answered(prometheus: Prometheus, span: Span) -> list[Answered]:
    """Ask all that the dashboard asks.

    Raises:
        PrometheusError: a query is refused.
    """
    return [Answered(one, await _lines(prometheus, span, one)) for one in panels()]


async def _lines(
    prometheus: Prometheus, span: Span, panel: dict[str, Any]
) -> tuple[Line, ...]:
    """Ask the queries of one panel."""
    return tuple(
        [
            Line(series.called(target["legendFormat"]), series.points)
            for target in panel.get("targets", ())
            for series in await prometheus.graph(target["expr"], span)
        ]
    )
