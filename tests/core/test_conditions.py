"""Conditions: when their time moves, and what is news."""

import attrs
import pytest

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.reasons import ForeignReason, Reason
from tests.builders import START, seconds


LATER = START + seconds(60)
YES = Condition("Registered", True, Reason.REGISTERED, "in", 1, START)
OTHER = Condition("Drained", False, Reason.DRAINING, "", 1, START)


def test_time_moves_with_the_status() -> None:
    """The API's lastTransitionTime is when the status last changed."""
    no = attrs.evolve(YES, status=False, since=None)

    (placed,) = conditions.with_condition((YES,), no, LATER)

    assert (False, LATER) == (placed.status, placed.since)


@pytest.mark.parametrize(
    "new",
    [
        attrs.evolve(YES, since=None, reason=ForeignReason("Other")),
        attrs.evolve(YES, since=None, message="other"),
        attrs.evolve(YES, since=None, observed_generation=2),
    ],
)
def test_time_stays_with_everything_else(new: Condition) -> None:
    """Another reason, message or generation is no transition."""
    (placed,) = conditions.with_condition((YES,), new, LATER)

    assert attrs.evolve(new, since=START) == placed


def test_time_of_a_reset_moves_with_each() -> None:
    """A reset may have come and gone since the last one was told."""
    back = Condition(conditions.RESTORED, True, Reason.MEMBERS_PUT_BACK, "", 1, START)

    (placed,) = conditions.with_condition((back,), back, LATER)

    assert LATER == placed.since


def test_condition_without_a_time_gets_one() -> None:
    """LBCF in Go left the time out; the API wants it."""
    (placed,) = conditions.with_condition((attrs.evolve(YES, since=None),), YES, LATER)

    assert LATER == placed.since


def test_new_condition_goes_to_the_end() -> None:
    """The last one is what `kubectl get` shows."""
    assert (YES, attrs.evolve(OTHER, since=LATER)) == conditions.with_condition(
        (YES,), OTHER, LATER
    )


def test_known_condition_keeps_its_place() -> None:
    """Nothing moves about in the list."""
    found = conditions.with_condition((YES, OTHER), YES, LATER)

    assert (YES, OTHER) == found


def test_condition_is_found_by_its_type() -> None:
    """One that was never set is None."""
    assert OTHER == conditions.find((YES, OTHER), "Drained")
    assert None is conditions.find((YES,), "Drained")


@pytest.mark.parametrize(
    ("written", "same"),
    [
        pytest.param(attrs.evolve(YES, since=LATER), True, id="time"),
        pytest.param(attrs.evolve(YES, status=None), False, id="status"),
        pytest.param(
            attrs.evolve(YES, reason=ForeignReason("Other")), False, id="reason"
        ),
        pytest.param(attrs.evolve(YES, message="other"), False, id="message"),
        pytest.param(attrs.evolve(YES, observed_generation=2), False, id="generation"),
    ],
)
def test_news_is_what_a_reader_would_see(written: Condition, same: bool) -> None:
    """All but the time is worth a write."""
    assert same is YES.says_the_same(written)


def test_first_word_is_news() -> None:
    """Where nothing was said, anything is."""
    assert not YES.says_the_same(None)


def test_long_message_is_cut_and_then_no_news() -> None:
    """A driver's long speech is not written again and again because it was cut."""
    long = attrs.evolve(YES, message="x" * 5000)

    (placed,) = conditions.with_condition((), long, START)

    assert 1024 == len(placed.message)
    assert long.says_the_same(placed)
