"""From when on an answer has to name a trouble."""

import pytest

from tests.lab.installed.symptoms import PROMISED, STEPS, Beginning


@pytest.mark.parametrize(
    ("asked", "plain", "overdue"),
    [
        pytest.param(3.0 + PROMISED, 0.0, False, id="as soon as it is promised"),
        pytest.param(3.1 + PROMISED, 0.0, True, id="after that"),
        pytest.param(
            2.9 + PROMISED + STEPS, 1.0, False, id="after that, on a slow machine"
        ),
        pytest.param(
            3.1 + PROMISED + STEPS, 1.0, True, id="long after that, on a slow machine"
        ),
    ],
)
def test_answers_name_what_began_before(
    asked: float, plain: float, overdue: bool
) -> None:
    """The promise counts from when it has begun for sure."""
    assert overdue == Beginning(1.0, 3.0).is_overdue(asked, plain)
