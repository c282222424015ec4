"""The wait before the next attempt: growth, spread, limits, the other side's wish."""

from datetime import timedelta

import pytest

from hypothesis import given
from hypothesis import strategies as st

from lbcf.core.backoff import BASE, CAP, delay_for


ALMOST_ONE = 1 - 2**-53
"""The greatest jitter there is."""

JITTERS = st.floats(0, ALMOST_ONE)


@pytest.mark.parametrize(
    ("attempt", "shortest", "longest"),
    [
        pytest.param(0, 1, 2, id="none counted yet"),
        pytest.param(1, 1, 2, id="first"),
        pytest.param(2, 2, 4, id="second doubles"),
        pytest.param(6, 32, 64, id="sixth"),
        pytest.param(7, 60, 120, id="seventh reaches the cap"),
        pytest.param(10_000, 60, 120, id="stays there"),
    ],
)
def test_wait_doubles_up_to_the_cap(attempt: int, shortest: int, longest: int) -> None:
    """Each failure doubles the range that the wait is taken from, up to the cap."""
    assert timedelta(seconds=shortest) == delay_for(attempt, 0.0)
    assert timedelta(seconds=longest) == delay_for(attempt, ALMOST_ONE)


@given(attempt=st.integers(-1, 2**70), jitter=JITTERS)
def test_wait_stays_between_base_and_cap(attempt: int, jitter: float) -> None:
    """No number of failures leads out of the limits, or to an overflow."""
    assert BASE <= delay_for(attempt, jitter) <= CAP


@given(attempt=st.integers(1, 50), jitter=JITTERS)
def test_wait_never_shrinks_with_failures(attempt: int, jitter: float) -> None:
    """With the same chance, one more failure never means a shorter wait."""
    assert delay_for(attempt, jitter) <= delay_for(attempt + 1, jitter)


@given(jitter=JITTERS)
def test_equal_base_and_cap_leave_no_spread(jitter: float) -> None:
    """A fixed wait is had by giving the same base and cap."""
    second = timedelta(seconds=3)

    assert second == delay_for(4, jitter, base=second, cap=second)


def test_cap_below_the_base_wins() -> None:
    """A cap is a promise; a base above it does not break it."""
    cap = timedelta(seconds=2)

    assert cap >= delay_for(1, 0.9, base=timedelta(seconds=5), cap=cap)


def test_wish_of_the_other_side_is_kept_above_the_cap() -> None:
    """A Retry-After longer than the cap is waited for."""
    wish = timedelta(minutes=10)

    assert wish == delay_for(1, 0.0, at_least=wish)


def test_wish_of_the_other_side_is_spread() -> None:
    """Callers that were told the same moment do not all come in it."""
    wish = timedelta(minutes=10)

    assert wish + BASE / 2 == delay_for(1, 0.5, at_least=wish)


def test_short_wish_does_not_shorten_the_wait() -> None:
    """A Retry-After below the backoff changes nothing."""
    wish = timedelta(seconds=1)

    assert delay_for(5, 0.5) == delay_for(5, 0.5, at_least=wish)
