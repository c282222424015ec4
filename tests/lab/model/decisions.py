"""The protocol's decisions, as `lbcf.core` takes them, on small integers.

The search and `follow` both ask these functions: what the one has proven is what the
other holds a run against. They restate the rules of `lbcf.core.lifecycle.registration` and
`lbcf.core.lifecycle.deregistration` and do not call them.
"""

from __future__ import annotations


NOBODY = 0
"""`ensuring` is empty."""
ANYBODY = 3
"""`ensuring` is `*`: a call of nobody-knows-whom may be out."""
DEAD = 4
"""`ensuring` names an incarnation that is no more."""
BEFORE = 4
"""Added to an incarnation: `ensuring` names the one in whose place it began."""
SIGNED_OFF = 7
"""`ensuring` says that no ensure of a record that ends is out, nor will be."""


def is_settled(registered: int, mark: int, always: int) -> bool:
    """Tell whether no ensure can be out any more."""
    is_over = mark == SIGNED_OFF or (bool(registered) and mark == NOBODY)
    return is_over and not always


def is_own(me: int, mark: int) -> bool:
    """Tell whether a mark is an incarnation's own, or that of one whose place it has."""
    return mark in (me, me + BEFORE)


def may_sign_off(me: int, mark: int, claims: int, doubts: int, always: int) -> bool:
    """Tell whether an incarnation may say of a record that ends that no ensure is out.

    Args:
        me: the incarnation.
        mark: what `ensuring` is.
        claims: its own write shows that nobody else can have a call out.
        doubts: a call of its own may still be out.
        always: the policy: others call without a mark.
    """
    alone = is_own(me, mark) or (bool(claims) and mark == NOBODY)
    return alone and not doubts and not always


def mark_of(me: int, mark: int, settled: bool, claims: int, doubts: int) -> int:
    """Say what `ensuring` must be while an incarnation may have a call out.

    Args:
        me: the incarnation.
        mark: what `ensuring` is.
        settled: what `is_settled` says of the same version.
        claims: its own write shows that nobody else can have a call out.
        doubts: it has had a write, or else a call, without a definite answer.
    """
    alone = is_own(me, mark) or settled or (claims and mark == NOBODY)
    return me if alone and not doubts else ANYBODY


def is_covered(mark: int, wanted: int, claims: int, always: int) -> bool:
    """Tell whether a deregistrar that reads this mark expects the call."""
    if mark in (wanted, ANYBODY):
        return True
    return mark == NOBODY and bool(claims or always)


def mark_left(me: int, wanted: int, always: int, doubts: int = 0) -> int:
    """Say what `ensuring` is once a success is written down.

    Args:
        me: the incarnation.
        wanted: what `mark_of` says.
        always: the policy.
        doubts: a call of its own may still be out.
    """
    if always or (wanted == me and not doubts):
        return NOBODY
    return me if wanted == me else ANYBODY


def claims_update(settled: bool, claims: int, mark: int, always: int) -> bool:
    """Tell whether one's own change of a spec shows that nobody has a call out."""
    return settled or bool(claims and mark == NOBODY and not always)


def drain_left(now: float, heard: float, whole: float) -> float:
    """Say how long a drain may go on that began when its first call was heard."""
    return heard + whole - now


def drain_left_by(wall: float, deadline: float, deleted: float, whole: float) -> float:
    """Say the same of a drain that another incarnation began, by a wall clock.

    Its clock or one's own may be wrong: no drain began before its record's deletion, and
    none is longer than a whole one.

    Args:
        wall: what the own clock shows.
        deadline: as it is written.
        deleted: when the record's end was asked for, by the API server's clock.
        whole: for how long the record is to be drained.
    """
    return min(max(deadline, deleted + whole) - wall, whole)
