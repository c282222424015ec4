"""Exponential backoff with jitter: how long to wait before the next attempt.

Pure: the random number is an argument. Used after failed reconciles and failed calls.
"""

from datetime import timedelta


BASE = timedelta(seconds=1)
"""The shortest wait."""

CAP = timedelta(seconds=120)
"""The longest wait, unless the other side asked for more."""

_MOST_DOUBLINGS = 30
"""Past this a wait has reached any cap in use, and a float must not overflow."""


def delay_for(
    attempt: int,
    jitter: float,
    *,
    base: timedelta = BASE,
    cap: timedelta = CAP,
    at_least: timedelta | None = None,
) -> timedelta:
    """Return the wait after the given number of failures in a row.

    The n-th wait lies in the upper half of `base * 2**n`, never above the cap: so
    [1, 2) s, [2, 4) s, ... [60, 120) s. Half of it is spread, because whatever made
    one key fail made many fail in the same moment.

    Args:
        attempt: failures so far, counted from 1; less counts as 1.
        jitter: a number from 0 up to 1.
        base: the shortest wait.
        cap: the longest wait.
        at_least: what the other side asked for (Retry-After, a driver's
            minRetryDelay); it is kept even above the cap, and spread by up to the
            base, for others were told the same.
    """
    doublings = min(max(attempt, 1), _MOST_DOUBLINGS)
    highest = min(cap, base * (1 << doublings))
    lowest = max(min(base, cap), highest / 2)
    delay = lowest + (highest - lowest) * jitter
    if at_least is None:
        return delay
    return max(delay, at_least + base * jitter)
