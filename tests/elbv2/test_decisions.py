"""What to do next about a target, as tables."""

from datetime import timedelta

import pytest

from webhooks.elbv2.decisions import (
    LATE_EFFECT,
    Claim,
    after_look,
    may_show_late,
    must_deregister,
    must_register,
    must_stay,
)
from webhooks.elbv2.targets import Health, Reading, Standing, Target


ABSENT, IN, DRAINING = Standing.ABSENT, Standing.IN, Standing.DRAINING
TARGET = Target("198.18.0.1", 80)
OTHER = Target("198.18.0.2", 80)
HEALTHY, INITIAL = Health("healthy"), Health("initial", "Elb.RegistrationInProgress")
UNHEALTHY = Health("unhealthy", "Target.Timeout")
A_MOMENT = timedelta(milliseconds=10)


@pytest.mark.parametrize("claim", [None, *Claim])
@pytest.mark.parametrize("standing", Standing)
def test_registering(claim: Claim | None, standing: Standing) -> None:
    """Sent again is what is not in, and what may be leaving though it is seen in."""
    assert must_register(claim, standing) == (
        standing is not IN or claim is Claim.LEAVING
    )


@pytest.mark.parametrize(
    ("claim", "when"),
    [
        (Claim.CLAIMED, {ABSENT, IN, DRAINING}),
        (Claim.SEEN, {ABSENT, IN, DRAINING}),
        (Claim.LOST, {ABSENT, IN, DRAINING}),
        (Claim.LEAVING, {IN}),
        (Claim.OUT, set()),
        (Claim.DONE, set()),
    ],
)
def test_deregistering(claim: Claim, when: set[Standing]) -> None:
    """A reading is believed only where a deregistration may have been sent."""
    assert when == {one for one in Standing if must_deregister(claim, one)}


@pytest.mark.parametrize("claim", Claim)
@pytest.mark.parametrize("standing", Standing)
def test_showing_late(claim: Claim, standing: Standing) -> None:
    """So may, for a while, what we have put in and nobody has seen in."""
    is_unseen = claim is Claim.CLAIMED and standing is not IN

    assert is_unseen == may_show_late(claim, standing, LATE_EFFECT - A_MOMENT)
    assert not may_show_late(claim, standing, LATE_EFFECT)


@pytest.mark.parametrize("standing", Standing)
def test_looking(standing: Standing) -> None:
    """What was seen in and is not any more is lost; what we take out is not."""
    is_in = standing is IN
    assert {
        Claim.CLAIMED: Claim.SEEN if is_in else Claim.CLAIMED,
        Claim.SEEN: Claim.SEEN if is_in else Claim.LOST,
        Claim.LOST: Claim.SEEN if is_in else Claim.LOST,
        Claim.LEAVING: Claim.LEAVING,
        Claim.OUT: Claim.OUT,
        Claim.DONE: Claim.DONE,
    } == {claim: after_look(claim, standing) for claim in Claim}


@pytest.mark.parametrize(
    ("healths", "stays"),
    [
        ({TARGET: HEALTHY}, False),
        ({TARGET: HEALTHY, OTHER: INITIAL}, True),
        ({TARGET: HEALTHY, OTHER: UNHEALTHY}, False),
        ({TARGET: HEALTHY, OTHER: HEALTHY}, False),
        ({TARGET: UNHEALTHY, OTHER: INITIAL}, False),
        ({OTHER: INITIAL}, False),
        ({TARGET: HEALTHY, OTHER: INITIAL, Target("198.18.0.3", 80): HEALTHY}, False),
    ],
)
def test_staying(healths: dict[Target, Health], stays: bool) -> None:
    """Only the last healthy one stays, and only while another may become healthy."""
    assert stays == must_stay(TARGET, Reading(0.0, healths))


@pytest.mark.parametrize(
    ("state", "reason", "standing"),
    [
        ("initial", "Elb.RegistrationInProgress", IN),
        ("healthy", "", IN),
        ("unhealthy", "Target.ResponseCodeMismatch", IN),
        ("unhealthy.draining", "Target.Timeout", IN),
        ("unused", "Target.NotInUse", IN),
        ("unused", "Target.InvalidState", IN),
        ("unused", "Target.NotRegistered", ABSENT),
        ("unavailable", "Target.HealthCheckDisabled", IN),
        ("unavailable", "Target.NotRegistered", ABSENT),
        ("draining", "Target.DeregistrationInProgress", DRAINING),
    ],
)
def test_states(state: str, reason: str, standing: Standing) -> None:
    """Each state of AWS stands for one of three; `unused` may well be in."""
    assert standing is Health(state, reason).standing
