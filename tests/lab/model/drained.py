"""Holds a drain's calls, and the deregistration after it, to the clock that is written.

A drain begins with the first call of it that may have been heard, and has its whole length
from then on, as `drain_clock` has shown. Whoever began it counts the seconds of the trace;
any other incarnation has what is written, its own wall clock and the record's deletion.
"""

from __future__ import annotations

import math

from dataclasses import dataclass

from tests.lab.model import decisions
from tests.lab.model.facts import Event, Facts


GRAIN = 0.001
"""Seconds: what is decided at its very end may be decided on either side of it."""
_HEARD = ("succeeded", "running", "refused", "unanswered", "unknown")


@dataclass(frozen=True)
class Drain:
    """What an incarnation knows of a record's drain.

    Attributes:
        heard: when it began, in seconds of the trace, or what comes to the same: when it
            would have, to leave as much as what another one has written leaves.
        deadline: as it is written, or is to be.
        is_empty: nothing was left.
    """

    heard: float
    deadline: float
    is_empty: bool = False


def shown(drain: Drain | None, facts: Facts, e: Event) -> Drain | None:
    """Take in the clock that a version shows at the end of a step."""
    left = _left_by(facts, e.wall[1])
    if left is None or facts.drain_deadline is None:
        return drain
    if drain is not None and drain.deadline == facts.drain_deadline:
        return drain
    heard = e.ended + left - facts.drain
    return Drain(heard, facts.drain_deadline, drain is not None and drain.is_empty)


def answered(drain: Drain | None, seen: Facts, e: Event) -> Drain | None:
    """Take in what came of a call of a drain."""
    known = drain is not None or seen.drain_deadline is not None
    if e.outcome not in _HEARD and not (e.outcome == "unsent" and known):
        return drain
    begun = shown(drain, seen, e)
    if begun is None:
        begun = Drain(e.ended, math.ceil(e.wall[1] + seen.drain))
    if e.outcome == "succeeded":
        return Drain(begun.heard, begun.deadline, is_empty=True)
    return begun


def refused_call(drain: Drain | None, seen: Facts, e: Event) -> str:
    """Say why a call of a drain may not go out; empty: it may."""
    if not _is_due(seen, e):
        return "nobody is to be drained"
    if drain is not None and drain.is_empty:
        return "nothing was left"
    rest = _rest(drain, seen, e)
    if rest is not None and rest < -GRAIN:
        return f"its time was over {-rest:.3f} s ago"
    return ""


def refused_end(drain: Drain | None, seen: Facts, e: Event) -> str:
    """Say why a deregister may not go out after what was drained; empty: it may."""
    rest = _rest(drain, seen, e)
    if drain is not None and drain.is_empty:
        left = rest or 0.0
        # What came since is spared until the drain's time is over.
        is_wrong = e.drained != (left > 0) and abs(left) > GRAIN
        return f"its drain was empty, and has {left:.3f} s left" if is_wrong else ""
    if e.drained:
        return "its drain was not empty"
    if not _is_due(seen, e):
        return ""
    if rest is None:
        return "it is to be drained first"
    return "" if rest <= GRAIN else f"its drain has {rest:.3f} s left"


def refused_write(drain: Drain | None, before: Facts, after: Facts) -> str:
    """Say why a drain's clock may not be written so; empty: it may."""
    old = (before.drain_started, before.drain_deadline)
    new = (after.drain_started, after.drain_deadline)
    if new == old:
        return ""
    if before.drain_deadline is not None:
        return f"the drain's clock was {old}, and stays"
    if drain is None or drain.deadline != after.drain_deadline:
        return f"the drain does not end at {after.drain_deadline}"
    # Both are whole seconds, and the whole drain is between them.
    length = drain.deadline - (after.drain_started or 0.0)
    return "" if 0 <= length - before.drain <= 1 else f"the drain is {length} s long"


def _is_due(seen: Facts, e: Event) -> bool:
    """Tell whether a record is to be drained, and its driver can."""
    return bool(seen.drain) and e.driver.drains and not seen.backend_gone


def _rest(drain: Drain | None, seen: Facts, e: Event) -> float | None:
    """Return how long a drain may go on when a step begins; None: all of its time."""
    if drain is None:
        return _left_by(seen, e.wall[0])
    return decisions.drain_left(e.began, drain.heard, seen.drain)


def _left_by(seen: Facts, wall: float) -> float | None:
    """Return what the clock leaves that another one has written; None: it is unwritten."""
    if seen.drain_deadline is None:
        return None
    return decisions.drain_left_by(wall, seen.drain_deadline, seen.deleted, seen.drain)
