"""What a registrar may do by what it has read and remembers.

A turn of `registrar`, and a change in `beside`, get their permission to call here.
"""

from __future__ import annotations

from tests.lab.model import decisions, world
from tests.lab.model import layout as at
from tests.lab.model.rules import Rules
from tests.lab.model.world import Draft, State


def may_come(s: State, rules: Rules, r: int) -> bool:
    """Tell whether a record may be created now."""
    if s[at.record(r) + at.PHASE] != at.ABSENT:
        return False
    if r == 2:
        return s[at.record(1) + at.PHASE] != at.ABSENT
    first = s[at.record(0) + at.PHASE]
    return r == 0 or (first == at.GONE if rules.namesake else first != at.ABSENT)


def permit(n: Draft, w: int, r: int) -> None:
    """Give a registrar a permission that begins now."""
    a = at.registrar(w)
    n[a + at.STAGE] = at.PERMITTED
    n[a + at.WHICH] = r
    n[a + at.CURRENT] = 1
    n[a + at.SINCE] = 0
    n[a + at.CARRIES] = n[at.record(r) + at.CHANGED]


def wanted(s: State, rules: Rules, w: int, r: int) -> int:
    """Say what the mark must be before this registrar's next ensure of a record."""
    d, kept = at.record(r), s[at.memory(w, r) + at.MEMORY]
    mark = s[d + at.MARK]
    if not rules.takes_over and mark not in (0, w + 1):
        return mark
    settled = decisions.is_settled(s[d + at.REGISTERED], mark, s[d + at.ALWAYS])
    claims = kept & at.CLAIMS
    doubts = kept & (at.STARS if rules.doubts_end else at.DOUBTS)
    return decisions.mark_of(w + 1, mark, settled, claims, doubts)


def lose_ensure(n: Draft, rules: Rules, w: int) -> None:
    """Let a registrar's ensure go on without it."""
    a = at.registrar(w)
    world.lose_call(n, rules, a, at.LATE_ENSURE + (n[a + at.CARRIES] & 1))
