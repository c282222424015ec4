"""Asks the model whether a real run is one of its own.

A trace (`facts` says what it looks like) goes in, the first step that the model does not
allow comes out. What decides are the functions of `decisions`, which the search has
proven. `python -m tests.lab.model.follow FILE...` reads traces from files.

How long a call may take effect goes by its driver as its sender knew it; how long it is
waited for, by that, by what the record, the lock on its address and announcements say.
Drains are held to their clock by `drained`. Without a deregistration a record goes only if it
never had an address, or a person has said why.

Not looked at: how long a call may queue for its driver (no step shows it), parts of a second
in the times of deletions that are not in the trace, what the times that a driver declares add
up to, and when a record that is marked `*` is ensured once more.
"""

from __future__ import annotations

import json
import sys

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.lab.model import decisions, drained
from tests.lab.model.facts import Event, Facts, event_of
from tests.lab.model.witness import (
    MARGIN,
    NEVER,
    Memory,
    Refusal,
    Takeover,
    Witness,
    basis,
)


_PERMITS_FOR = 2.0
"""Seconds from a permission to the call, at most: the life of a call counts from the former."""


# --- the controller's writes, reads ---------------------------------------------------


def _create(f: Witness, e: Event, memory: Memory) -> str:
    """A create is the claim, and with members named after records the permission."""
    if e.now is None:
        return ""
    if not e.now.held:
        return "the finalizer is not in the create"
    if e.now.address and e.now.driver not in f.keyed:
        return "the address is in the create, and no lock on it is held"
    # Nobody before it had a call out, although its deletion may be known by now.
    memory.inherited = memory.inherited_at = NEVER
    memory.doubted = False
    memory.claims.add(e.now.generation)
    return ""


def _update(f: Witness, e: Event, memory: Memory) -> str:
    """A change of a spec may be a claim."""
    before = f.versions.get((e.record, e.of or 0))
    if e.now is None:
        return ""
    if before is None:
        return f"from version {e.of}, which nobody has seen"
    now = f.mark(e.actor, before.ensuring)
    settled = decisions.is_settled(before.registered, now, before.always)
    claimed = before.generation in memory.claims
    claims = decisions.claims_update(settled, claimed, now, before.always)
    if claims:
        memory.claims.add(e.now.generation)
    return ""


def _delete(f: Witness, e: Event, _memory: Memory) -> str:
    """A deletion may begin at any time.

    A repeated DELETE changes nothing. The first one is not in the trace if its sender was
    killed before the answer; the record says when it came, in whole seconds.
    """
    since = e.began
    if e.now is not None and e.now.deleted + 1 <= since:
        since = e.now.deleted
    f.deleted.setdefault(e.record, since)
    return ""


def _read(_f: Witness, _e: Event, _memory: Memory) -> str:
    """A read may be made at any time."""
    return ""


# --- writes of the status -------------------------------------------------------------


def _write(f: Witness, e: Event, memory: Memory) -> str:
    """A write of a record changes only what its actor may say."""
    before, after = basis(f, e, memory), e.now
    if e.outcome == "unknown" and e.clears:
        # It may be made later, and clear the mark of the next ensure (w32).
        memory.unheard = True
        memory.claims.clear()
    if after is None:
        return ""
    if isinstance(before, str):
        return before
    if before.deleting:
        if after.ensuring != before.ensuring:
            return _signed_off(f, e, memory, before)
        return _end_written(memory, before, after)
    if after.settling < before.settling:
        return "an ensure that is out may take effect for longer"
    return _status_written(f, e, memory, before)


def _signed_off(f: Witness, e: Event, memory: Memory, before: Facts) -> str:
    """Whoever has marked a record that ends says that none of its ensures is out."""
    mark = f.mark(e.actor, before.ensuring)
    claims = before.generation - 1 in memory.claims and not before.registered
    until = max(memory.ensured_until(before.settling), memory.running_until)
    if e.now is None or f.mark(e.actor, e.now.ensuring) != decisions.SIGNED_OFF:
        return "of a record that ends, the mark can only be signed off"
    if decisions.may_sign_off(1, mark, claims, e.began < until, before.always):
        return ""
    return f"an ensure may be out (mark {before.ensuring!r})"


def _status_written(f: Witness, e: Event, memory: Memory, before: Facts) -> str:
    """A registrar writes addresses, successes and marks."""
    after = e.now
    if after is None:
        return ""
    end = (after.deregistrar, after.lock_settling)
    if before.address and end != (before.deregistrar, before.lock_settling):
        return "who may end a record, and by which lock, is written with its address"
    if before.address != after.address:
        return _address_written(f, e, memory, before)
    signs_off = bool(before.ensuring) and not after.ensuring
    if after.registered and (signs_off or not before.registered):
        return _registered_written(f, e, memory, before)
    want = f.wanted(e, memory, before)
    # To say that anybody's call may be out is always allowed: it only costs waiting.
    allowed = (want, decisions.ANYBODY)
    if (
        after.ensuring != before.ensuring
        and f.mark(e.actor, after.ensuring) not in allowed
    ):
        return (
            f"the mark {after.ensuring!r} is not its to write over {before.ensuring!r}"
        )
    return ""


def _end_written(memory: Memory, before: Facts, after: Facts) -> str:
    """A deregistrar leaves what the registrar wrote as it is, and begins a drain once."""
    same = _registrars_part(after) == _registrars_part(before)
    if not same or after.deregistrar not in (before.deregistrar, "*"):
        return "what its registrar wrote is no deregistrar's to change"
    return drained.refused_write(memory.drain, before, after)


def _registrars_part(facts: Facts) -> tuple[object, ...]:
    """Return what no deregistrar changes."""
    registered = (facts.address, facts.ensuring, facts.registered)
    return (*registered, facts.settling, facts.lock_settling)


def _address_written(f: Witness, e: Event, memory: Memory, before: Facts) -> str:
    """The address is written once, with the mark, under the lock."""
    if e.now is None or before.address:
        return "the address has been written before"
    if before.driver not in f.keyed and not memory.has_lock:
        return "the lock on the address is not held"
    if e.now.lock_settling > memory.said:
        return f"the lock says {memory.said} s, not {e.now.lock_settling} s"
    is_marked = f.mark(e.actor, e.now.ensuring) == 1
    return "" if is_marked else "the address is written without the mark"


def _registered_written(f: Witness, e: Event, memory: Memory, before: Facts) -> str:
    """Registered is written after a success, and the mark left as it must be."""
    after = e.now
    if after is None:
        return ""
    if memory.ensured != before.version:
        return f"no ensure has succeeded under version {before.version}"
    want = f.wanted(e, memory, before)
    left = decisions.mark_left(1, want, before.always, memory.doubts)
    mark = f.mark(e.actor, after.ensuring)
    # Its own may stay for longer: who was suspended counts a call from when it was heard
    # of, and one that was sent without a mark until another has succeeded under one.
    may_stay = memory.doubted and left == decisions.NOBODY and not before.always
    if mark != left and not (may_stay and mark == 1):
        return f"the mark {after.ensuring!r} is left behind, from {before.ensuring!r}"
    memory.doubted = memory.doubted and mark != decisions.NOBODY
    return ""


# --- the lock -------------------------------------------------------------------------


def _lock(f: Witness, e: Event, memory: Memory) -> str:
    """A lock is taken that is free, or whose holder has been gone for long enough."""
    if e.outcome != "taken":
        return ""
    held = f.locks.setdefault(e.lock, e)
    # Taking one is several requests: who waits for the last one's answer may have lost it.
    is_lost = e.began < held.began
    last, before = (held, e) if is_lost else (e, held)
    if last.record != before.record:
        f.takeovers.append(Takeover(last, before))
    f.locks[e.lock] = last
    memory.has_lock, memory.said = True, e.settling
    return ""


def _cover(f: Witness, e: Event, memory: Memory) -> str:
    """How long calls for an end may take effect is announced while the record exists."""
    if e.outcome == "covered":
        memory.covered = max(memory.covered, e.settling)
        f.covered[e.record] = max(f.covered.get(e.record, 0.0), e.settling)
    return ""


# --- calls ----------------------------------------------------------------------------


def _call(f: Witness, e: Event, memory: Memory) -> str:
    """A call goes out on what was observed last, if that permits it."""
    if e.outcome in ("superseded", "gone"):
        return ""  # what permitted it was too old, and nothing was sent
    seen = basis(f, e, memory)
    if isinstance(seen, str):
        return seen
    if e.op == "generate":
        return "" if not seen.address else "the address is known"
    if not seen.address:
        return "the record has no address"
    return (
        _ensure(f, e, memory, seen)
        if e.op == "ensure"
        else _take_out(f, e, memory, seen)
    )


def _ensure(f: Witness, e: Event, memory: Memory, seen: Facts) -> str:
    """An ensure goes out for a live record whose mark a deregistrar understands."""
    if seen.deleting:
        return "the record is being deleted"
    if seen.registered and not seen.always and not seen.ensuring:
        return "the record is settled; that an ensure goes out is nowhere written"
    now, want = f.mark(e.actor, seen.ensuring), f.wanted(e, memory, seen)
    claims = seen.generation in memory.claims
    if not decisions.is_covered(now, want, claims, seen.always):
        return f"the mark {seen.ensuring!r} does not tell of this call"
    settling = e.driver.settling["ensure"]
    if settling > seen.settling:
        return f"it may take effect for {settling} s, the record says {seen.settling} s"
    if e.outcome in ("unanswered", "unknown"):
        memory.doubted = True
        until = e.began + settling - _PERMITS_FOR
        memory.out_until = max(
            memory.out_until, until if e.outcome == "unanswered" else float("inf")
        )
    elif e.outcome == "running":
        memory.running_until = e.began + settling
    elif e.outcome == "succeeded":
        _doubts_end(e, memory, seen)
    memory.ensured = seen.version if e.outcome == "succeeded" else None
    return ""


def _doubts_end(e: Event, memory: Memory, seen: Facts) -> None:
    """An ensure that was sent when all earlier ones were over has succeeded."""
    memory.running_until = NEVER
    if memory.ensured_until(seen.settling) <= e.began:
        memory.out_until = memory.inherited_at = NEVER


def _take_out(f: Witness, e: Event, memory: Memory, seen: Facts) -> str:
    """A drain or deregister goes out for a record that ends, each in its time."""
    if not (seen.deleting and seen.held):
        return "the record is not being deleted, or not ours to end"
    if seen.abandoned:
        return "a person has let it go without its driver"
    why = "" if seen.driver in f.keyed else _of_a_next_owner(f, e, memory, seen)
    if why:
        return why
    settling = e.driver.settling[e.op]
    if e.outcome == "unanswered":
        memory.unanswered = max(memory.unanswered, e.began - MARGIN + settling)
    elif e.outcome == "unknown":
        memory.unknown = max(memory.unknown, settling)
    drain = memory.drain
    if e.op == "drain":
        memory.drain = drained.answered(drain, seen, e)
        return drained.refused_call(drain, seen, e)
    return drained.refused_end(drain, seen, e) or _deregister(f, e, memory, seen)


def _deregister(f: Witness, e: Event, memory: Memory, seen: Facts) -> str:
    """A deregister counts once no ensure can take effect any more."""
    settled = decisions.is_settled(
        seen.registered, f.mark(e.actor, seen.ensuring), seen.always
    )
    # Ensures that are out went by the driver as it was then, which the record says.
    settling = max(e.driver.settling["ensure"], seen.settling)
    waited = e.began >= f.deleted.get(e.record, seen.deleted) + settling
    if e.final and not (settled or waited):
        return f"it cannot count yet: an ensure may be out (mark {seen.ensuring!r})"
    memory.final = memory.final or (e.final and e.outcome == "succeeded")
    return ""


def _of_a_next_owner(f: Witness, e: Event, memory: Memory, seen: Facts) -> str:
    """Whoever has the address next knows by whom, and for how long, calls may be out."""
    if seen.deregistrar not in ("", "*", f.name_of(e.actor)):
        return f"deregistrar {seen.deregistrar!r} is not told that it is not alone"
    settling, told = e.driver.settling[e.op], max(seen.lock_settling, memory.covered)
    if settling > told:
        return f"it may take effect for {settling} s, the next owner knows of {told} s"
    return ""


def _release(f: Witness, e: Event, memory: Memory) -> str:
    """The finalizer goes with a proof that is this incarnation's own."""
    seen = basis(f, e, memory)
    if e.outcome == "conflicted":
        return ""
    if isinstance(seen, str):
        return seen
    if not seen.deleting:
        return "the record is not being deleted"
    if e.proof == "abandoned" and not seen.abandoned:
        return "nobody has said why it is to go without its driver"
    if e.proof == "never" and seen.address:
        return f"address {seen.address} is written: something may be registered"
    if e.proof == "deregistered" and not memory.final:
        return "no deregister of this incarnation has succeeded that counts"
    alone = seen.deregistrar == f.name_of(e.actor)
    if e.outcome == "released" and (alone or e.proof == "never"):
        until = float("inf") if memory.unknown else memory.unanswered
        none, known = (NEVER, NEVER), (until, memory.inherited)
        f.clean[e.record] = none if e.proof == "never" else known
    return ""


TAKING: dict[str, Callable[[Witness, Event, Memory], str]] = {
    "create": _create,
    "update": _update,
    "delete": _delete,
    "read": _read,
    "write": _write,
    "lock": _lock,
    "cover": _cover,
    "call": _call,
    "release": _release,
}


def judge(witness: Witness, e: Event) -> str:
    """Take in a step; answers why it is none of the model's, empty if it is one."""
    if e.step == "crash":
        witness.ended.add(e.actor)
        return ""
    if e.actor in witness.ended:
        return "this incarnation has ended"
    if e.step == "inherit":
        return witness.inherit(e)
    memory = witness.memory_of(e.actor, e.record)
    why = witness.learn_version(e) or TAKING[e.step](witness, e, memory)
    if not why:
        witness.observe(e, memory)
    return why


def follow(trace: Mapping[str, Any]) -> Refusal | None:
    """Find the first step of a trace that the model does not allow.

    Raises:
        KeyError: the trace lacks what every trace has.
    """
    witness = Witness(frozenset(trace["keyed"]))
    for number, given in enumerate(trace["steps"]):
        event = event_of(number, given)
        why = judge(witness, event)
        if why:
            return Refusal(event, why)
    return witness.lost_update() or witness.early_takeover()


def main(paths: list[str]) -> int:
    """Follow the traces in files; answers the exit code."""
    wrong = 0
    for path in paths:
        refusal = follow(json.loads(Path(path).read_text(encoding="utf-8")))
        print(f"{path}: {refusal or 'allowed'}")
        wrong += refusal is not None
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
