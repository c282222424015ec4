"""Lengths of time, selectors, and the spelling of fields."""

from datetime import timedelta

import pytest

from lbcf.core.model.resources import PodSelection, Selection, StaticSelection
from lbcf.core.model.selectors import Operator, Requirement, Selector
from lbcf.ctl.output import as_builtins
from lbcf.ctl.problems import Problem
from lbcf.ctl.selections import meant
from lbcf.ctl.spans import span, when
from tests.builders import BY_LABEL, START, WEB, seconds
from tests.node_builders import OF_NODES, OF_SERVICE


@pytest.mark.parametrize(
    ("length", "written"),
    [
        (-5.0, "0s"),
        (0.9, "0s"),
        (7.0, "7s"),
        (60.0, "1m"),
        (125.0, "2m5s"),
        (3725.0, "1h2m"),
        (86400.0 + 30, "1d"),
        (4 * 86400.0 + 7200, "4d2h"),
    ],
)
def test_lengths_of_time_have_two_units(length: float, written: str) -> None:
    """Smaller units than the two largest are left out, whatever lies between."""
    assert written == span(timedelta(seconds=length))


def test_moments_lie_ahead_or_back() -> None:
    """A deadline that has passed says how long ago."""
    assert "in 12s" == when(START + seconds(12), START)
    assert "3s ago" == when(START - seconds(3), START)


EXPRESSIONS = (
    Requirement("tier", Operator.IN, frozenset({"b", "a"})),
    Requirement("old", Operator.DOES_NOT_EXIST),
)


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (BY_LABEL, "pods with app=web"),
        (PodSelection((WEB,), names=frozenset({"b", "a"})), "pods named a, b"),
        (
            PodSelection(
                (WEB,), Selector({"app": "web"}, EXPRESSIONS), excluded=frozenset("x")
            ),
            "pods with app=web,tier in (a, b),!old except x",
        ),
        (StaticSelection(("10.0.0.1:80",)), "1 static addresses"),
        (OF_SERVICE, "port 80/TCP of Service web on nodes"),
        (OF_NODES, "nodes with any labels"),
    ],
)
def test_selections_are_told_as_kubectl_writes_them(
    selection: Selection, words: str
) -> None:
    """Each kind of selection, with all that narrows it."""
    assert words == meant(selection)


def test_json_spells_fields_as_the_api_does() -> None:
    """Programs that read objects read reports, too."""
    problem = Problem("shop", "lb/front", "DriverRefused", "full", count=2)

    assert {
        "namespace": "shop",
        "subject": "lb/front",
        "reason": "DriverRefused",
        "message": "full",
        "since": "",
        "next": "",
        "count": 2,
    } == as_builtins(problem)
