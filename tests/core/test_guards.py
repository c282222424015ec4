"""The brake on removals that only readiness asks for."""

import pytest

from lbcf.core.reasons import Reason
from lbcf.core.selection.plan import Hold, Plan, Removal, hold_readiness_removals
from tests.builders import a_record


UNREADY = Removal(
    a_record("unready"), Reason.POD_NOT_READY, "it is not ready", by_readiness=True
)
DEAD = Removal(a_record("dead"), Reason.POD_GONE, "it is gone")
DYING = Removal(a_record("dying"), Reason.POD_TERMINATING, "it is being deleted")
EARLIER = Hold(a_record("earlier"), Reason.LOAD_BALANCER_NOT_FOUND, "create it")


@pytest.mark.parametrize(
    ("unready", "backends", "percent", "is_held"),
    [
        pytest.param(4, 4, None, False, id="unsaid means never"),
        pytest.param(2, 4, 50, False, id="exactly as many as allowed"),
        pytest.param(3, 4, 50, True, id="one more"),
        pytest.param(1, 3, 33, True, id="a third is more than 33 percent"),
        pytest.param(1, 3, 34, False, id="and less than 34"),
        pytest.param(1, 1000, 0, True, id="none allowed"),
        pytest.param(4, 4, 100, False, id="all allowed"),
        pytest.param(4, 4, 99, True, id="all but a few"),
        pytest.param(0, 0, 0, False, id="nothing there"),
    ],
)
def test_more_unready_than_allowed_holds(
    unready: int, backends: int, percent: int | None, is_held: bool
) -> None:
    """The limit itself is allowed; what is above it holds."""
    plan = Plan(removals=(UNREADY,), unready=unready, backends=backends)

    guarded = hold_readiness_removals(plan, percent)

    assert is_held is bool(guarded.holds)
    assert is_held is not bool(guarded.removals)


def test_what_is_gone_or_going_is_never_held() -> None:
    """A blind kubelet is no reason to send requests to the dead."""
    plan = Plan(removals=(DEAD, UNREADY, DYING), unready=3, backends=3)

    guarded = hold_readiness_removals(plan, 0)

    assert (DEAD, DYING) == guarded.removals
    assert [UNREADY.record] == [hold.record for hold in guarded.holds]


def test_hold_says_who_and_why() -> None:
    """Its message has the pod's own trouble and the rule, after those held before."""
    plan = Plan(removals=(UNREADY,), holds=(EARLIER,), unready=3, backends=4)

    first, second = hold_readiness_removals(plan, 50).holds

    assert EARLIER == first
    assert (UNREADY.record, Reason.TOO_MANY_UNREADY) == (second.record, second.reason)
    assert second.message == (
        "it is not ready; kept because 3 of 4 backends are unready, more than "
        "protection.maxUnreadyPercent: 50 allows"
    )


def test_held_plan_writes_nothing() -> None:
    """Holding is no change."""
    plan = Plan(removals=(UNREADY,), unready=1, backends=1)

    assert hold_readiness_removals(plan, 50).is_empty
