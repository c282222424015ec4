"""What a deregistrar notes of its calls, and what the next one makes of that."""

import math

import pytest

from lbcf.core.lifecycle.deregistration import LateCalls
from lbcf.core.model.values import Uid
from lbcf.deregistrar.noted_calls import Left, NotedCalls, NotedEnd
from lbcf.runtime.journal import Predecessor
from tests.fakes.journal import FakeJournal


UID = Uid("uid-1")
ENDED_AT = 100.0
BEFORE = Predecessor("one", "zero", ENDED_AT)


class Runs:
    """One run that notes, and the next one in its place."""

    def __init__(self) -> None:
        self.journal = FakeJournal()
        self.noted = NotedCalls(self.journal)
        assert self.noted.begin("one", None) is None

    def left(self) -> Left:
        """Return what the next one finds."""
        found = NotedCalls(self.journal).begin("two", BEFORE)
        assert found is not None
        return found


@pytest.fixture(name="runs")
def _runs() -> Runs:
    return Runs()


def test_call_that_was_out_at_the_end_counts_from_the_end(runs: Runs) -> None:
    """It was sent by then; Δ counts from two seconds before a call is sent."""
    runs.noted.before(UID, None, 25.0)

    assert {UID: LateCalls(ENDED_AT - 2, 25.0)} == runs.left().calls


def test_longest_of_the_calls_that_may_be_out_counts(runs: Runs) -> None:
    """One before had no answer, and the driver was slower then."""
    runs.noted.before(UID, LateCalls(90.0, 60.0), 25.0)

    assert {UID: LateCalls(ENDED_AT - 2, 60.0)} == runs.left().calls


@pytest.mark.parametrize("settling", [25.0, math.inf])
def test_call_without_an_answer_counts_from_its_own_time(
    runs: Runs, settling: float
) -> None:
    """By a driver of which nobody knows how slow it was, it is never over."""
    runs.noted.before(UID, None, 25.0)
    runs.noted.after(UID, LateCalls(95.0, settling))

    assert {UID: LateCalls(95.0, settling)} == runs.left().calls


def test_call_with_an_answer_is_not_waited_for(runs: Runs) -> None:
    """Nor one that was never made."""
    runs.noted.before(UID, None, 25.0)
    runs.noted.after(UID, None)
    runs.noted.after(Uid("uid-2"), None)

    assert Left({}, {}) == runs.left()


def test_ends_are_found_as_long_as_they_matter(runs: Runs) -> None:
    """Also one of which nobody knows when its calls are over."""
    ends = {Uid(f"uid-{n}"): NotedEnd(n, math.inf, 9.0) for n in (2, 3)}
    for uid, end in ends.items():
        runs.noted.ended(uid, end)
    runs.noted.ended(Uid("uid-3"), None)

    assert {Uid("uid-2"): NotedEnd(2, math.inf, 9.0)} == runs.left().ends


def test_what_was_found_is_kept_until_it_is_noted_anew(runs: Runs) -> None:
    """The third run finds what the first one had out, if the second had no part in it."""
    runs.noted.before(UID, None, 25.0)
    second = NotedCalls(runs.journal)
    second.begin("two", BEFORE)
    after = Predecessor("two", "zero", 200.0)

    second.after(UID, LateCalls(98.0, 25.0))
    found = NotedCalls(runs.journal).begin("three", after)

    assert found is not None
    assert {UID: LateCalls(98.0, 25.0)} == found.calls


def test_what_is_no_note_of_ours_is_not_known(runs: Runs) -> None:
    """Another version wrote it: of none of its records anything is known."""
    runs.noted.before(UID, None, 25.0)
    runs.journal.put("call/uid-2", "who knows")

    assert NotedCalls(runs.journal).begin("two", BEFORE) is None
