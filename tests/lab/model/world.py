"""What happens to records and to the load balancer, whoever makes it happen.

Each of these changes a state in place; those that can break a promise answer how.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.lab.model import layout as at
from tests.lab.model.rules import Rules


Label = tuple[str, int, int]
"""What a step is, in words with places for the actor and the record, and those two."""


class Step(NamedTuple):
    """A transition.

    Attributes:
        label: what it is.
        state: where it leads.
        broken: the promise that it breaks, empty for none.
        fault: nobody may count on it.
        trouble: it may happen often, but not for ever: a refusal, a pause, one more drain.
        beside: it is no step of a worker's turn, which it does not wait for.
    """

    label: Label
    state: bytearray
    broken: str = ""
    fault: bool = False
    trouble: bool = False
    beside: bool = False


Steps = list[Step]
State = bytes
Draft = bytearray


def touch(s: Draft, r: int) -> None:
    """Let a write make all older reads of a record outdated."""
    for w in range(at.MAX_REGISTRARS):
        a = at.registrar(w)
        if s[a + at.WHICH] == r:
            s[a + at.CURRENT] = 0
        if r == 0:
            s[a + at.KEPT] &= ~at.KEPT_IS_CURRENT
            s[a + at.UNHEARD] = 0
        s[at.memory(w, r) + at.MEMORY] &= ~at.GIVEN_UP
    for w in range(at.MAX_DEREGISTRARS):
        b = at.deregistrar(w)
        s[at.ending(w, r)] &= ~at.ENDING_GIVEN_UP
        if s[b + at.WHICH] == r:
            s[b + at.CURRENT] = 0


def rest(s: Draft, worker: int) -> None:
    """Let a worker's turn be over; what it remembers stays."""
    s[worker : worker + 5] = b"\0\0\0\0\0"


def register(s: Draft, rules: Rules, r: int, left: int) -> None:
    """Let the API server write a record Registered."""
    d = at.record(r)
    touch(s, r)
    s[d + at.REGISTERED] = s[d + at.ADDRESS] = 1
    s[d + at.STAMP] &= ~at.SAYS_LOST
    if rules.marks:
        s[d + at.MARK] = left


def member(rules: Rules, r: int) -> int:
    """Say where the member of a record is."""
    return at.MEMBERS + (r * at.MEMBER if rules.keyed else 0)


def ensure(s: Draft, rules: Rules, r: int, changed: int) -> str:
    """Let the load balancer execute an ensure; answers the promise that this breaks."""
    m, d = member(rules, r), at.record(r)
    again = s[d + at.ENDED] and not s[m + at.IS_IN]
    s[m + at.IS_IN] = 1
    s[m + at.IS_DRAINED] = 0
    s[m + at.HAS] = changed
    s[d + at.ENSURED] = 1
    s[d + at.LOST] = 0
    return f"S3: an ensure of R{r + 1} adds it again after its end" if again else ""


def take_out(s: Draft, rules: Rules, r: int) -> None:
    """Let the load balancer execute a deregister."""
    m = member(rules, r)
    s[m + at.IS_IN] = s[m + at.IS_DRAINED] = s[m + at.HAS] = 0


def drain(s: Draft, rules: Rules, r: int) -> None:
    """Let the load balancer execute a drain."""
    m = member(rules, r)
    s[m + at.IS_DRAINED] = s[m + at.IS_IN]


def end(s: Draft, r: int) -> str:
    """Let a record be gone; answers the promise that this breaks."""
    d = at.record(r)
    leaked = s[d + at.ENSURED] and not s[d + at.ENDED]
    s[d + at.PHASE] = at.GONE
    s[d + at.REGISTERED] = s[d + at.MARK] = s[d + at.AGE] = s[d + at.LOST] = 0
    s[d + at.ENDER] = 0
    s[d + at.STAMP] &= at.LONGER_END
    touch(s, r)
    for w in range(at.MAX_DEREGISTRARS):
        e = at.ending(w, r)
        s[e] &= at.ANSWERED_ALL | at.TICKS_OUT if s[e] & at.ANSWERED_ALL else 0
    for w in range(at.MAX_REGISTRARS):
        m = at.memory(w, r)
        s[m + at.MEMORY] = s[m + at.CLOCK] = 0
        if r == 0:
            s[at.registrar(w) + at.KEPT] = s[at.registrar(w) + at.KEPT_AGE] = 0
    if s[at.LOCK] == r + 1:
        s[at.LOCK_AGE] = 0
    return f"S5: R{r + 1} is gone, and was not deregistered for good" if leaked else ""


def lose_call(s: Draft, rules: Rules, worker: int, kind: int) -> None:
    """Let a call go on without its caller, whose turn is over."""
    r = s[worker + at.WHICH]
    unbounded = not rules.bounded_late or not (rules.bounded_pause or rules.not_after)
    age = 1 if unbounded else 1 + s[worker + at.SINCE] + _shorter(s, rules, worker)
    o = at.orphan(r, kind)
    s[o] = min(s[o], age) if s[o] else age
    rest(s, worker)


def leave_running(s: Draft, worker: int, kind: int) -> None:
    """Let a call go on that was answered by Running; its caller's turn is over."""
    r = s[worker + at.WHICH]
    age = 1 + s[worker + at.SINCE]
    o = at.orphan(r, at.RUNNING + kind)
    s[o] = min(s[o], age) if s[o] else age
    rest(s, worker)


def end_running(s: Draft, rules: Rules, r: int, *kinds: int) -> None:
    """Let what a record's calls had left running be over, as one of them succeeded."""
    if rules.success_ends:
        for kind in kinds:
            s[at.orphan(r, at.RUNNING + kind)] = 0


def life_of(s: State | Draft, rules: Rules, worker: int) -> int:
    """Say how long a worker's permission and its call may live at most."""
    if worker >= at.DEREGISTRARS:
        drain = s[worker + at.CARRIES] == at.DRAIN
        return rules.drain_life if drain else rules.life
    return rules.life - _shorter(s, rules, worker)


def _shorter(s: State | Draft, rules: Rules, worker: int) -> int:
    """Say by how much a worker's call ends earlier than the longest may."""
    is_ensure = worker < at.DEREGISTRARS and s[worker + at.STAGE] == at.SENT
    if not rules.edits or not is_ensure:
        return 0
    longer = s[worker + at.CARRIES] & at.LIVES_LONGER
    return 0 if longer else rules.life - rules.short_life


def takeover_of(s: State, rules: Rules, r: int) -> int:
    """Say for how long a lock's holder must have been gone."""
    longer = not rules.edits_ends or s[at.record(r) + at.STAMP] & at.LONGER_END
    return rules.takeover if longer else rules.short_takeover


def may_send(s: State, rules: Rules, worker: int) -> bool:
    """Tell whether a driver takes a call that arrives now."""
    return not (rules.not_after and s[worker + at.SINCE])
