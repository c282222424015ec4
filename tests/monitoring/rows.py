"""The panels of the dashboard, row by row: what each asks, and what for.

`dashboard` makes Grafana's JSON of them.
"""

from typing import Final

import attrs


_SECONDS: Final = "s"


@attrs.frozen
class Panel:
    """One graph.

    Attributes:
        title: above it.
        queries: by what their lines are called.
        unit: of Grafana's; empty for a plain number.
        why: what it is good for.
        kind: of Grafana's panels.
        limits: colours of a number, each from a value on; the first one from nothing on.
    """

    title: str
    queries: dict[str, str]
    unit: str = ""
    why: str = ""
    kind: str = "timeseries"
    limits: tuple[tuple[float | None, str], ...] = ((None, "green"),)


def _quantile(part: str, metric: str, by: str) -> str:
    """Ask for a quantile of a histogram."""
    rate = f"rate({metric}_bucket[$__rate_interval])"
    return f"histogram_quantile({part}, sum by (le, {by}) ({rate}))"


def _rate(metric: str, by: str) -> str:
    """Ask for how many there are in a second."""
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))"


ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Is anything wrong?": (
        Panel(
            "Leaders",
            {
                "{{name}}": "max by (name) "
                '(leader_election_master_status{name=~"lbcf-.*"})'
            },
            why="1: a replica leads. 0: nobody works.",
            kind="stat",
            limits=((None, "red"), (1, "green")),
        ),
        Panel(
            "Oldest deletion",
            {"{{driver}}": "max by (driver) (lbcf_oldest_deletion_age_seconds)"},
            _SECONDS,
            "For how long the record waits that was deleted first.",
            "stat",
            ((None, "green"), (300, "orange"), (1800, "red")),
        ),
        Panel(
            "Oldest registration",
            {"{{driver}}": "max by (driver) (lbcf_oldest_registration_age_seconds)"},
            _SECONDS,
            "For how long the record waits that is to be registered first.",
            "stat",
            ((None, "green"), (120, "orange"), (600, "red")),
        ),
        Panel(
            "Removals held",
            {
                "{{namespace}}/{{group}}": "max by (namespace, group) "
                "(lbcf_removals_held)"
            },
            why="Backends that a guard keeps in their load balancer.",
            kind="stat",
            limits=((None, "green"), (1, "orange")),
        ),
        Panel(
            "Records in trouble",
            {
                "{{condition}}: {{reason}}": "max by (condition, reason) "
                '(lbcf_records{status="False",reason!="Draining"})'
            },
            why="By what their conditions say; those that drain are well.",
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
                "{{driver}} {{outcome}}": "sum by (driver, outcome) (rate("
                "lbcf_driver_calls_total"
                '{operation!~"(ensure|drain|deregister)Backends"}'
                "[$__rate_interval]) or "
                "rate(lbcf_driver_batch_results_total[$__rate_interval]))"
            },
            "ops",
            "A batch counts as one call for each of its members.",
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
            {"{{name}}": 'max by (name) (workqueue_depth{job="lbcf"})'},
        ),
        Panel(
            "Time in queues, 99 %",
            {
                "{{name}}": "histogram_quantile(0.99, sum by (le, name) (rate("
                'workqueue_queue_duration_seconds_bucket{job="lbcf"}'
                "[$__rate_interval])))"
            },
            _SECONDS,
            "After a take-over it has what waited until the new leader led.",
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
