"""What load reports say of an address, as a table."""

from datetime import timedelta

import pytest

from webhooks.envoy.fleets import Fleets
from webhooks.envoy.loads import Load, Report, Reporting
from webhooks.envoy.messages import Node


LB = "lbcf/10.0.0.1:80"


@pytest.mark.parametrize(
    ("report", "at", "left"),
    [
        ({}, 10.0, None),
        ({LB: {}}, 9.9, None),
        ({LB: {}}, 10.0, 0),
        ({LB: {"10.0.0.2:80": Load(3, 4)}}, 10.0, 0),
        ({LB: {"10.0.0.1:80": Load(3, 4)}}, 10.0, 3),
        ({LB: {"10.0.0.1:80": Load(0, 4)}}, 10.0, 4),
    ],
    ids=["not counted yet", "too old", "idle", "another", "busy", "just was"],
)
def test_what_is_known_of_an_address(
    report: Report, at: float, left: int | None
) -> None:
    """Nothing is known before a report that counts the cluster is new enough."""
    reporting = Reporting()
    assert reporting.left(LB, "10.0.0.1:80", 0.0) is None

    reporting.take(report, at)

    assert left == reporting.left(LB, "10.0.0.1:80", 10.0)


def test_the_stream_that_ended_is_dropped() -> None:
    """Two processes of one Envoy have reported the same, or nothing; one of them ends."""
    known, node = Fleets(lambda: 0.0, timedelta(seconds=30)), Node("edge", "a")
    stays, ends = known.report(node), known.report(node)

    known.end_report(node, ends)

    (kept,) = known.fleet("edge").reports["a"]
    assert stays is kept
