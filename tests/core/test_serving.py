"""What a group says where nobody of it is sent traffic."""

import attrs
import pytest

from lbcf.core.lifecycle.serving import is_asked, is_back, serving_condition
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.reasons import Reason
from tests.builders import a_load_balancer


@pytest.mark.parametrize(
    ("selected", "registered", "in_service", "is_told", "expected"),
    [
        pytest.param(2, 2, 2, False, None, id="as always"),
        pytest.param(2, 2, 1, False, None, id="one is down"),
        pytest.param(2, 0, 0, False, None, id="nobody is in yet"),
        pytest.param(2, 2, None, False, None, id="nobody lists them"),
        pytest.param(2, 2, 0, False, (False, Reason.ALL_MEMBERS_DOWN), id="all down"),
        pytest.param(0, 1, 1, False, (False, Reason.NOTHING_SELECTED), id="nothing"),
        pytest.param(2, 2, 1, True, (True, Reason.SERVING), id="one is back"),
        pytest.param(2, 2, None, True, (True, Reason.SERVING), id="nobody lists now"),
    ],
)
def test_group_says_when_nobody_serves(
    selected: int,
    registered: int,
    in_service: int | None,
    expected: tuple[bool, Reason] | None,
    *,
    is_told: bool,
) -> None:
    """And nothing, without a write, as long as somebody always did."""
    found = serving_condition(
        selected, registered, in_service, is_told=is_told, generation=1
    )

    assert expected == (None if found is None else (found.status, found.reason))


@pytest.mark.parametrize(("status", "known"), [(True, True), (False, False)])
def test_only_a_load_balancer_that_is_reached_tells(
    *, status: bool, known: bool
) -> None:
    """What it said before it could not be reached is not counted."""
    said = (Condition(conditions.REACHABLE, status, Reason.REACHABLE),)

    assert known is is_asked(attrs.evolve(a_load_balancer(), conditions=said))
    assert not is_asked(a_load_balancer())
    assert not is_asked(None)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(False, True, True, id="back"),
        pytest.param(None, True, True, id="listed again"),
        pytest.param(True, True, False, id="never away"),
        pytest.param(True, False, False, id="going away"),
        pytest.param(False, False, False, id="still away"),
        pytest.param(False, None, False, id="listed no more"),
    ],
)
def test_load_balancer_is_back(
    *, before: bool | None, after: bool | None, expected: bool
) -> None:
    """Where it was told that it could not be reached, and is told that it can."""
    old, new = (
        attrs.evolve(
            a_load_balancer(),
            conditions=(Condition(conditions.REACHABLE, status, Reason.REACHABLE),),
        )
        for status in (before, after)
    )

    assert expected is is_back(old, new)


def test_load_balancer_that_was_never_away_is_not_back() -> None:
    """Its first reading ends no pause."""
    said = (Condition(conditions.REACHABLE, True, Reason.REACHABLE),)
    reached = attrs.evolve(a_load_balancer(), conditions=said)

    assert not is_back(a_load_balancer(), reached)
    assert not is_back(None, reached)
    assert not is_back(reached, None)
