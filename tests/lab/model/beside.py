"""What a registrar does beside its turns: changes of specs, resets, its own end.

Changes of specs (`lbcf.controller.apply`) are written while a turn is under way, and so are
resets (`lbcf.controller.member_resync`); the turn, or the next one, goes on from what they leave.
"""

from __future__ import annotations

from tests.lab.model import decisions, permits, world
from tests.lab.model import layout as at
from tests.lab.model.rules import Rules
from tests.lab.model.world import Draft, State, Step, Steps


def steps(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Add what a registrar may do beside its turns."""
    if rules.resets and s[at.EPOCH] and (rules.reads_both or not rules.elsewhere):
        survey(s, rules, w, out)
    if rules.updates:
        update(s, rules, w, out)
    if rules.signs_off:
        for r in range(rules.records):
            sign_off(s, rules, w, r, out)
    end(s, rules, w, out)


def update(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Change the first record's spec, once; its applier does so beside its turns."""
    d, m, a = at.record(0), at.memory(w, 0), at.registrar(w)
    if s[d + at.PHASE] != at.LIVE or s[d + at.CHANGED]:
        return
    n = bytearray(s)
    mark, always = s[d + at.MARK], s[d + at.ALWAYS]
    settled = decisions.is_settled(s[d + at.REGISTERED], mark, always)
    claims = s[m + at.MEMORY] & at.CLAIMS
    claims = decisions.claims_update(settled, claims, mark, always)
    for v in range(rules.registrars):
        n[at.memory(v, 0) + at.MEMORY] &= ~(at.CLAIMS | at.CONFIRMED)
        if rules.counts_from_change:
            n[at.memory(v, 0) + at.CLOCK] = 0
    world.touch(n, 0)
    n[d + at.CHANGED] = 1
    n[d + at.REGISTERED] = n[d + at.ALWAYS] = 0
    busy = s[a + at.STAGE] != at.IDLE
    if (claims or not rules.claims_soundly) and not busy:
        n[m + at.MEMORY] |= at.CLAIMS
    if not (busy and rules.drops_old_permission):
        own = at.KEPT_IS_MINE if mark == w + 1 else 0
        star = at.KEPT_IS_ANYBODYS if mark == decisions.ANYBODY else 0
        placed = at.KEPT_HAS_ADDRESS if s[d + at.ADDRESS] else 0
        beside = at.KEPT_IN_TURN if busy else 0
        n[a + at.KEPT] = 1 | at.KEPT_IS_CURRENT | own | star | placed | beside
        n[a + at.KEPT_AGE] = 0
    out.append(Step(("{a} changes {r}'s spec", w, 0), n, fault=True))


def may_use(s: State, w: int, kept: int) -> bool:
    """Tell whether a turn begins: its own store is never behind its own writes."""
    resetting = s[at.memory(w, 0) + at.MEMORY] & at.RESETTING
    registered = s[at.record(0) + at.REGISTERED]
    return bool(not kept & at.KEPT_IN_TURN or resetting or not registered)


def begin_kept(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Begin a turn on the permission that an own change of the spec gave."""
    a, m, d = at.registrar(w), at.memory(w, 0), at.record(0)
    kept = s[a + at.KEPT]
    n = bytearray(s)
    n[a + at.KEPT] = n[a + at.KEPT_AGE] = 0
    doubts = s[m + at.MEMORY] & (at.STARS if rules.doubts_end else at.DOUBTS)
    claims = s[m + at.MEMORY] & at.CLAIMS and not kept & at.KEPT_IS_MINE
    mine = kept & at.KEPT_IS_MINE and not doubts
    if not kept & at.KEPT_HAS_ADDRESS:
        n[a + at.STAGE], n[a + at.WHICH] = at.READ, 0
        n[a + at.CURRENT] = bool(kept & at.KEPT_IS_CURRENT)
        text = "{a} goes on with {r} after its own change of the spec"
    elif mine or claims or kept & at.KEPT_IS_ANYBODYS or not rules.marks:
        permits.permit(n, w, 0)
        n[a + at.CARRIES] = 1
        n[a + at.SINCE] = s[a + at.KEPT_AGE]
        n[a + at.CURRENT] = bool(kept & at.KEPT_IS_CURRENT)
        text = "{a} may ensure {r} by its own change of the spec"
    elif kept & at.KEPT_IS_CURRENT:
        world.touch(n, 0)
        n[d + at.MARK] = permits.wanted(s, rules, w, 0)
        permits.permit(n, w, 0)
        text = "{a} marks {r} after its own change of the spec"
    else:
        text = "{a} cannot mark {r}: it has changed"
    out.append(Step((text, w, 0), n))


def survey(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Notice a reset, and write the new epoch once nothing is left to be put back."""
    a = at.registrar(w)
    n = bytearray(s)
    if not s[a + at.SURVEYED]:
        n[a + at.SURVEYED] = 1
        for r in range(rules.records):
            _flag(n, rules, w, r)
        text = "{a} notices that the load balancer was reset"
        out.append(Step((text, w, 0), n, beside=True))
        return
    flags = (s[at.memory(w, r) + at.MEMORY] for r in range(rules.records))
    if not any(flag & at.RESETTING for flag in flags):
        n[at.EPOCH] = 0
        n[at.EPOCH_WRITTEN] = s[at.RESETS] if rules.elsewhere else 0
        for v in range(rules.registrars):
            n[at.registrar(v) + at.SURVEYED] = 0
        out.append(Step(("{a} writes the new epoch", w, 0), n, beside=True))


def _flag(n: Draft, rules: Rules, w: int, r: int) -> None:
    """Note that a record is to be put back, beside a turn that may be under way."""
    d, a = at.record(r), at.registrar(w)
    if n[d + at.PHASE] != at.LIVE or not n[d + at.ADDRESS]:
        return
    listed = n[world.member(rules, r) + at.IS_IN]
    if rules.is_first and (listed or not rules.doubts_first):
        return
    busy = n[a + at.STAGE] != at.IDLE and n[a + at.WHICH] == r
    if rules.resets_all or n[d + at.REGISTERED]:
        n[at.memory(w, r) + at.MEMORY] |= at.RESETTING
        if busy:
            n[a + at.CURRENT] = 0


def sign_off(s: State, rules: Rules, w: int, r: int, out: Steps) -> None:
    """Write into a record that ends that none of its ensures is out any more."""
    a, d, m = at.registrar(w), at.record(r), at.memory(w, r)
    in_turn = s[a + at.STAGE] != at.IDLE and s[a + at.WHICH] == r
    if s[d + at.PHASE] != at.DELETING or not s[d + at.ADDRESS] or in_turn:
        return
    kept, always = s[m + at.MEMORY], s[d + at.ALWAYS]
    doubts = rules.signs_off_surely and (
        kept & at.STARS or (kept & at.DOUBTS and s[m + at.CLOCK] < rules.wait)
    )
    if rules.running and rules.signs_off_done and _is_running(s, r):
        return
    mark = s[d + at.MARK]
    if mark == decisions.ANYBODY and not rules.signs_off_own:
        mark = w + 1
    if decisions.may_sign_off(w + 1, mark, kept & at.CLAIMS, doubts, always):
        n = bytearray(s)
        world.touch(n, r)
        n[d + at.MARK] = decisions.SIGNED_OFF
        if rules.drops_kept:
            n[m + at.MEMORY] &= ~at.CLAIMS
            if r == 0:
                n[a + at.KEPT] = n[a + at.KEPT_AGE] = 0
        out.append(Step(("{a} signs {r} off", w, r), n))


def _is_running(s: State, r: int) -> bool:
    """Tell whether an ensure goes on that was answered by Running.

    A registrar that was told so waits for a success, and so never knows less than this.
    """
    kinds = (at.LATE_ENSURE, at.LATE_NEW_ENSURE)
    return any(s[at.orphan(r, at.RUNNING + kind)] for kind in kinds)


def end(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Let an incarnation end; another one, with another name, takes its place."""
    a = at.registrar(w)
    theirs = 0 if rules.heirs_ended else 2 - w
    named = any(
        decisions.is_own(w + 1, s[at.record(r) + at.MARK])
        or (theirs and s[at.record(r) + at.MARK] == theirs)
        or s[at.memory(w, r) + at.MEMORY]
        for r in range(rules.records)
    )
    if not (named or s[a + at.STAGE] or s[a + at.KEPT] or s[a + at.SURVEYED]):
        return
    if rules.crashes and not rules.ends_only:
        n = bytearray(s)
        if s[a + at.STAGE] == at.SENT:
            permits.lose_ensure(n, rules, w)
        _forget(n, rules, w)
        for r in range(rules.records):
            if rules.inherits_marks:
                _inherit(n, s, rules, w, r)
            elif n[at.record(r) + at.MARK] == w + 1:
                n[at.record(r) + at.MARK] = decisions.DEAD
        out.append(Step(("{a} ends; another begins in its place", w, 0), n, fault=True))
    if not rules.remembers and s[a + at.STAGE] == at.IDLE:
        n = bytearray(s)
        _forget(n, rules, w)
        out.append(Step(("{a} forgets, and keeps its name", w, 0), n, fault=True))


def _inherit(n: Draft, s: State, rules: Rules, w: int, r: int) -> None:
    """Take the mark of one that has ended for one's own, and what it had out for calls.

    A journal says of which records it had calls out, and since when the latest counts.
    """
    a, d, m = at.registrar(w), at.record(r), at.memory(w, r)
    mark = n[d + at.MARK]
    if not rules.heirs_ended and mark == 2 - w:
        n[d + at.MARK] = w + 1 + decisions.BEFORE
    if decisions.is_own(w + 1, mark) and rules.signs_anew:
        n[d + at.MARK] = w + 1 + decisions.BEFORE
    if n[d + at.PHASE] not in (at.LIVE, at.DELETING) or not rules.heirs_doubt:
        return
    calling = s[a + at.STAGE] == at.SENT and s[a + at.WHICH] == r
    if rules.notes_ensures:
        unknown = calling and rules.notes_before
    else:
        registered, always = s[d + at.REGISTERED], s[d + at.ALWAYS]
        unknown = not decisions.is_settled(registered, mark, always)
    if unknown or s[m + at.MEMORY] & at.DOUBTS:
        # What was out when it ended counts from then on.
        n[m + at.MEMORY] |= at.DOUBTS
        n[m + at.CLOCK] = 0 if unknown else s[m + at.CLOCK]


def _forget(n: Draft, rules: Rules, w: int) -> None:
    """Lose all memory."""
    a = at.registrar(w)
    world.rest(n, a)
    n[a + at.KEPT] = n[a + at.KEPT_AGE] = n[a + at.SURVEYED] = 0
    for r in range(rules.records):
        m = at.memory(w, r)
        n[m + at.MEMORY] = n[m + at.CLOCK] = 0
