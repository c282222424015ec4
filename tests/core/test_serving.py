"""What a group says where nobody of it is sent traffic."""

import attrs
import pytest

from lbcf.core.lifecycle.serving import is_asked, serving_condition
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
