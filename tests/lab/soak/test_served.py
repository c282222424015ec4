"""The figures of the share in which ready pods were served, from made-up histories."""

import pytest

from tests.lab.faults.history import Effect
from tests.lab.soak.served import (
    Span,
    longest,
    presences,
    removed_from_others,
    share,
)


HOST = "10.0.0.1:80"
OTHER = "10.0.0.2:80"
EFFECTS = (
    Effect(1.0, True, HOST, "u1"),
    Effect(2.0, True, HOST, "u1", "u1"),
    Effect(5.0, False, HOST, "u1", "u1"),
    Effect(7.0, True, HOST, "u2"),
    Effect(8.0, True, OTHER, "u3"),
)


def test_member_is_there_from_its_first_ensure_to_its_removal() -> None:
    """A second ensure changes nothing; what is not removed lasts to the end."""
    assert {
        HOST: [Span(1.0, 5.0), Span(7.0, 10.0)],
        OTHER: [Span(8.0, 10.0)],
    } == presences(EFFECTS, 10.0)


@pytest.mark.parametrize(
    ("ready", "expected"),
    [
        pytest.param({HOST: [Span(1.0, 5.0)]}, 1.0, id="all the time"),
        pytest.param({HOST: [Span(1.0, 5.0), Span(5.0, 9.0)]}, 0.75, id="out for 2 s"),
        pytest.param({"10.0.0.3:80": [Span(0.0, 5.0)]}, 0.0, id="never"),
    ],
)
def test_share_is_of_the_ready_time(
    ready: dict[str, list[Span]], expected: float
) -> None:
    """Time in which nobody is ready does not count."""
    assert expected == share(ready, presences(EFFECTS, 10.0))


def test_longest_stay_without_a_pod() -> None:
    """Only while the address has no pod."""
    dead = {HOST: [Span(4.0, 6.0), Span(9.0, 12.0)], OTHER: [Span(9.5, 20.0)]}

    assert 1.0 == longest(dead, presences(EFFECTS, 10.0))


def test_removal_by_the_end_of_another_record_is_found() -> None:
    """Its own end may take a member out, or find nothing there."""
    wrong = Effect(9.0, False, OTHER, "u1", "u3")
    vain = Effect(9.5, False, OTHER, "u3", "")

    assert [] == removed_from_others((*EFFECTS, vain))
    assert [f"{OTHER} of record u3 by the end of u1"] == removed_from_others(
        (*EFFECTS, wrong)
    )
