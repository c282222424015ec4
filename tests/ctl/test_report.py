"""The words of reports: durations, selectors, and the marks of conditions."""

from datetime import timedelta

import pytest

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import PodSelection, Selection, StaticSelection
from lbcf.core.model.selectors import Operator, Requirement, Selector
from lbcf.core.reasons import ConditionReason, ForeignReason, Reason
from lbcf.ctl.report import (
    Mark,
    condition_line,
    human_duration,
    relative_time,
    selection_text,
)
from tests.builders import BY_LABEL, START, WEB, seconds
from tests.ctl.readings import NOW
from tests.node_builders import OF_NODES, OF_SERVICE


GOOD_IF_FALSE = {
    *(conditions.DRIFTED, conditions.REMOVALS_HELD),
    *(conditions.DRAINED_BY_HAND, conditions.ORPHANED, conditions.DRAINS_CUT),
}
GOOD_IF_TRUE = {
    *(conditions.REGISTERED, conditions.DRAINED, conditions.DEREGISTERED),
    *(conditions.CREATED, conditions.ATTRIBUTES_SYNCED, conditions.REACHABLE),
    *(conditions.IN_SERVICE, conditions.LOAD_BALANCER_READY),
    *(conditions.DRAIN_GATED, conditions.SERVING, conditions.RESTORED),
    *(conditions.READY, conditions.ACCEPTED, conditions.HEALTHY),
}


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
    assert written == human_duration(timedelta(seconds=length))


def test_moments_lie_ahead_or_back() -> None:
    """A deadline that has passed says how long ago."""
    assert "in 12s" == relative_time(START + seconds(12), START)
    assert "3s ago" == relative_time(START - seconds(3), START)


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
    assert words == selection_text(selection)


@pytest.mark.parametrize(
    ("kind", "status", "reason", "mark"),
    [
        (conditions.READY, False, Reason.LOAD_BALANCER_NOT_FOUND, "NO"),
        (conditions.READY, None, ForeignReason("Unknown"), "wait"),
        (conditions.REMOVALS_HELD, True, Reason.TOO_MANY_UNREADY, "NO"),
        (conditions.REMOVALS_HELD, True, Reason.KEPT_BY_DRIVER, "wait"),
        (conditions.REMOVALS_HELD, False, Reason.NOT_HELD, "ok"),
        (conditions.DRIFTED, True, Reason.MEMBERS_MISSING, "NO"),
        (conditions.DRIFTED, False, Reason.IN_STEP, "ok"),
        (conditions.ORPHANED, True, Reason.MEMBERS_ORPHANED, "NO"),
        (conditions.ORPHANED, False, Reason.NO_ORPHANS, "ok"),
        (conditions.RESTORED, False, Reason.LOAD_BALANCER_RESET, "wait"),
        (conditions.RESTORED, True, Reason.MEMBERS_PUT_BACK, "ok"),
        (conditions.CREATED, False, Reason.DRIVER_RUNNING, "wait"),
        (conditions.CREATED, True, Reason.CREATED, "ok"),
    ],
)
def test_condition_is_marked_as_status_counts_it(
    kind: str, reason: ConditionReason, mark: str, *, status: bool | None
) -> None:
    """What is not wrong there is not called so here."""
    condition = Condition(kind, status, reason, "because", 1, START)

    assert mark == condition_line(condition, NOW).mark.value


def test_polarity_of_each_condition_is_known() -> None:
    """A new condition has to be put into one of the two sets, and marked likewise."""
    types = {
        value
        for name, value in vars(conditions).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str)
    }
    assert types == GOOD_IF_TRUE | GOOD_IF_FALSE, (
        "put it into one of these two sets; False is good: also _BETTER_FALSE of "
        "lbcf/ctl/report.py"
    )
    for kind in types:
        for status in (True, False):
            said = Condition(kind, status, ForeignReason(""), "", 1, START)
            is_good = status is (kind in GOOD_IF_TRUE)
            assert is_good is (condition_line(said, NOW).mark is Mark.OK), said
