"""What a deregistrar may do next: from a deletion to the finalizer's end.

It remembers less than the real one: whether it has drained or deregistered before is
asked anew in each turn, so that it may repeat what the real one does once.
"""

from __future__ import annotations

from tests.lab.model import decisions, world
from tests.lab.model import layout as at
from tests.lab.model.rules import Rules
from tests.lab.model.world import Draft, State, Step, Steps


def steps(s: State, rules: Rules, out: Steps) -> None:
    """Add what each deregistrar may do."""
    for w in range(rules.deregistrars):
        b = at.deregistrar(w)
        stage = s[b + at.STAGE]
        if rules.frees:
            _free(s, w, out)
        if rules.tells_since:
            _tell_since(s, rules, w, out)
        if stage == at.IDLE:
            for r in range(rules.records):
                if rules.edits_ends and rules.says_longer:
                    _say_longer(s, w, r, out)
                _begin(s, rules, w, r, out)
        else:
            STAGES[stage](s, rules, w, out)
        if rules.crashes and (stage != at.IDLE or _is_known(s, rules, w)):
            _end(s, rules, w, out)


def _is_known(s: State, rules: Rules, w: int) -> bool:
    """Tell whether anything is lost with a deregistrar that is idle."""
    return rules.frees and any(
        s[at.ending(w, r)] or s[at.record(r) + at.ENDER] == w + 1
        for r in range(rules.records)
    )


def _end(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Let an incarnation end; another one, with another name, takes its place."""
    b = at.deregistrar(w)
    n = bytearray(s)
    if s[b + at.STAGE] == at.SENT:
        _lose(n, rules, w)
    world.rest(n, b)
    for r in range(rules.records):
        deleting = n[at.record(r) + at.PHASE] == at.DELETING
        if rules.recalls:
            known = n if rules.notes_calls else s
            n[at.ending(w, r)] = known[at.ending(w, r)] & ~at.ENDING_GIVEN_UP
            continue
        n[at.ending(w, r)] = 0
        if rules.inherits and deleting:
            _take_up(n, rules, w, r)
        if rules.forgets_whole and n[at.record(r) + at.ENDER] == w + 1:
            n[at.record(r) + at.ENDER] = decisions.DEAD
    text = "{b} ends; another begins in its place"
    out.append(Step((text, w, 0), n, fault=True))


def _take_up(n: Draft, rules: Rules, w: int, r: int) -> None:
    """Remember that calls of one that has just ended may be out, and for how long."""
    if not rules.tells_since:
        n[at.ending(w, r)] = at.UNANSWERED
        return
    longest = rules.drain_life if rules.drains else rules.life
    ago = 0 if rules.times_heirs else n[at.record(r) + at.AGE]
    _note_out(n, rules, at.ending(w, r), max(longest + rules.over - ago, 0))


def _tell_since(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Write for whoever waits since when calls for the end of its holder may be out."""
    holder = s[at.LOCK]
    known = s[at.ending(w, holder - 1)] if holder else 0
    takeover = world.takeover_of(s, rules, holder - 1) if holder else 0
    since = max(takeover - known // at.TICK_OUT, 0)
    gone = holder and s[at.record(holder - 1) + at.PHASE] == at.GONE
    if gone and known & at.ANSWERED_ALL and s[at.LOCK_AGE] < since:
        n = bytearray(s)
        n[at.LOCK_AGE] = since
        text = "{b} writes since when calls for {r} may be out"
        out.append(Step((text, w, holder - 1), n, beside=True))


def _free(s: State, w: int, out: Steps) -> None:
    """Write for whoever waits that no call for the end of its holder is out."""
    holder = s[at.LOCK]
    if s[at.FREED] or not holder:
        return
    known = s[at.ending(w, holder - 1)]
    if known & at.ANSWERED_ALL and not known & at.TICKS_OUT:
        n = bytearray(s)
        n[at.FREED] = 1
        for v in range(at.MAX_DEREGISTRARS):
            n[at.ending(v, holder - 1)] &= at.UNANSWERED
        text = "{b} writes that all calls for {r} were answered"
        out.append(Step((text, w, holder - 1), n, beside=True))


def _lose(n: bytearray, rules: Rules, w: int) -> None:
    """Let a deregistrar's call go on without it."""
    b = at.deregistrar(w)
    drain = n[b + at.CARRIES] == at.DRAIN
    r = n[b + at.WHICH]
    since = n[b + at.SINCE]
    world.lose_call(n, rules, b, at.LATE_DRAIN if drain else at.LATE_DEREGISTER)
    if rules.frees_in_time:
        life = rules.drain_life if drain and rules.times_drains else rules.life
        _note_out(n, rules, at.ending(w, r), max(life + rules.over - since, 0))
    elif rules.frees and rules.frees_answered:
        n[at.ending(w, r)] |= at.UNANSWERED


def _note_out(n: Draft, rules: Rules, ending: int, ticks: int) -> None:
    """Remember for how long a call without an answer may be out."""
    known = n[ending] // at.TICK_OUT
    if rules.times_last or not known:
        known = max(known, ticks)
    n[ending] = n[ending] & (at.TICK_OUT - 1) | known * at.TICK_OUT


def _say_longer(s: State, w: int, r: int, out: Steps) -> None:
    """Write for whoever takes a lock over that calls for its holder's end may live longer."""
    d = at.record(r)
    ends = s[d + at.PHASE] in (at.DELETING, at.GONE) and s[at.LOCK] == r + 1
    if ends and not s[d + at.STAMP] & at.LONGER_END:
        n = bytearray(s)
        n[d + at.STAMP] |= at.LONGER_END
        text = "{b} writes how long calls for the end of {r} may live"
        out.append(Step((text, w, r), n))


def _begin(s: State, rules: Rules, w: int, r: int, out: Steps) -> None:
    """Begin a turn by a quorum read, or by what the watch has shown.

    Nobody but a deregistrar writes to a record that is being deleted: an older view of
    that shows the same, but for the version that a write must be based on.
    """
    d = at.record(r)
    if s[at.ending(w, r)] & at.ENDING_GIVEN_UP:
        return
    if s[d + at.PHASE] == at.GONE and s[d + at.ADDRESS] and not rules.fresh_deregister:
        text = "{b} still has {r} as deleting in its cache"
        out.append(_permitted(s, w, r, at.FINAL, text))
        if rules.drains:
            text += "; it drains first"
            drain = _permitted(s, w, r, at.DRAIN, text)
            out.append(drain._replace(trouble=True))
    if s[d + at.PHASE] != at.DELETING:
        return
    _begin_deleting(s, rules, w, r, out, current=True)
    if not rules.fresh_deregister:
        older: Steps = []
        _begin_deleting(s, rules, w, r, older, current=False)
        out += [step._replace(trouble=True) for step in older]


def _begin_deleting(
    s: State, rules: Rules, w: int, r: int, out: Steps, *, current: bool
) -> None:
    """Begin with a record that is being deleted, on its last version or an older one."""
    reads = "{b} reads {r}: deleting" if current else "{b} has an older {r}: deleting"
    if not s[at.record(r) + at.ADDRESS]:
        n = bytearray(s)
        b = at.deregistrar(w)
        n[b : b + 5] = bytes((at.ANSWERED, r, current, 0, at.NEVER))
        out.append(Step((f"{reads}, without an address", w, r), n))
        return
    final = is_final(s, rules, r)
    if not rules.deletion_ages:
        n = bytearray(s)
        n[at.record(r) + at.AGE] = 0
        s = bytes(n)
    text = reads + ("" if final else "; this call will not count")
    if rules.frees and rules.signs and _is_anothers(s, rules, w, r):
        n = bytearray(s)
        world.touch(n, r)
        n[at.record(r) + at.ENDER] = decisions.ANYBODY
        s, current = bytes(n), True
        text += "; it writes `*` as its deregistrar"
        reads = text
    call = at.FINAL if final else at.EARLY
    out += _by_bounds(s, rules, _permitted(s, w, r, call, text, current=current))
    if rules.drains:
        text = f"{reads}; it drains first"
        drain = _permitted(s, w, r, at.DRAIN, text, current=current)
        out += _by_bounds(s, rules, drain._replace(trouble=rules.drains_end))


def _by_bounds(s: State, rules: Rules, permitted: Step) -> Steps:
    """Let a call go by what the driver's bounds are, or seem to be.

    One under the shorter bounds lives as long as one under the longer ones that has been
    under way for the difference.
    """
    if not rules.edits_ends:
        return [permitted]
    text, w, r = permitted.label
    longer = permitted._replace(
        label=(f"{text}, under the driver's longer bounds", w, r)
    )
    n = bytearray(permitted.state)
    n[at.deregistrar(w) + at.SINCE] = rules.life - rules.short_life
    shorter = permitted._replace(state=n)
    if not rules.says_longer or s[at.record(r) + at.STAMP] & at.LONGER_END:
        return [shorter, longer]
    if rules.looks_again:
        return [shorter]
    longer.state[at.deregistrar(w) + at.CARRIES] |= at.LIVES_LONGER
    return [shorter, longer]


def _is_anothers(s: State, rules: Rules, w: int, r: int) -> bool:
    """Tell whether a record names another deregistrar, who may count on being alone."""
    named = s[at.record(r) + at.ENDER]
    if named in (decisions.NOBODY, decisions.ANYBODY):
        return False
    return not _is_named(s, rules, w, r)


def _is_named(s: State | Draft, rules: Rules, w: int, r: int) -> bool:
    """Tell whether a record names a deregistrar as who alone may call for its end."""
    named = s[at.record(r) + at.ENDER]
    return named == w + 1 or (not rules.names_apart and named in (1, 2))


def is_final(s: State, rules: Rules, r: int) -> bool:
    """Tell whether a deregister cannot be undone by an ensure still out."""
    d = at.record(r)
    registered, mark, always = s[d + at.REGISTERED], s[d + at.MARK], s[d + at.ALWAYS]
    if not rules.waits_unmarked:
        registered = 1
    if not rules.reads_mark or not rules.marks:
        mark = decisions.NOBODY
    settled = decisions.is_settled(registered, mark, always)
    longer = not rules.edits or (rules.stamps and s[d + at.STAMP])
    wait = rules.wait if longer else rules.short_wait
    return settled or s[d + at.AGE] >= wait - rules.skew


def _permitted(
    s: State, w: int, r: int, call: int, text: str, *, current: bool = False
) -> Step:
    """Give a deregistrar a permission that begins now."""
    n = bytearray(s)
    b = at.deregistrar(w)
    n[b : b + 5] = bytes((at.PERMITTED, r, current, 0, call))
    return Step((text, w, r), n)


def _send(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Send the call, or do not."""
    b = at.deregistrar(w)
    r = s[b + at.WHICH]
    n = bytearray(s)
    may_send = world.may_send(s, rules, b)
    if may_send:
        n[b + at.STAGE] = at.SENT
        if s[b + at.CARRIES] & at.LIVES_LONGER:
            n[b + at.CARRIES] &= ~at.LIVES_LONGER
            if s[at.LOCK] == r + 1:
                n[at.record(r) + at.STAMP] |= at.LONGER_END
        if not rules.frees_ended and s[b + at.CARRIES] == at.FINAL:
            _let_go(n, rules, w, r)
        out.append(Step((f"{{b}} sends {_CALLS[n[b + at.CARRIES]]}", w, r), n))
        n = bytearray(s)
    world.rest(n, b)
    _give_up(n, rules, w, r)
    text = "{b} does not call for {r} now, or is refused"
    out.append(Step((text, w, r), n, trouble=may_send))


def _give_up(n: Draft, rules: Rules, w: int, r: int) -> None:
    """Let nothing but a change of the record bring it back, in a weaker protocol."""
    if not rules.end_comes_again:
        n[at.ending(w, r)] |= at.ENDING_GIVEN_UP


_CALLS = {
    at.EARLY: "deregister({r})",
    at.FINAL: "deregister({r})",
    at.DRAIN: "drain({r})",
}


def _in_flight(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Let the call be executed, or stay without a definite answer."""
    b = at.deregistrar(w)
    r = s[b + at.WHICH]
    n = bytearray(s)
    n[b + at.STAGE] = at.EFFECTIVE
    n[b + at.SINCE] = 0
    call = _CALLS[s[b + at.CARRIES]]
    if s[b + at.CARRIES] == at.DRAIN:
        world.drain(n, rules, r)
    else:
        world.take_out(n, rules, r)
    world.end_running(n, rules, r, at.LATE_DEREGISTER, at.LATE_DRAIN)
    out.append(Step((f"the load balancer executes {{b}}'s {call}", w, r), n))
    if rules.running:
        n = bytearray(s)
        drain = s[b + at.CARRIES] == at.DRAIN
        world.leave_running(n, b, at.LATE_DRAIN if drain else at.LATE_DEREGISTER)
        text = f"{{b}}'s {call} is answered by Running"
        out.append(Step((text, w, r), n, trouble=True))
    if rules.silences:
        n = bytearray(s)
        _lose(n, rules, w)
        _give_up(n, rules, w, r)
        text = f"{{b}}'s {call} is without a definite answer, and still out"
        out.append(Step((text, w, r), n, fault=True))


def _answer(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Let the answer arrive: only a deregister that counts lets the record go."""
    b = at.deregistrar(w)
    r = s[b + at.WHICH]
    n = bytearray(s)
    call = s[b + at.CARRIES]
    counts = call == at.FINAL or (call == at.EARLY and not rules.releases_on_final)
    if counts:
        n[b + at.STAGE] = at.ANSWERED
        n[at.record(r) + at.ENDED] = 1
    else:
        world.rest(n, b)
    out.append(Step((f"{{b}} is told of its {_CALLS[call]}", w, r), n))


def _release(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Take the finalizer off, from the version that was read."""
    b = at.deregistrar(w)
    r = s[b + at.WHICH]
    deleting = s[at.record(r) + at.PHASE] == at.DELETING
    n = bytearray(s)
    world.rest(n, b)
    if deleting and (s[b + at.CURRENT] or not rules.releases_by_cas):
        _let_go(n, rules, w, r)
        broken = world.end(n, r)
        text = "{b} takes the finalizer off: {r} is gone"
        out.append(Step((text, w, r), n, broken))
    elif _hits_namesake(s, rules, r):
        d = at.record(1)
        world.touch(n, 1)
        n[d + at.UNHELD] = 1
        broken = world.end(n, 1) if n[d + at.PHASE] == at.DELETING else ""
        out.append(
            Step(("{b} takes the finalizer off {r}'s namesake", w, r), n, broken)
        )
    else:
        if not rules.frees_own and s[at.LOCK] == r + 1:
            n[at.ending(w, r)] |= at.ANSWERED_ALL
        out.append(Step(("{b} cannot let {r} go: it has changed", w, r), n))
        if deleting and s[b + at.CARRIES] == at.FINAL:
            n = bytearray(s)
            n[b + at.CURRENT] = 1
            out.append(Step(("{b} reads {r} again: deleting", w, r), n))


def _let_go(n: Draft, rules: Rules, w: int, r: int) -> None:
    """Remember of the lock's holder that all calls for its end were answered, if so."""
    if not rules.frees or n[at.LOCK] != r + 1:
        return
    uncalled = not n[at.record(r) + at.ADDRESS]
    alone = _is_named(n, rules, w, r)
    if uncalled:
        n[at.ending(w, r)] &= ~at.TICKS_OUT
    if uncalled or (alone and not n[at.ending(w, r)] & at.UNANSWERED):
        n[at.ending(w, r)] |= at.ANSWERED_ALL


def _hits_namesake(s: State, rules: Rules, r: int) -> bool:
    """Tell whether a release by name alone hits another record of that name."""
    if rules.releases_by_cas or not rules.namesake or r != 0:
        return False
    second = s[at.record(1) + at.PHASE]
    first = s[at.record(0) + at.PHASE]
    return first == at.GONE and second in (at.LIVE, at.DELETING)


STAGES = {
    at.PERMITTED: _send,
    at.SENT: _in_flight,
    at.EFFECTIVE: _answer,
    at.ANSWERED: _release,
}
