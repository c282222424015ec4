"""What a registrar may do next: from the first read to Registered.

A read and the compare-and-swap that follows it are one step where nothing but the read's
result lies between them: if the swap succeeds, nobody wrote in the meantime.
"""

from __future__ import annotations

from tests.lab.model import beside, decisions, permits, seeking, world
from tests.lab.model import layout as at
from tests.lab.model.rules import Rules
from tests.lab.model.world import Draft, State, Step, Steps


def steps(s: State, rules: Rules, out: Steps) -> None:
    """Add what each registrar may do."""
    for w in range(rules.registrars):
        a = at.registrar(w)
        stage = s[a + at.STAGE]
        if stage == at.IDLE:
            for r in range(rules.records):
                kept = r == 0 and s[a + at.KEPT]
                if kept and beside.may_use(s, w, kept):
                    beside.begin_kept(s, rules, w, out)
                if not kept or kept & at.KEPT_IN_TURN:
                    _begin(s, rules, w, r, out)
        else:
            STAGES[stage](s, rules, w, out)
        beside.steps(s, rules, w, out)


def _begin(s: State, rules: Rules, w: int, r: int, out: Steps) -> None:
    """Begin a turn for a record."""
    d = at.record(r)
    phase = s[d + at.PHASE]
    if s[at.memory(w, r) + at.MEMORY] & at.GIVEN_UP:
        return
    if phase == at.ABSENT and rules.keyed:
        _create(s, rules, w, r, out)
        if rules.gates and not rules.looks_after:
            _look_before(s, w, r, out)
    elif not rules.fresh_ensure and s[d + at.ADDRESS]:
        n = bytearray(s)
        permits.permit(n, w, r)
        n[at.registrar(w) + at.CURRENT] = phase == at.LIVE
        out.append(Step(("{a} ensures {r} on what it read before", w, r), n))
    elif phase == at.LIVE and not s[d + at.ADDRESS]:
        seeking.seek(s, w, r, out)
    elif phase == at.LIVE:
        _visit(s, rules, w, r, out)


def _create(s: State, rules: Rules, w: int, r: int, out: Steps) -> None:
    """Create a record with its address: the claim and the first permission."""
    if not permits.may_come(s, rules, r):
        return
    n = bytearray(s)
    d = at.record(r)
    n[d + at.PHASE] = at.LIVE
    n[d + at.ADDRESS] = 1
    n[d + at.ALWAYS] = rules.always
    if rules.claims:
        n[at.memory(w, r) + at.MEMORY] |= at.CLAIMS
        permits.permit(n, w, r)
    out.append(Step(("{a} creates {r} with its address", w, r), n, fault=r > 0))


# --- the permission -----------------------------------------------------------------


def _visit(s: State, rules: Rules, w: int, r: int, out: Steps) -> None:
    """Obtain a permission for a live record that has an address."""
    d, m = at.record(r), at.memory(w, r)
    if s[m + at.MEMORY] & at.RESETTING and s[d + at.REGISTERED]:
        _confess(s, rules, w, r, out)
    elif not s[d + at.REGISTERED] or s[d + at.ALWAYS] or _is_due(s, rules, w, r):
        _mark(s, rules, w, r, out)
    if s[m + at.MEMORY] & at.DOUBTS and not s[d + at.REGISTERED]:
        _report(s, rules, w, r, out)
    if rules.edits and rules.stamps and not s[d + at.STAMP]:
        n = bytearray(s)
        world.touch(n, r)
        n[d + at.STAMP] = 1
        text = "{a} writes into {r} how long its ensures may live"
        out.append(Step((text, w, r), n))


def _is_due(s: State, rules: Rules, w: int, r: int) -> bool:
    """Tell whether the ensure is to be confirmed, as older ones are over."""
    d, m = at.record(r), at.memory(w, r)
    if rules.doubts_end and decisions.is_own(w + 1, s[d + at.MARK]):
        return s[m + at.CLOCK] >= rules.wait or not rules.doubts_age
    return (
        rules.updates
        and rules.confirms
        and s[d + at.MARK] in _unconfirmed_marks(rules)
        and not s[m + at.MEMORY] & at.CONFIRMED
        and s[m + at.CLOCK] >= rules.wait
    )


def _unconfirmed_marks(rules: Rules) -> tuple[int, ...]:
    """Return the marks under which an older ensure may have landed last."""
    if not rules.doubts_end:
        return (decisions.ANYBODY,)
    heirs = (1 + decisions.BEFORE, 2 + decisions.BEFORE)
    return (1, 2, *heirs, decisions.ANYBODY, decisions.DEAD)


def _mark(s: State, rules: Rules, w: int, r: int, out: Steps) -> None:
    """Read the record, and mark it where that is needed before a call."""
    d = at.record(r)
    mark, want = s[d + at.MARK], permits.wanted(s, rules, w, r)
    claims = s[at.memory(w, r) + at.MEMORY] & at.CLAIMS
    covered = decisions.is_covered(mark, want, claims, s[d + at.ALWAYS])
    if s[d + at.ALWAYS] and not rules.takes_over_always:
        covered = True
    n = bytearray(s)
    if covered or not rules.marks:
        permits.permit(n, w, r)
        out.append(Step(("{a} reads {r}: live, it may ensure", w, r), n))
        return
    world.touch(n, r)
    n[d + at.MARK] = want
    permits.permit(n, w, r)
    words = "*" if want == decisions.ANYBODY else "its own name"
    out.append(Step((_MARKING[words], w, r), n))


_MARKING = {
    "*": "{a} writes `*` into {r}'s mark",
    "its own name": "{a} writes its own name into {r}'s mark",
}


def _confess(s: State, rules: Rules, w: int, r: int, out: Steps) -> None:
    """Write down that a member is lost, and by whom it is being put back."""
    d = at.record(r)
    n = bytearray(s)
    if not rules.confesses:
        permits.permit(n, w, r)
        out.append(Step(("{a} puts {r} back, which is Registered", w, r), n))
        return
    world.touch(n, r)
    n[d + at.MARK] = permits.wanted(s, rules, w, r)
    n[d + at.REGISTERED] = 0
    permits.permit(n, w, r)
    out.append(Step(("{a} writes that {r} is lost, with a mark", w, r), n))
    n = bytearray(s)
    world.touch(n, r)
    n[d + at.REGISTERED] = 0
    out.append(Step(("{a} writes that {r} is lost; there is no driver", w, r), n))


def _report(s: State, rules: Rules, w: int, r: int, out: Steps) -> None:
    """Tell of an ensure without a definite answer."""
    d = at.record(r)
    want = permits.wanted(s, rules, w, r) if rules.doubts_end else decisions.ANYBODY
    if rules.marks and s[d + at.MARK] not in (want, decisions.ANYBODY):
        n = bytearray(s)
        world.touch(n, r)
        n[d + at.MARK] = want
        words = "`*`" if want == decisions.ANYBODY else "its name"
        out.append(Step((f"{{a}} reports on {{r}}, and writes {words}", w, r), n))


# --- the call -----------------------------------------------------------------------


def _send(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Send the ensure, or do not."""
    a = at.registrar(w)
    r = s[a + at.WHICH]
    if not _has_looked(s, rules, w, r):
        _look(s, w, r, out)
        return
    n = bytearray(s)
    before = len(out)
    if world.may_send(s, rules, a):
        n[a + at.STAGE] = at.SENT
        if _are_older_over(s, rules, w, r):
            n[a + at.CARRIES] |= at.OLDER_ARE_OVER
        _send_by_bounds(n, s, rules, w, out)
        n = bytearray(s)
    world.rest(n, a)
    _give_up(n, rules, w, r)
    text = "{a} does not ensure {r} now, or is refused"
    out.append(Step((text, w, r), n, trouble=len(out) > before))


def _are_older_over(s: State, rules: Rules, w: int, r: int) -> bool:
    """Tell whether no older ensure can take effect that the registrar does not know."""
    if rules.doubts_end and not rules.doubts_age:
        return True
    counts = rules.updates or rules.doubts_end
    return counts and s[at.memory(w, r) + at.CLOCK] >= rules.wait


def _give_up(n: Draft, rules: Rules, w: int, r: int) -> None:
    """Let nothing but a change of the record bring it back, in a weaker protocol."""
    if not rules.comes_again:
        n[at.memory(w, r) + at.MEMORY] |= at.GIVEN_UP


def _has_looked(s: State, rules: Rules, w: int, r: int) -> bool:
    """Tell whether a registrar may ensure without a look at the pod."""
    if not rules.gates or not rules.looks or s[at.record(r) + at.REGISTERED]:
        return True
    return bool(s[at.memory(w, r) + at.MEMORY] & at.LOOKED)


def _look(s: State, w: int, r: int, out: Steps) -> None:
    """Read the pod of a record that exists, before its first ensure."""
    n = bytearray(s)
    if s[at.POD] == at.RUNS:
        n[at.memory(w, r) + at.MEMORY] |= at.LOOKED
        out.append(Step(("{a} reads the pod of {r}: it runs", w, r), n))
        return
    world.rest(n, at.registrar(w))
    out.append(Step(("{a} reads the pod of {r}: it is being deleted", w, r), n))


def _look_before(s: State, w: int, r: int, out: Steps) -> None:
    """Read the pod before its record is created."""
    m = at.memory(w, r) + at.MEMORY
    if s[at.POD] == at.RUNS and not s[m] & at.LOOKED:
        n = bytearray(s)
        n[m] |= at.LOOKED
        out.append(Step(("{a} reads the pod before it creates {r}: it runs", w, r), n))


def _send_by_bounds(n: Draft, s: State, rules: Rules, w: int, out: Steps) -> None:
    """Send the ensure under what the driver's bounds are, or seem to be."""
    a = at.registrar(w)
    r = s[a + at.WHICH]
    if not rules.edits or s[a + at.SINCE] <= rules.short_life:
        out.append(Step(("{a} sends ensure({r})", w, r), n))
    if rules.edits and (s[at.record(r) + at.STAMP] or not rules.stamps):
        n = bytearray(n)
        n[a + at.CARRIES] |= at.LIVES_LONGER
        text = "{a} sends ensure({r}) under the driver's longer bounds"
        out.append(Step((text, w, r), n))


def _in_flight(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Let the call be executed, or stay without a definite answer."""
    a = at.registrar(w)
    r = s[a + at.WHICH]
    n = bytearray(s)
    n[a + at.STAGE] = at.EFFECTIVE
    broken = world.ensure(n, rules, r, s[a + at.CARRIES] & 1)
    world.end_running(n, rules, r, at.LATE_ENSURE, at.LATE_NEW_ENSURE)
    out.append(Step(("the load balancer executes {a}'s ensure({r})", w, r), n, broken))
    if rules.running:
        n = bytearray(s)
        world.leave_running(n, a, at.LATE_ENSURE + (s[a + at.CARRIES] & 1))
        text = "{a}'s ensure({r}) is answered by Running"
        out.append(Step((text, w, r), n, trouble=True))
    if rules.silences:
        n = bytearray(s)
        permits.lose_ensure(n, rules, w)
        if rules.doubts:
            m = at.memory(w, r)
            n[m + at.MEMORY] |= at.DOUBTS
            older = s[a + at.CARRIES] & 1 != s[at.record(r) + at.CHANGED]
            if older or rules.doubts_end:
                n[m + at.CLOCK] = 0
        _give_up(n, rules, w, r)
        text = "{a}'s ensure({r}) is without a definite answer, and still out"
        out.append(Step((text, w, r), n, fault=True))


def _answer(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Let the answer arrive."""
    a = at.registrar(w)
    r = s[a + at.WHICH]
    n = bytearray(s)
    n[a + at.STAGE] = at.ANSWERED
    n[a + at.SINCE] = 0
    m = at.memory(w, r)
    current = s[a + at.CARRIES] & 1 == s[at.record(r) + at.CHANGED]
    over = s[a + at.CARRIES] & at.OLDER_ARE_OVER
    if not rules.judges_at_sending:
        over = rules.updates and s[m + at.CLOCK] >= rules.wait
    if current and over:
        n[m + at.MEMORY] |= at.CONFIRMED
    if rules.doubts_end and over:
        n[m + at.MEMORY] &= ~at.DOUBTS
    out.append(Step(("{a} is told that {r} is in", w, r), n))


def _register(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Write the success down."""
    a = at.registrar(w)
    r = s[a + at.WHICH]
    d = at.record(r)
    n = bytearray(s)
    world.rest(n, a)
    if not s[a + at.CURRENT]:
        out.append(Step(("{a} cannot write {r} Registered: it has changed", w, r), n))
        return
    want = permits.wanted(s, rules, w, r)
    doubts = rules.doubts_end and s[at.memory(w, r) + at.MEMORY] & at.DOUBTS
    left = decisions.mark_left(w + 1, want, s[d + at.ALWAYS], doubts)
    if not rules.star_stays and not s[at.memory(w, r) + at.MEMORY] & at.DOUBTS:
        left = decisions.NOBODY
    world.register(n, rules, r, left)
    n[at.memory(w, r) + at.MEMORY] &= ~at.RESETTING
    out.append(Step(("{a} writes {r} Registered", w, r), n))
    if rules.unheard and r == 0:
        _unheard(s, rules, w, left, out)


def _unheard(s: State, rules: Rules, w: int, left: int, out: Steps) -> None:
    """Hear nothing of a write of Registered, which may be made at any time from now."""
    a, m = at.registrar(w), at.memory(w, 0)
    n = bytearray(s)
    world.rest(n, a)
    n[a + at.UNHEARD] = 1 + left
    if rules.doubts_writes and left == decisions.NOBODY:
        doubt = at.STARS if rules.doubts_end else at.DOUBTS
        n[m + at.MEMORY] = n[m + at.MEMORY] & ~at.CLAIMS | doubt
    text = "{a} hears nothing of its write of {r} Registered, which is still out"
    out.append(Step((text, w, 0), n, fault=True))


STAGES = {
    at.READ: seeking.lock,
    at.LOCKED: seeking.write_address,
    at.PERMITTED: _send,
    at.SENT: _in_flight,
    at.EFFECTIVE: _answer,
    at.ANSWERED: _register,
}
