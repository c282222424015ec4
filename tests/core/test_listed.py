"""What is told of a load balancer whose members cannot be watched."""

import attrs

from lbcf.core.lifecycle.listing import AT_ONCE, CALM, Epochs, listed, unlisted
from lbcf.core.lifecycle.steps import CallRefused, NoAnswer
from lbcf.core.model import conditions
from lbcf.core.reasons import Reason
from tests.builders import START, a_driver, a_load_balancer


def test_driver_that_does_not_list_is_told_in_its_words() -> None:
    """With what follows from it."""
    refused = unlisted(a_load_balancer(), a_driver(), CallRefused("ask somebody else"))
    large = NoAnswer(
        Reason.DRIVER_ANSWER_TOO_LARGE, "more than it may be", may_land=False
    )
    too_large = unlisted(a_load_balancer(), a_driver(), large)

    assert (refused.status, refused.reason) == (False, "DriverRefused")
    assert "ask somebody else; that it loses its members goes" in refused.message
    assert (too_large.status, too_large.reason) == (False, "DriverAnswerTooLarge")


def test_members_that_were_always_listed_are_not_told_of() -> None:
    """A condition that never was False is not needed."""
    assert listed(a_load_balancer(), Epochs("e1"), 0.0) is None


def test_members_that_are_listed_again_are_told_of() -> None:
    """Whatever was told before."""
    balancer, now = a_load_balancer(), 1000.0
    before = unlisted(balancer, a_driver(), CallRefused(""))
    said = conditions.with_condition(balancer.conditions, before, START)

    found = listed(attrs.evolve(balancer, conditions=said), Epochs("e1"), now)

    assert found is not None
    assert (found.status, found.reason) == (True, Reason.LISTED)


def test_epochs_that_change_all_the_time_are_told_of_until_they_are_calm() -> None:
    """With the last one, and how many there were."""
    epochs, now = Epochs("e0"), 1000.0
    for number in range(AT_ONCE + 1):
        epochs = epochs.after_reset(f"e{number + 1}", now)

    found = listed(a_load_balancer(), epochs, now)
    later = listed(a_load_balancer(), epochs, now + CALM.total_seconds())

    assert found is not None
    assert (found.status, found.reason) == (False, Reason.EPOCH_CHANGING)
    assert f"{AT_ONCE + 1} times" in found.message
    assert "e4" in found.message
    assert later is None
