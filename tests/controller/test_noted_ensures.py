"""What a controller notes of its ensures, and what the next one makes of that."""

import pytest

from lbcf.controller.noted_ensures import NotedEnsures
from lbcf.core.model.values import Uid
from lbcf.runtime.journal import Predecessor
from tests.fakes.journal import FakeJournal


UID = Uid("uid-1")
ENDED_AT = 100.0
BEFORE = Predecessor("one", "zero", ENDED_AT)


@pytest.fixture(name="journal")
def _journal() -> FakeJournal:
    return FakeJournal()


@pytest.fixture(name="noted")
def _noted(journal: FakeJournal) -> NotedEnsures:
    noted = NotedEnsures(journal)
    assert noted.begin("one", None) is None
    return noted


def test_ensure_that_was_out_at_the_end_counts_from_the_end(
    journal: FakeJournal, noted: NotedEnsures
) -> None:
    """It was sent by then; Δ counts from two seconds before a call is sent."""
    noted.before(UID, 0.0, 25.0)

    assert {UID: ENDED_AT + 23} == NotedEnsures(journal).begin("two", BEFORE)


@pytest.mark.parametrize(("until", "left"), [(90.0, 123.0), (150.0, 150.0)])
def test_latest_of_the_ensures_that_may_be_out_counts(
    journal: FakeJournal, noted: NotedEnsures, until: float, left: float
) -> None:
    """One before had no answer."""
    noted.before(UID, until, 25.0)

    assert {UID: left} == NotedEnsures(journal).begin("two", BEFORE)


def test_ensure_without_an_answer_counts_from_its_own_time(
    journal: FakeJournal, noted: NotedEnsures
) -> None:
    """It is not taken for one that was under way."""
    noted.before(UID, 0.0, 25.0)
    noted.after(UID, 110.0)

    assert {UID: 110.0} == NotedEnsures(journal).begin("two", BEFORE)


def test_ensure_that_was_answered_is_not_expected(
    journal: FakeJournal, noted: NotedEnsures
) -> None:
    """Nothing is left of it."""
    noted.before(UID, 0.0, 25.0)
    noted.after(UID, 0.0)

    assert {} == NotedEnsures(journal).begin("two", BEFORE)


def test_notes_of_another_run_are_not_known(
    journal: FakeJournal, noted: NotedEnsures
) -> None:
    """Nor are those in whose place nobody begins."""
    noted.before(UID, 0.0, 25.0)

    other = Predecessor("other", "zero", ENDED_AT)
    assert NotedEnsures(journal).begin("two", other) is None


@pytest.mark.parametrize("value", ["text", [], [1.0, "x"], {"until": 1.0}])
def test_notes_of_another_version_are_not_known(
    journal: FakeJournal, value: object
) -> None:
    """What it had out is waited for as if it had left nothing."""
    journal.begin("one", "")
    journal.put(UID, value)

    assert NotedEnsures(journal).begin("two", BEFORE) is None
