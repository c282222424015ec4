"""What to do next about a target: pure functions of what was read and written down.

`group` asks, and carries out. No progress is kept but the claim, so that a crash
anywhere, or a hand of somebody else, is no special case.
"""

from datetime import timedelta
from enum import StrEnum

from webhooks.elbv2.targets import Reading, Standing, Target


LATE_EFFECT = timedelta(seconds=20)
"""How long after its caller's time-out a call may still take effect, and show.

What is sent just before an operation's patience ends may take AWS 7 s to answer, and
more to show.
"""


class Claim(StrEnum):
    """What is written down of a target that is, or was, ours."""

    CLAIMED = "claimed"
    """It was free, and we may have put it there since."""
    SEEN = "seen"
    """It is ours, and was seen in."""
    LOST = "lost"
    """It was seen in, then it was not, and that was none of us."""
    LEAVING = "leaving"
    """We may have begun to take it out, or may not."""
    OUT = "out"
    """We have taken it out. What is there after that is somebody else's."""
    DONE = "done"
    """The same, and its record is through with it."""


HAVING = frozenset({Claim.CLAIMED, Claim.SEEN, Claim.LOST, Claim.LEAVING})
"""Claims on what may be in, and is ours if it is."""


def must_register(claim: Claim | None, standing: Standing) -> bool:
    """Tell whether a target that is, or becomes, ours has to be sent.

    Where we may have begun to take it out, a reading may still show what was before:
    so it is sent again whatever is seen. Registering what is draining ends the drain.
    """
    return claim is Claim.LEAVING or standing is not Standing.IN


def must_deregister(claim: Claim, standing: Standing) -> bool:
    """Tell whether a target of ours has to be taken out still.

    Only after we may have begun to does a reading count that shows it out: one may
    not show yet what was registered a moment before it.
    """
    if claim is Claim.LEAVING:
        return standing is Standing.IN
    return claim in HAVING


def may_show_late(claim: Claim, standing: Standing, elapsed: timedelta) -> bool:
    """Tell whether a later reading may show a target that this one does not show in.

    AWS may have answered its registration before it shows it. What came of a call without
    an answer is not known: what does not show within `LATE_EFFECT` may never do.

    Args:
        claim: on the target.
        standing: where the reading has it.
        elapsed: since the last change in the target group ended.
    """
    is_in = standing is Standing.IN
    return claim is Claim.CLAIMED and not is_in and elapsed < LATE_EFFECT


def after_look(claim: Claim, standing: Standing) -> Claim:
    """Return what a reading makes of a claim."""
    is_in = standing is Standing.IN
    match claim:
        case Claim.CLAIMED if is_in:
            return Claim.SEEN
        case Claim.SEEN if not is_in:
            return Claim.LOST
        case Claim.LOST if is_in:
            return Claim.SEEN
        case _:
            return claim


def must_stay(target: Target, reading: Reading) -> bool:
    """Tell whether a drain now would leave the target group with nobody to serve.

    A new target waits for its first health checks for ten seconds and more. In a
    rolling update of one replica the old one would be gone by then: it stays for that
    while. With nobody waiting, staying would not help.
    """
    health = reading.targets.get(target)
    if health is None or not health.serves:
        return False
    others = [one for key, one in reading.targets.items() if key != target]
    return not any(one.serves for one in others) and any(one.starting for one in others)
