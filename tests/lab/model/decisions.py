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


def is_settled(registered: int, mark: int, always: int) -> bool:
    """Tell whether no ensure can be out any more."""
    return bool(registered) and mark == NOBODY and not always


def mark_of(me: int, mark: int, settled: bool, claims: int, doubts: int) -> int:
    """Say what `ensuring` must be while an incarnation may have a call out.

    Args:
        me: the incarnation.
        mark: what `ensuring` is.
        settled: what `is_settled` says of the same version.
        claims: its own write shows that nobody else can have a call out.
        doubts: it has had a call without a definite answer.
    """
    alone = mark == me or settled or (claims and mark == NOBODY)
    return me if alone and not doubts else ANYBODY


def is_covered(mark: int, wanted: int, claims: int, always: int) -> bool:
    """Tell whether a deregistrar that reads this mark expects the call."""
    if mark in (wanted, ANYBODY):
        return True
    return mark == NOBODY and bool(claims or always)


def mark_left(me: int, wanted: int, always: int) -> int:
    """Say what `ensuring` is once a success is written down."""
    return NOBODY if wanted == me or always else ANYBODY


def claims_update(settled: bool, claims: int, mark: int, always: int) -> bool:
    """Tell whether one's own change of a spec shows that nobody has a call out."""
    return settled or bool(claims and mark == NOBODY and not always)
