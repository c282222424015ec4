"""Each condition says of which generation of its object it was found."""

from collections.abc import Callable

import attrs
import pytest

from lbcf.core.lifecycle.departures import cut_condition
from lbcf.core.lifecycle.in_service import in_service
from lbcf.core.lifecycle.listing import (
    Epochs,
    Loss,
    being_restored,
    drift_of,
    orphaned,
    reachable,
    restored,
)
from lbcf.core.lifecycle.serving import serving_condition
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.values import Uid
from lbcf.core.reasons import Reason
from lbcf.core.selection.hand_drain import said_of
from tests.builders import a_load_balancer, a_record


SEVENTH = 7
BALANCER = attrs.evolve(
    a_load_balancer(generation=SEVENTH),
    conditions=(
        Condition(conditions.DRIFTED, True, Reason.MEMBERS_MISSING),
        Condition(conditions.ORPHANED, True, Reason.MEMBERS_ORPHANED),
    ),
)
RECORD = a_record(registered=True, generation=SEVENTH)
LOSS = Loss("a", "b", frozenset({Uid("u")}), 0.0)
ORPHAN = ("10.0.0.1:80", "uid-gone")


@pytest.mark.parametrize(
    "tell",
    [
        pytest.param(lambda: in_service(RECORD, ""), id="in service"),
        pytest.param(lambda: drift_of(BALANCER, (RECORD,)), id="drifted"),
        pytest.param(lambda: drift_of(BALANCER, ()), id="in step"),
        pytest.param(lambda: orphaned(BALANCER, (ORPHAN,)), id="orphaned"),
        pytest.param(lambda: orphaned(BALANCER, ()), id="no orphans"),
        pytest.param(lambda: being_restored(BALANCER, LOSS), id="being restored"),
        pytest.param(lambda: restored(BALANCER, LOSS, 1, 2.0), id="restored"),
        pytest.param(
            lambda: serving_condition(0, 0, 0, is_told=True, generation=SEVENTH),
            id="nobody",
        ),
        pytest.param(
            lambda: serving_condition(1, 1, 1, is_told=True, generation=SEVENTH),
            id="serving",
        ),
        pytest.param(
            lambda: cut_condition((), is_told=True, generation=SEVENTH), id="not cut"
        ),
        pytest.param(lambda: reachable(BALANCER, Epochs(), 0.0), id="reachable"),
        pytest.param(lambda: said_of(["pod web-1: a disk"], SEVENTH), id="drained"),
        pytest.param(lambda: said_of([], SEVENTH), id="not drained"),
    ],
)
def test_condition_is_of_a_generation(tell: Callable[[], Condition | None]) -> None:
    """So that a reader knows whether it is about the spec that there is now."""
    told = tell()

    assert told is not None
    assert SEVENTH == told.observed_generation
