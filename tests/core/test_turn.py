"""What all turns share: streaks, pauses, reports, words, missing drivers."""

import attrs
import pytest

from lbcf.core.lifecycle.steps import CallRefused, NoAnswer, StillRunning
from lbcf.core.lifecycle.turn import (
    NO_FAILURES,
    Report,
    describe_failure,
    find_driver,
    namespace_share,
    poll_delay,
    retry_delay,
    turns_at_once,
)
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import DrainProgress, RecordStatus
from lbcf.core.reasons import Explanation, Reason
from tests.builders import START, a_driver, a_key, a_record, at, seconds


ENSURE, DRAIN = Operation.ENSURE_BACKEND, Operation.DRAIN_BACKEND
NO, BUSY = CallRefused("no"), StillRunning("busy")
LOST = NoAnswer(Reason.DRIVER_TIMED_OUT, "no answer in 10 s", may_land=True)
SAID = Condition("Registered", False, Reason.DRIVER_REFUSED, "no", 1, START)
PROGRESS = DrainProgress(START, START + seconds(30), 3)


def test_streak_counts_answers_of_one_kind() -> None:
    """Fail and silence are one kind: no success; Running is another."""
    twice = NO_FAILURES.with_answer(ENSURE, NO, at(0)).with_answer(ENSURE, LOST, at(1))

    assert 2 == twice.length
    assert 1 == twice.with_answer(ENSURE, BUSY, at(2)).length
    assert 1 == twice.with_answer(DRAIN, NO, at(2)).length


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (NO, [True, True, True]),
        (LOST, [True, True, True]),
        (CallRefused("no", seconds(30)), [False, False, True]),
        (BUSY, [False, False, False]),
    ],
)
def test_pause_after_failures_may_end_early(
    reply: CallRefused | NoAnswer | StillRunning, expected: list[bool]
) -> None:
    """But not sooner than the driver wishes, and polls go on as they do."""
    streak = NO_FAILURES.with_answer(ENSURE, NO, at(0)).with_answer(
        ENSURE, reply, at(5)
    )

    assert expected == [streak.may_end(at(n)) for n in (5, 34, 35)]
    assert not NO_FAILURES.may_end(at(5))


def test_polls_come_ever_more_slowly_up_to_five_seconds() -> None:
    """Unless the driver has a wish."""
    assert [1, 2, 3, 4, 5, 5] == [
        poll_delay(n, None).total_seconds() for n in (1, 2, 3, 4, 5, 60)
    ]
    assert seconds(90) == poll_delay(1, seconds(90))


@pytest.mark.parametrize("reply", [NO, LOST])
def test_failures_are_retried_with_backoff_and_jitter(
    reply: CallRefused | NoAnswer,
) -> None:
    """The n-th wait lies between 2**(n-1) and 2**n times the first."""
    assert [0.25, 0.5, 1.0] == [
        retry_delay(reply, n, at(0)).total_seconds() for n in (1, 2, 3)
    ]
    assert 0.375 == retry_delay(reply, 1, at(0, jitter=0.5)).total_seconds()


def test_words_name_driver_operation_and_answer() -> None:
    """The reason is for alerts, the message for people."""
    driver = a_driver()

    def words(reply: CallRefused | StillRunning | NoAnswer) -> tuple[str, str]:
        return attrs.astuple(describe_failure(reply, driver, ENSURE))

    who = "driver shop/proxy at ensureBackend"
    assert (Reason.DRIVER_REFUSED, f"{who} answered Fail: no") == words(NO)
    assert "answered Fail: (no message)" in words(CallRefused(""))[1]
    assert (Reason.DRIVER_RUNNING, f"{who} answered Running: busy") == words(BUSY)
    assert (Reason.DRIVER_TIMED_OUT, f"{who}: no answer in 10 s") == words(LOST)


def test_missing_driver_is_told_with_what_to_do() -> None:
    """One that exists but cannot be understood is another trouble."""
    key = a_key("proxy")

    assert a_driver() == find_driver(key, a_driver(), None)
    missing = find_driver(key, None, None)
    unreadable = find_driver(key, None, "spec.url: expected str")
    assert isinstance(missing, Explanation)
    assert isinstance(unreadable, Explanation)
    assert (Reason.DRIVER_NOT_FOUND, Reason.DRIVER_UNREADABLE) == (
        missing.reason,
        unreadable.reason,
    )
    assert "spec.url" in unreadable.message


@pytest.mark.parametrize(
    ("report", "is_news"),
    [
        pytest.param(Report(SAID), False, id="said already"),
        pytest.param(Report(SAID, next_attempt=START), False, id="a moment is no news"),
        pytest.param(Report(attrs.evolve(SAID, message="never")), True, id="words"),
        pytest.param(Report(SAID, marker="me"), False, id="marker as it is"),
        pytest.param(Report(SAID, marker="*"), True, id="another marker"),
        pytest.param(Report(SAID, drain=PROGRESS), True, id="a drain begins"),
        pytest.param(Report(SAID, due=True), False, id="due without a drain"),
    ],
)
def test_report_is_news_where_the_record_says_otherwise(
    report: Report, is_news: bool
) -> None:
    """Each write costs; each must tell something."""
    record = a_record(status=RecordStatus(conditions=(SAID,)), ensuring="me")

    assert is_news is report.is_news(record)


@pytest.mark.parametrize("due", [True, False])
def test_progress_of_a_drain_is_news_when_it_is_due(due: bool) -> None:
    """Numbers change all the time."""
    record = a_record(status=RecordStatus(conditions=(SAID,), drain=PROGRESS))

    assert due is Report(SAID, drain=PROGRESS, due=due).is_news(record)


def test_report_keeps_what_it_does_not_speak_of() -> None:
    """The drain's clock above all."""
    before = RecordStatus(address="a:1", ensuring="*", drain=PROGRESS)

    after = Report(SAID, next_attempt=START).applied(before, START)

    assert after == attrs.evolve(before, conditions=(SAID,), next_attempt=START)


def test_driver_that_could_be_read_before_is_absent_all_the_same() -> None:
    """Its last readable version is not how it is now: nobody is called by it."""
    found = find_driver(a_key("memory"), a_driver(), "spec.url: expected str")

    assert isinstance(found, Explanation)
    assert Reason.DRIVER_UNREADABLE == found.reason


def test_drain_clock_that_is_written_stays() -> None:
    """Two deregistrars at once count by clocks of their own; the first write holds."""
    other = DrainProgress(START + seconds(45), START + seconds(75), 2)
    condition = Condition("Drained", False, Reason.DRAINING, "", 1)

    status = Report(condition, drain=other).applied(RecordStatus(drain=PROGRESS), START)

    assert attrs.evolve(PROGRESS, connections=2) == status.drain


@pytest.mark.parametrize(
    ("namespace", "places", "share"),
    [
        pytest.param("kube-system", 8, 8, id="its own"),
        pytest.param("shop", 8, 6, id="another's"),
        pytest.param("shop", 2, 1, id="few"),
        pytest.param("shop", 1, 1, id="one"),
    ],
)
def test_namespace_leaves_a_quarter_of_a_shared_driver(
    namespace: str, places: int, share: int
) -> None:
    """Who hangs for one namespace leaves room for the others, where there is any."""
    driver = a_key("proxy", "kube-system")

    assert share == namespace_share(driver, namespace, places)


def test_driver_says_how_many_turns_it_bears() -> None:
    """One that is not known is asked nothing; its turns are counted all the same."""
    driver = attrs.evolve(a_driver(), max_concurrent_calls=3)

    assert 3 == turns_at_once(driver)
    assert 32 == turns_at_once(Explanation(Reason.DRIVER_NOT_FOUND, "none"))
