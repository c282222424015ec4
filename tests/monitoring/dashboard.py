"""The Grafana dashboard: rows of panels here, its JSON in manifests/monitoring."""

import json

from collections.abc import Iterator
from pathlib import Path

import attrs


PAGE = Path("manifests/monitoring/dashboard.json")
WIDTH = 24
"""Columns of Grafana's grid."""
_HEIGHT = 8
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SECONDS = "s"


@attrs.frozen
class Panel:
    """One graph.

    Attributes:
        title: above it.
        queries: by what their lines are called.
        unit: of Grafana's; empty for a plain number.
        why: what it is good for.
        kind: of Grafana's panels.
    """

    title: str
    queries: dict[str, str]
    unit: str = ""
    why: str = ""
    kind: str = "timeseries"


def _quantile(part: str, metric: str, by: str) -> str:
    """Ask for a quantile of a histogram."""
    rate = f"rate({metric}_bucket[$__rate_interval])"
    return f"histogram_quantile({part}, sum by (le, {by}) ({rate}))"


def _rate(metric: str, by: str) -> str:
    """Ask for how many there are in a second."""
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))"


ROWS: dict[str, tuple[Panel, ...]] = {
    "Is anything wrong?": (
        Panel(
            "Leaders",
            {
                "{{name}}": "max by (name) "
                '(leader_election_master_status{name=~"lbcf-.*"})'
            },
            why="1: a replica leads. 0: nobody works.",
            kind="stat",
        ),
        Panel(
            "Oldest deletion",
            {"{{driver}}": "max by (driver) (lbcf_oldest_deletion_age_seconds)"},
            _SECONDS,
            "For how long the record waits that was deleted first.",
            "stat",
        ),
        Panel(
            "Removals held",
            {
                "{{namespace}}/{{group}}": "max by (namespace, group) "
                "(lbcf_removals_held)"
            },
            why="Backends that a guard keeps in their load balancer.",
            kind="stat",
        ),
        Panel(
            "Records in trouble",
            {
                "{{condition}}: {{reason}}": "max by (condition, reason) "
                '(lbcf_records{status="False"})'
            },
            why="By what their conditions say; Draining is no trouble.",
        ),
    ),
    "Registrations and removals": (
        Panel(
            "Rate",
            {
                "registered, {{driver}}": _rate(
                    "lbcf_registration_duration_seconds_count", "driver"
                ),
                "removed, {{driver}}": _rate(
                    "lbcf_deregistration_duration_seconds_count", "driver"
                ),
            },
            "ops",
        ),
        Panel(
            "Time to register",
            {
                "half, {{driver}}": _quantile(
                    "0.5", "lbcf_registration_duration_seconds", "driver"
                ),
                "99 %, {{driver}}": _quantile(
                    "0.99", "lbcf_registration_duration_seconds", "driver"
                ),
            },
            _SECONDS,
        ),
        Panel(
            "Time to remove, drains included",
            {
                "half, {{driver}}": _quantile(
                    "0.5", "lbcf_deregistration_duration_seconds", "driver"
                ),
                "99 %, {{driver}}": _quantile(
                    "0.99", "lbcf_deregistration_duration_seconds", "driver"
                ),
            },
            _SECONDS,
        ),
        Panel(
            "Waiting",
            {
                "draining, {{driver}}": "max by (driver) (lbcf_drains_waiting)",
                "deleted, {{driver}}": "max by (driver) (lbcf_deletions_waiting)",
            },
            why="Records on their way out; of these, those that drain.",
        ),
        Panel(
            "Ends of drains",
            {"{{outcome}}": _rate("lbcf_drains_total", "outcome")},
            "ops",
            "Deadline: connections were left when the time was over.",
        ),
    ),
    "Drivers": (
        Panel(
            "Calls by outcome",
            {
                "{{driver}} {{outcome}}": _rate(
                    "lbcf_driver_calls_total", "driver, outcome"
                )
            },
            "ops",
        ),
        Panel(
            "Time of calls, 99 %",
            {
                "{{operation}}": _quantile(
                    "0.99", "lbcf_driver_call_duration_seconds", "operation"
                )
            },
            _SECONDS,
        ),
        Panel(
            "Under way, and waiting for a place",
            {
                "under way, {{driver}}": "sum by (driver) (lbcf_driver_calls_in_flight)",
                "waiting, {{driver}}": "sum by (driver) (lbcf_driver_calls_waiting)",
            },
        ),
        Panel(
            "Calls whose effect nobody knows",
            {
                "{{driver}} {{operation}}": _rate(
                    "lbcf_driver_calls_without_answer_total", "driver, operation"
                )
            },
            "ops",
        ),
    ),
    "API server": (
        Panel(
            "Writes",
            {
                "{{method}} {{code}}": "sum by (method, code) (rate("
                'rest_client_requests_total{job="lbcf",method!="GET"}'
                "[$__rate_interval]))"
            },
            "ops",
            "409: somebody was faster, which costs nothing but the try.",
        ),
        Panel(
            "Time of requests, 99 %",
            {
                "{{verb}}": "histogram_quantile(0.99, sum by (le, verb) (rate("
                'rest_client_request_duration_seconds_bucket{job="lbcf"}'
                "[$__rate_interval])))"
            },
            _SECONDS,
        ),
        Panel(
            "Silence of watches",
            {"{{resource}}": "max by (resource) (lbcf_watch_silence_seconds)"},
            _SECONDS,
            "Bookmarks come once a minute; from 300 s on /healthz fails.",
        ),
        Panel(
            "Questions of the API server",
            {
                "{{resource}} {{verdict}}": _rate(
                    "lbcf_admission_reviews_total", "resource, verdict"
                )
            },
            "ops",
        ),
    ),
    "Processes": (
        Panel(
            "Queues",
            {"{{pod}} {{name}}": 'max by (pod, name) (workqueue_depth{job="lbcf"})'},
        ),
        Panel(
            "Time in queues, 99 %",
            {
                "{{name}}": "histogram_quantile(0.99, sum by (le, name) (rate("
                'workqueue_queue_duration_seconds_bucket{job="lbcf"}'
                "[$__rate_interval])))"
            },
            _SECONDS,
        ),
        Panel(
            "Delay of the event loop",
            {"{{pod}}": "max by (pod) (lbcf_event_loop_lag_seconds)"},
            _SECONDS,
        ),
        Panel(
            "Memory",
            {"{{pod}}": 'max by (pod) (process_resident_memory_bytes{job="lbcf"})'},
            "bytes",
        ),
    ),
}


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
            width = WIDTH // len(panels)
            where = {"x": place * width, "y": y, "w": width, "h": _HEIGHT}
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
            "defaults": {"unit": panel.unit or "short", "min": 0},
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
