"""How a registrar makes an address one record's own, before anything is registered.

`registrar` comes here with a record that has no address. It is left with the address and
the mark written.
"""

from __future__ import annotations

from tests.lab.model import layout as at
from tests.lab.model import permits, world
from tests.lab.model.rules import Rules
from tests.lab.model.world import Draft, State, Step, Steps


def seek(s: State, w: int, r: int, out: Steps) -> None:
    """Begin with a record that has no address."""
    a = at.registrar(w)
    n = bytearray(s)
    n[a + at.STAGE], n[a + at.WHICH], n[a + at.CURRENT] = at.READ, r, 1
    out.append(Step(("{a} reads {r}: it has no address", w, r), n))


def lock(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Take the lock, or what a weaker protocol has instead."""
    a = at.registrar(w)
    r = s[a + at.WHICH]
    if not rules.lock_first and s[a + at.CURRENT] and not s[at.record(r) + at.ADDRESS]:
        n = bytearray(s)
        world.touch(n, r)
        n[at.record(r) + at.ADDRESS] = n[a + at.CURRENT] = 1
        out.append(Step(("{a} writes {r}'s address, without the lock", w, r), n))
        return
    free = _may_lock(s, rules, w, r)
    if free:
        n = bytearray(s)
        if rules.lock == "lease" and n[at.LOCK] != r + 1:
            _take_over(n, rules, r)
        n[at.memory(w, r) + at.MEMORY] |= at.HAS_LOCK
        n[a + at.STAGE] = at.LOCKED
        out.append(Step((_LOCKING[rules.lock], w, r), n))
    n = bytearray(s)
    world.rest(n, a)
    if not rules.lock_ages:
        n[at.LOCK_AGE] = 0
    out.append(Step(("{a} leaves {r} for later", w, r), n, trouble=free))


def _take_over(n: Draft, rules: Rules, r: int) -> None:
    """Make a record the lock's holder; what was written of the last one is void."""
    n[at.LOCK], n[at.LOCK_AGE] = r + 1, 0
    if rules.frees_holder:
        n[at.FREED] = 0
    for w in range(at.MAX_DEREGISTRARS):
        for other in range(at.MAX_RECORDS):
            gone = n[at.record(other) + at.PHASE] == at.GONE
            kept = at.UNANSWERED if gone else at.UNANSWERED | at.TICKS_OUT
            n[at.ending(w, other)] &= kept


_LOCKING = {
    "lease": "{a} takes the lock on the address for {r}",
    "list": "{a} lists the records: nobody else has {r}'s address",
    "none": "{a} goes on with {r} without a lock",
}


def _may_lock(s: State, rules: Rules, w: int, r: int) -> bool:
    """Tell whether the address can be this record's."""
    if rules.lock == "list":
        others = (at.record(o) for o in range(rules.records) if o != r)
        return not any(
            s[o + at.ADDRESS] and s[o + at.PHASE] in (at.LIVE, at.DELETING)
            for o in others
        )
    holder = s[at.LOCK]
    known = s[at.memory(w, r) + at.MEMORY] & at.HAS_LOCK
    if rules.lock == "none" or known or holder in (0, r + 1):
        return True
    gone = s[at.record(holder - 1) + at.PHASE] == at.GONE
    over = rules.lock_ends and s[at.LOCK_AGE] >= world.takeover_of(s, rules, holder - 1)
    return gone and bool(over or s[at.FREED])


def write_address(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Write the address and the mark: the first permission."""
    a = at.registrar(w)
    r = s[a + at.WHICH]
    n = bytearray(s)
    if not s[a + at.CURRENT]:
        world.rest(n, a)
        out.append(Step(("{a} cannot write {r}'s address: it has changed", w, r), n))
        return
    if not rules.address_first:
        permits.permit(n, w, r)
        out.append(Step(("{a} will write {r}'s address afterwards", w, r), n))
        return
    world.touch(n, r)
    n[at.record(r) + at.ADDRESS] = 1
    if rules.marks:
        n[at.record(r) + at.MARK] = w + 1
    permits.permit(n, w, r)
    out.append(Step(("{a} writes {r}'s address and its own mark", w, r), n))
    for ender in range(rules.deregistrars if rules.frees else 0):
        named = bytearray(n)
        named[at.record(r) + at.ENDER] = ender + 1
        text = f"{{a}} writes {{r}}'s address, its own mark, and B{ender + 1} as deregistrar"
        out.append(Step((text, w, r), named))
