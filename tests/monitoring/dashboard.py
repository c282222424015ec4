"""Grafana's JSON of the dashboard, in manifests/monitoring, made of `rows`."""

import json

from collections.abc import Iterator
from pathlib import Path

from tests.monitoring.rows import ROWS, Panel


PAGE = Path("manifests/monitoring/dashboard.json")
WIDTH = 24
"""Columns of Grafana's grid."""
_HEIGHT = 8
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def rendered() -> str:
    """Write the dashboard as Grafana imports it."""
    dashboard = {
        "title": "lbcf",
        "uid": "lbcf",
        "tags": ["kubernetes", "load balancer"],
        "editable": True,
        "schemaVersion": 39,
        "version": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_data_source()]},
        "panels": list(placed()),
    }
    return json.dumps(dashboard, indent=1) + "\n"


def _data_source() -> dict[str, object]:
    """Let the reader choose which Prometheus is asked."""
    return {
        "name": "datasource",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
    }


def placed() -> Iterator[dict[str, object]]:
    """Lay the panels out, row by row."""
    number, y = 0, 0
    for title, panels in ROWS.items():
        number += 1
        where = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "gridPos": where,
            "collapsed": False,
            "panels": [],
        }
        y += 1
        for place, panel in enumerate(panels):
            number += 1
            x, end = (WIDTH * n // len(panels) for n in (place, place + 1))
            where = {"x": x, "y": y, "w": end - x, "h": _HEIGHT}
            yield _drawn(panel, number, where)
        y += _HEIGHT


def _drawn(panel: Panel, number: int, where: dict[str, int]) -> dict[str, object]:
    """Write one panel."""
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.why,
        "gridPos": where,
        "datasource": _SOURCE,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit or "short",
                "min": 0,
                "noValue": "none",
                "thresholds": _thresholds(panel),
            },
            "overrides": [],
        },
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query,
                "legendFormat": legend,
            }
            for index, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def _thresholds(panel: Panel) -> dict[str, object]:
    """Write from which value on a number has which colour."""
    steps = [{"value": value, "color": colour} for value, colour in panel.limits]
    return {"mode": "absolute", "steps": steps}
