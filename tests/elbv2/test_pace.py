"""How long nothing is sent after AWS has said that calls are too many, in virtual time."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from tests.fakes.clock import VirtualClock
from webhooks.elbv2.errors import Answered, Throttled
from webhooks.elbv2.pace import FIRST, LONGEST, Pace


ANSWERED = Answered("DescribeTargetHealth", "Throttling", "Rate exceeded", 400)
AFTER = timedelta(seconds=20)
ASKED = Answered("DescribeTargetHealth", "Throttling", "Rate exceeded", 400, AFTER)
A_MOMENT = timedelta(milliseconds=10)


@pytest.fixture(name="clock")
def _clock() -> VirtualClock:
    """Return a clock that the test alone moves."""
    return VirtualClock()


@pytest.fixture(name="pace")
def _pace(clock: VirtualClock) -> Pace:
    """Return a pace that nothing has slowed down."""
    return Pace(clock)


def rest(pace: Pace) -> timedelta:
    """Return for how long nothing is sent."""
    with pytest.raises(Throttled) as held:
        pace.check()
    return held.value.delay


def outlast(pace: Pace, clock: VirtualClock) -> None:
    """Let the pause be over."""
    clock.advance(rest(pace) + A_MOMENT)


def episode(pace: Pace, clock: VirtualClock, calls: int = 6) -> Sequence[timedelta]:
    """Have calls sent side by side, and refused one after the other.

    Returns:
        How long each of them was told to wait.
    """
    sent = [pace.check() for _ in range(calls)]
    waits = []
    for moment in sent:
        clock.advance(A_MOMENT)
        waits.append(pace.refuse(ANSWERED, moment).delay)
    return waits


def test_calls_that_are_refused_together_are_one_refusal(
    pace: Pace, clock: VirtualClock
) -> None:
    """However many were under way: none makes the pause longer that the first began."""
    waits = episode(pace, clock)

    assert FIRST / 2 <= waits[0] <= FIRST
    assert [waits[0] - n * A_MOMENT for n in range(6)] == waits
    assert waits[-1] == rest(pace)


def test_the_pause_doubles_from_one_episode_to_the_next(
    pace: Pace, clock: VirtualClock
) -> None:
    """By chance it is as short as half of that, so that those who wait come apart."""
    pauses = []
    for _ in range(7):
        pauses.append(episode(pace, clock)[0])
        outlast(pace, clock)

    wanted = [min(FIRST * 2**n, LONGEST) for n in range(7)]
    assert all(
        most / 2 <= one <= most for most, one in zip(wanted, pauses, strict=True)
    )


def test_an_older_call_that_succeeds_does_not_end_the_pause(
    pace: Pace, clock: VirtualClock
) -> None:
    """It tells of what was before it; the next pause is longer all the same."""
    older = pace.check()
    clock.advance(A_MOMENT)
    episode(pace, clock)
    pause = rest(pace)
    pace.accept(older)
    still = rest(pace)
    outlast(pace, clock)
    pace.accept(older)

    assert pause == still
    assert FIRST <= episode(pace, clock)[0] <= FIRST * 2


def test_a_call_that_succeeds_after_the_pause_forgets_it(
    pace: Pace, clock: VirtualClock
) -> None:
    """The next refusal begins with the shortest pause."""
    for _ in range(4):
        episode(pace, clock)
        outlast(pace, clock)
    pace.accept(pace.check())

    assert episode(pace, clock)[0] <= FIRST


def test_what_aws_asks_for_counts_whenever_it_says_so(
    pace: Pace, clock: VirtualClock
) -> None:
    """Also in answer to a call that was sent before: the pause is that long, once."""
    older = pace.check()
    clock.advance(A_MOMENT)
    episode(pace, clock)
    told = pace.refuse(ASKED, older).delay
    outlast(pace, clock)

    assert AFTER == told
    assert FIRST <= episode(pace, clock)[0] <= FIRST * 2


def test_a_refusal_that_comes_after_the_pause_begins_none(
    pace: Pace, clock: VirtualClock
) -> None:
    """What was sent since then is under way still, and tells how it is now."""
    older = pace.check()
    clock.advance(A_MOMENT)
    episode(pace, clock)
    outlast(pace, clock)
    newer = pace.check()
    clock.advance(A_MOMENT)
    late = pace.refuse(ANSWERED, older).delay
    clock.advance(A_MOMENT)

    assert timedelta() == late
    assert FIRST <= pace.refuse(ANSWERED, newer).delay <= FIRST * 2
