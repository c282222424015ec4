"""What is told of a load balancer whose members cannot be watched."""

import attrs

from lbcf.core.lifecycle.listing import (
    AT_ONCE,
    CALM,
    Epochs,
    not_asked,
    reachable,
    unreachable,
)
from lbcf.core.lifecycle.steps import CallRefused, NoAnswer
from lbcf.core.model import conditions
from lbcf.core.reasons import Explanation, Reason
from tests.builders import START, a_driver, a_load_balancer


def test_driver_that_does_not_list_is_told_in_its_words() -> None:
    """With what follows from it."""
    refused = unreachable(
        a_load_balancer(), a_driver(), CallRefused("ask somebody else")
    )
    large = NoAnswer(
        Reason.DRIVER_ANSWER_TOO_LARGE, "more than it may be", may_land=False
    )
    too_large = unreachable(a_load_balancer(), a_driver(), large)

    assert (refused.status, refused.reason) == (False, "DriverRefused")
    assert "ask somebody else; that it loses its members goes" in refused.message
    assert (too_large.status, too_large.reason) == (False, "DriverAnswerTooLarge")


def test_change_of_the_spec_alone_is_worth_no_write() -> None:
    """Whether it can be reached does not depend on it."""
    said = reachable(a_load_balancer(), Epochs("e1"), 0.0)
    newer = attrs.evolve(a_load_balancer(generation=7), conditions=(said,))

    assert reachable(newer, Epochs("e1"), 0.0).says_the_same(said)


def test_load_balancer_that_nobody_lists_is_unknown() -> None:
    """With who was to list it, or why there is none."""
    gone = Explanation(Reason.DRIVER_NOT_FOUND, "there is no driver proxy")

    told = not_asked(a_load_balancer(), None)
    without = not_asked(a_load_balancer(), gone)

    assert (told.status, told.reason) == (None, Reason.NOT_LISTED)
    assert "driver shop/proxy does not declare listBackends" in told.message
    assert (without.status, without.reason) == (None, Reason.DRIVER_NOT_FOUND)


def test_members_that_are_listed_again_are_told_of() -> None:
    """Whatever was told before."""
    balancer, now = a_load_balancer(), 1000.0
    before = unreachable(balancer, a_driver(), CallRefused(""))
    said = conditions.with_condition(balancer.conditions, before, START)

    found = reachable(attrs.evolve(balancer, conditions=said), Epochs("e1"), now)

    assert (found.status, found.reason) == (True, Reason.REACHABLE)


def test_epochs_that_change_all_the_time_are_told_of_until_they_are_calm() -> None:
    """With the last one, and how many there were."""
    epochs, now = Epochs("e0"), 1000.0
    for number in range(AT_ONCE + 1):
        epochs = epochs.after_reset(f"e{number + 1}", now)

    found = reachable(a_load_balancer(), epochs, now)
    later = reachable(a_load_balancer(), epochs, now + CALM.total_seconds())

    assert (found.status, found.reason) == (False, Reason.EPOCH_CHANGING)
    assert f"{AT_ONCE + 1} times" in found.message
    assert "e4" in found.message
    assert (later.status, later.reason) == (True, Reason.REACHABLE)
