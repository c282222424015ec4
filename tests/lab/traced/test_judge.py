"""A life as it should be is allowed; one step elsewhere, and the step is named."""

import pytest

from lbcf.core.reasons import Reason
from tests.lab.traced.corruptions import CORRUPTIONS, Corruption, steps_of
from tests.lab.traced.judge import judge
from tests.lab.traced.sendings import SPARE
from tests.lab.traced.story import (
    a_call_cut_off,
    a_call_overtaken,
    a_drained_life,
    a_life,
    a_life_beside_another,
    a_long_drain,
    a_poll_unheard,
)


def test_whole_lives_are_allowed() -> None:
    """Without a drain, with one that is empty, and with one that ends by its clock."""
    tapes = [life().tape() for life in (a_life, a_drained_life, a_long_drain)]

    verdicts = [judge(tape) for tape in tapes]

    assert [None] * 3 == [verdict.refusal for verdict in verdicts]
    assert [6, 8, 9] == [verdict.steps for verdict in verdicts]


@pytest.mark.parametrize(
    ("corrupted", "why"), CORRUPTIONS, ids=[c.__name__ for c, _ in CORRUPTIONS]
)
def test_corrupted_life_is_refused(corrupted: Corruption, why: str) -> None:
    """The refusal names the step that was put elsewhere, and shows its lines."""
    tape = a_drained_life().tape()
    place = corrupted(tape)

    verdict = judge(tape)

    assert verdict.refusal is not None
    assert place == verdict.refusal.event.number
    assert why in str(verdict.refusal)
    assert steps_of(tape)[place] == verdict.lines[-1]


@pytest.mark.parametrize("batched", [True, False])
def test_item_of_a_batch_is_good_until_its_permission_ends(batched: bool) -> None:
    """A call alone is good for its time-out, which ends earlier where it went out at once."""
    tape = a_life().tape()
    for step in steps_of(tape):
        if step["step"] == "call":
            step.update(batched=batched, not_after=step["not_after"] + SPARE)

    verdict = judge(tape)

    assert ("" if batched else "its time-out's end") in str(verdict.refusal)
    assert batched == (verdict.refusal is None)


def test_drain_may_not_end_before_its_clock() -> None:
    """Ten seconds are missing of thirty."""
    story = a_long_drain(short=10.0)

    verdict = judge(story.tape())

    assert "its drain has" in str(verdict.refusal)


def test_drain_that_no_driver_saw_begin() -> None:
    """Its first call was given up on the way: that its clock is written tells of it."""
    tape = a_long_drain().tape()
    seen = [step for step in steps_of(tape) if step.get("op") != "drain"]

    verdict = judge({**tape, "steps": seen})

    assert None is verdict.refusal


def test_call_that_its_driver_did_not_live_to_note() -> None:
    """That its connection ended is told of it; one that was never sent leaves no mark."""
    lost, unsent = Reason.DRIVER_CONNECTION_LOST, Reason.DRIVER_UNREACHABLE

    assert None is judge(a_call_cut_off(lost).tape()).refusal
    assert "left behind" in str(judge(a_call_cut_off(unsent).tape()).refusal)


def test_lock_that_another_record_looks_at() -> None:
    """Its controller asks for the next one's sake; the answer to its ensure is heard."""
    tape = a_life_beside_another().tape()

    verdict = judge(tape)

    assert "lock" in [step["step"] for step in steps_of(tape)]
    assert None is verdict.refusal


def test_call_that_was_given_up_is_judged_by_when_it_was_sent() -> None:
    """It comes in when its sender has learnt that it does not know the record any more."""
    story = a_call_overtaken()
    overtaken = judge(story.tape())
    story.calls[-1].heard = True
    sent_then = judge(story.tape())

    assert None is overtaken.refusal
    assert "without having observed" in str(sent_then.refusal)


def test_answer_that_is_lost_within_its_sender() -> None:
    """The driver has given it: whoever has not heard of `Running` leaves its mark there."""
    verdict = judge(a_poll_unheard().tape())

    assert None is verdict.refusal
