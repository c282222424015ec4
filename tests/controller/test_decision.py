"""What a group's conditions say of what was decided."""

import attrs

from lbcf.controller.decision import (
    Decision,
    conditions_of,
    doubts_of,
    guarded_plan,
    held_by_guards,
    postponed_creates,
)
from lbcf.core.model.verdicts import WebhookDecision
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.plan import Hold, Plan
from tests.builders import a_group, a_pod, a_record, a_snapshot


def test_nothing_doubted_and_nothing_held_is_ready() -> None:
    """Both conditions say so, for the generation that was looked at."""
    ready, held = conditions_of(Decision(), 7)

    assert (True, "Reconciled", 7) == (
        ready.status,
        ready.reason,
        ready.observed_generation,
    )
    assert (False, "NotHeld", 7) == (
        held.status,
        held.reason,
        held.observed_generation,
    )


def test_first_doubt_is_the_reason_and_all_are_told() -> None:
    """A reader of one word sees the first, a reader of the sentence all."""
    doubts = (
        Explanation(Reason.NODE_UNREADABLE, "first"),
        Explanation(Reason.NODE_HAS_NO_ADDRESS, "second"),
    )

    ready, _ = conditions_of(Decision(doubts), 1)

    assert (False, Reason.NODE_UNREADABLE, "first; second") == (
        ready.status,
        ready.reason,
        ready.message,
    )


def test_held_removals_are_named_up_to_three() -> None:
    """The others are counted."""
    holds = tuple(
        Hold(a_record(name), Reason.TOO_MANY_UNREADY, "why") for name in "abcde"
    )

    _, held = conditions_of(Decision(held=holds), 1)

    assert "why; held: a, b, c and 2 more" == held.message


def test_what_too_many_unready_ask_for_is_held_by_a_guard() -> None:
    """It is no removal of the plan any more."""
    group = a_group(max_unready_percent=0)
    pod = a_pod(ready=False)
    plan = guarded_plan(a_snapshot(pod, records=(a_record(),), group=group))

    assert () == plan.removals
    assert [Reason.TOO_MANY_UNREADY] == [hold.reason for hold in held_by_guards(plan)]


def test_judge_without_an_answer_is_a_doubt() -> None:
    """Each doubt is told once."""
    same = Explanation(Reason.DRIVER_NOT_FOUND, "create it")
    snapshot = attrs.evolve(
        a_snapshot(),
        undecided={"front": same},
        webhook_decision=WebhookDecision(
            trouble=Explanation(same.reason, same.message)
        ),
    )

    assert (same,) == doubts_of(snapshot)


def test_creates_that_wait_are_told() -> None:
    """With the word that has them wait."""
    (told,) = postponed_creates(Plan(postponed=2))

    assert Reason.AWAITING_DEPARTURES == told.reason
    assert told.message == (
        "2 new backends wait for as many that leave the same load balancer, because "
        "protection.order is DeregisterFirst"
    )
    assert () == postponed_creates(Plan())
