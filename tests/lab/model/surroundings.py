"""What happens around the workers: users, late calls, resets, and time."""

from __future__ import annotations

from tests.lab.model import layout as at
from tests.lab.model import permits, world
from tests.lab.model.rules import Rules
from tests.lab.model.world import Draft, State, Step, Steps


def steps(s: State, rules: Rules, out: Steps) -> None:
    """Add what may happen."""
    for r in range(rules.records):
        _come_and_go(s, rules, r, out)
        for kind in range(at.ORPHAN):
            if s[at.orphan(r, kind)]:
                _late(s, rules, r, kind, out)
    for w in range(rules.registrars if rules.unheard else 0):
        _written_late(s, rules, w, out)
    if rules.resets and s[at.RESETS] < rules.most_resets:
        _reset(s, rules, out)
    if rules.gates:
        _end_pod(s, rules, out)
    _tick(s, rules, out)


def _come_and_go(s: State, rules: Rules, r: int, out: Steps) -> None:
    """Create a record without an address, delete one, or say that its backend is gone."""
    d = at.record(r)
    if s[d + at.PHASE] == at.LIVE and rules.deregistrars:
        n = bytearray(s)
        n[d + at.PHASE] = at.DELETING
        n[d + at.AGE] = 0
        world.touch(n, r)
        broken = world.end(n, r) if s[d + at.UNHELD] else ""
        # The controller deletes the records of a pod that it sees being deleted.
        chance = s[at.POD] == at.RUNS or not rules.removes
        out.append(Step(("{r} is deleted", 0, r), n, broken, fault=chance))
    elif s[d + at.PHASE] == at.DELETING and rules.told_gone:
        n = bytearray(s)
        world.touch(n, r)
        if n != s:
            text = "{r} is marked: its backend is gone"
            out.append(Step((text, 0, r), n, fault=rules.marks_once))
    elif not rules.keyed and permits.may_come(s, rules, r):
        n = bytearray(s)
        n[d + at.PHASE] = at.LIVE
        n[d + at.ALWAYS] = rules.always
        out.append(Step(("{r} is created", 0, r), n, fault=r > 0))


def _late(s: State, rules: Rules, r: int, kind: int, out: Steps) -> None:
    """Let a call take effect whose caller has gone, and let it be over."""
    n = bytearray(s)
    broken = ""
    call = kind % at.RUNNING
    if call == at.LATE_DEREGISTER:
        world.take_out(n, rules, r)
    elif call == at.LATE_DRAIN:
        world.drain(n, rules, r)
    else:
        broken = world.ensure(n, rules, r, call)
    late, ended = ("LATE", "late") if kind < at.RUNNING else ("RUNNING", "running")
    text = f"the load balancer executes a {late} {_KINDS[call]}"
    out.append(Step((text, 0, r), n, broken, fault=True))
    n = bytearray(s)
    n[at.orphan(r, kind)] = 0
    out.append(Step((f"the {ended} {_KINDS[call]} is over", 0, r), n))


def _written_late(s: State, rules: Rules, w: int, out: Steps) -> None:
    """Let the API server make a write of which its writer heard nothing."""
    kept = s[at.registrar(w) + at.UNHEARD]
    if kept:
        n = bytearray(s)
        world.register(n, rules, 0, kept - 1)
        text = "the API server writes {r} Registered LATE, for {a}"
        out.append(Step((text, w, 0), n, fault=True))


_KINDS = ("ensure({r})", "ensure({r}) of the new spec", "deregister({r})", "drain({r})")


def _reset(s: State, rules: Rules, out: Steps) -> None:
    """Let the load balancer lose its members."""
    n = bytearray(s)
    for r in range(rules.records):
        m = world.member(rules, r)
        if s[m + at.IS_IN] and s[at.record(r) + at.PHASE] == at.LIVE:
            n[at.record(r) + at.LOST] = 1
    for m in range(at.MEMBERS, at.RECORDS):
        n[m] = 0
    n[at.RESETS] += 1
    n[at.EPOCH] = 1
    out.append(Step(("the load balancer loses all members", 0, 0), n, fault=True))


def _end_pod(s: State, rules: Rules, out: Steps) -> None:
    """Delete the pod, or let its preStop end once no record names it."""
    n = bytearray(s)
    if s[at.POD] == at.RUNS:
        n[at.POD] = at.DELETED
        out.append(
            Step(("the pod is deleted, and its preStop waits", 0, 0), n, fault=True)
        )
    elif s[at.POD] == at.DELETED:
        phases = (s[at.record(r) + at.PHASE] for r in range(rules.records))
        if not rules.lists or not any(p in (at.LIVE, at.DELETING) for p in phases):
            n[at.POD] = at.TOLD
            text = "no record names the pod in a quorum LIST: it is told to end"
            if not rules.lists:
                text = "no record names the pod in an older view: it is told to end"
            out.append(Step((text, 0, 0), n))


TIME = "time passes"


# --- time ---------------------------------------------------------------------------


def _tick(s: State, rules: Rules, out: Steps) -> None:
    """Let time pass, unless a call would outlive its bound."""
    n = bytearray(s)
    if not (_workers_age(n, rules) and _orphans_age(n, rules)):
        return
    for r in range(rules.records):
        d = at.record(r)
        if n[d + at.PHASE] == at.DELETING and n[d + at.AGE] < rules.wait:
            n[d + at.AGE] += 1
        clocks = rules.updates or rules.doubts_end
        known = (at.LIVE, at.DELETING) if rules.signs_off else (at.LIVE,)
        if clocks and n[d + at.PHASE] in known:
            _clocks(n, rules, r)
    _lock_ages(n, rules)
    if rules.frees_in_time:
        _calls_end(n, rules)
    if n != s:
        out.append(Step((TIME, 0, 0), n, trouble=_is_pause(s, rules)))


def _is_pause(s: State, rules: Rules) -> bool:
    """Tell whether a permission that could be used now is too old a tick later."""
    if not (rules.not_after or rules.edits):
        return False
    oldest = 0 if rules.not_after else rules.short_life
    workers = (at.registrar(0), at.deregistrar(0))
    return any(
        s[x + at.STAGE] == at.PERMITTED and s[x + at.SINCE] == oldest for x in workers
    )


def _workers_age(n: Draft, rules: Rules) -> bool:
    """Let permissions and calls grow older; False where one of them may not."""
    workers = [at.registrar(w) for w in range(rules.registrars)]
    workers += [at.deregistrar(w) for w in range(rules.deregistrars)]
    for x in workers:
        stage = n[x + at.STAGE]
        if stage in (at.PERMITTED, at.SENT) and not _worker_ages(n, rules, x, stage):
            return False
    for w in range(rules.registrars):
        a = at.registrar(w)
        if n[a + at.KEPT]:
            n[a + at.KEPT_AGE] += 1
            if n[a + at.KEPT_AGE] > rules.life:
                n[a + at.KEPT] = n[a + at.KEPT_AGE] = 0
    return True


def _worker_ages(n: Draft, rules: Rules, x: int, stage: int) -> bool:
    """Let one permission grow older."""
    life = world.life_of(n, rules, x)
    bounded = rules.bounded_late
    if not rules.bounded_pause:
        bounded = bounded and stage == at.SENT and rules.not_after
    if bounded and n[x + at.SINCE] >= life:
        return False
    if rules.bounded_late and n[x + at.SINCE] < life:
        n[x + at.SINCE] += 1
    return True


def _orphans_age(n: Draft, rules: Rules) -> bool:
    """Let calls without a caller grow older; False where one of them may not."""
    if not rules.bounded_late:
        return True
    for r in range(rules.records):
        for kind in range(at.ORPHAN):
            o = at.orphan(r, kind)
            if not n[o]:
                continue
            drain = kind % at.RUNNING == at.LATE_DRAIN
            life = rules.drain_life if drain else rules.life
            if n[o] > life:
                return False
            n[o] += 1
    return True


def _clocks(n: Draft, rules: Rules, r: int) -> None:
    """Let registrars know a record for longer."""
    for w in range(rules.registrars):
        m = at.memory(w, r)
        if n[m + at.CLOCK] < rules.wait:
            n[m + at.CLOCK] += 1


def _lock_ages(n: Draft, rules: Rules) -> None:
    """Let the lock's holder be gone for longer."""
    holder = n[at.LOCK]
    if holder and n[at.record(holder - 1) + at.PHASE] == at.GONE:
        n[at.LOCK_AGE] = min(n[at.LOCK_AGE] + 1, rules.takeover)


def _calls_end(n: Draft, rules: Rules) -> None:
    """Let deregistrars know for longer that a call of theirs had no answer."""
    for w in range(rules.deregistrars):
        for r in range(rules.records):
            if n[at.ending(w, r)] & at.TICKS_OUT:
                n[at.ending(w, r)] -= at.TICK_OUT
