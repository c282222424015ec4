"""Tapes that tell of one step elsewhere than it was; each has to be refused there.

A corruption changes a tape in place, of a record that was drained to its last session and
deregistered, and returns the number of the step that is refused then.
"""

import copy

from collections.abc import Callable
from typing import Any

from tests.lab.model.tape import Json
from tests.lab.traced.judge import judge


Step = dict[str, Any]
Corruption = Callable[[Json], int]


def steps_of(tape: Json) -> list[Step]:
    """Return the steps of a tape."""
    steps: list[Step] = tape["steps"]  # type: ignore[assignment]
    return steps


def swapped(tape: Json) -> int:
    """Let an ensure and the deregister change places."""
    own = _chosen(tape)
    one, other = _first(own, "ensure"), _last(own, "deregister")
    for what in ("op", "actor", "drained"):
        one[what], other[what] = other[what], one[what]
    return _sorted(tape, one)


def too_late(tape: Json) -> int:
    """Let the deregister, and all after it, come beyond its permission's end and Δ."""
    own = _chosen(tape)
    call = _last(own, "deregister")
    settling = _driver(tape, own)["settling"]["deregister"]
    window = _driver(tape, own)["window"]["deregister"]
    by = call["not_after"] - window + settling + 0.5 - call["began"]
    for step in own[own.index(call) :]:
        _move(step, by)
    return _sorted(tape, call)


def let_go_early(tape: Json) -> int:
    """Take the finalizer off before the deregister is answered."""
    own = _chosen(tape)
    release = _release(own)
    _last(own, "deregister")["ended"] = (release["began"] + release["ended"]) / 2
    return _sorted(tape, release)


def cut_short(tape: Json) -> int:
    """Deregister although sessions are left, and the drain has time."""
    own = _chosen(tape)
    for step in own:
        if step.get("op") == "drain" and step["outcome"] == "succeeded":
            step["outcome"] = "running"
    call = _first(own, "deregister")
    call["drained"] = False
    return _sorted(tape, call)


def renewed_late(tape: Json) -> int:
    """Let a call say that it was sent a second later than it was."""
    call = _first(_chosen(tape), "ensure")
    call["not_after"] += 1.0
    return _sorted(tape, call)


def settled_early(tape: Json) -> int:
    """Let the record say that ensures take effect for a second less than they may."""
    own = _chosen(tape)
    settling = _driver(tape, own)["settling"]["ensure"]
    for step in own:
        if "now" in step:
            step["now"]["settling"] = settling - 1.0
    return _sorted(tape, _first(own, "ensure"))


def unensured(tape: Json) -> int:
    """Take away the ensures, so that Registered is written without one."""
    own = _chosen(tape)
    written = next(s for s in own if "now" in s and s["now"]["registered"])
    for step in own[: own.index(written)]:
        if step.get("op") == "ensure":
            steps_of(tape).remove(step)
    return _sorted(tape, written)


CORRUPTIONS: tuple[tuple[Corruption, str], ...] = (
    (swapped, "without having observed the record"),
    (too_late, "after its permission's end"),
    (let_go_early, "has succeeded that counts"),
    (cut_short, "its drain has"),
    (renewed_late, "after its time-out's end"),
    (settled_early, "it may take effect for"),
    (unensured, "no ensure has succeeded"),
)
"""Of one life, with why each is refused."""


def crowded(tape: Json) -> int:
    """Give the driver one place less than there were calls of one process at a time."""
    calls = [step for step in steps_of(tape) if step["step"] == "call"]
    most = max(calls, key=lambda call: _beside(call, calls))
    driver = _driver(tape, [s for s in steps_of(tape) if _is_about(s, most)])
    driver["places"] = _beside(most, calls) - 1
    return _sorted(tape, most)


def taken_twice(tape: Json) -> int:
    """Let a record take its lock while the one before it still has it."""
    locks = [step for step in steps_of(tape) if step["step"] == "lock"]
    first, second = next(
        (one, other)
        for one in locks
        for other in locks
        if one["lock"] == other["lock"]
        and one["record"] != other["record"]
        and one["version"] < other["version"]
    )
    release = _release([s for s in steps_of(tape) if _is_about(s, first)])
    _move(second, release["began"] - 0.01 - second["ended"])
    return _sorted(tape, second)


def unmarked(tape: Json) -> int:
    """Take away that a person has let a record go."""
    shown = [step for step in steps_of(tape) if "now" in step]
    marked = {step["record"] for step in shown if step["now"]["abandoned"]}
    for step in shown:
        step["now"]["abandoned"] = False
    release = _release([s for s in steps_of(tape) if s.get("record") in marked])
    return _sorted(tape, release)


ALL: tuple[tuple[Corruption, str], ...] = (
    *CORRUPTIONS,
    (crowded, "all are taken"),
    (taken_twice, "ended -"),
    (unmarked, "has succeeded that counts"),
)
"""Of a run in which an address is reused, and a record let go by a person, too."""


def see_refused(tape: Json, corrupted: Corruption, why: str) -> None:
    """Look whether a tape, corrupted in a copy, is refused where it was corrupted."""
    found = _misjudged(tape, corrupted, why)
    assert found is None, found


def misjudged(tape: Json) -> list[str]:
    """Corrupt a tape in each way of one life; tell of what was not refused as it should.

    An item of a batch is good until its permission's end, not until a time-out's.
    """
    whys = dict(CORRUPTIONS)
    if _first(_chosen(tape), "ensure")["batched"]:
        whys[renewed_late] = "after its permission's end"
    found = (_misjudged(tape, corrupted, why) for corrupted, why in whys.items())
    return [text for text in found if text is not None]


def _misjudged(tape: Json, corrupted: Corruption, why: str) -> str | None:
    """Tell how a corrupted copy was judged; None: refused where it was corrupted."""
    changed = copy.deepcopy(tape)
    place = corrupted(changed)
    refusal = judge(changed).refusal
    if refusal is None:
        return f"{corrupted.__name__}: allowed"
    if place != refusal.event.number or why not in str(refusal):
        return f"{corrupted.__name__}: not refused at step {place} because {why}, but {refusal}"
    return None


def _chosen(tape: Json) -> list[Step]:
    """Return the steps of the last record whose life was whole.

    Raises:
        ValueError: there is none, so the tape shows nothing about corruptions.
    """
    lives: dict[str, list[Step]] = {}
    for step in steps_of(tape):
        lives.setdefault(step.get("record", ""), []).append(step)
    whole = [own for own in lives.values() if _is_whole(own)]
    if not whole:
        raise ValueError("no record was ensured, drained, deregistered once and let go")
    return whole[-1]


def _is_whole(own: list[Step]) -> bool:
    """Tell whether a record was ensured, drained, deregistered once and let go."""
    ops = [step.get("op") for step in own]
    done = {s["op"] for s in own if s.get("outcome") == "succeeded"}
    once = ops.count("deregister") == 1
    gone = "released" in {step.get("outcome") for step in own}
    return once and {"ensure", "drain", "deregister"} <= done and gone


def _is_about(step: Step, other: Step) -> bool:
    """Tell whether two steps are about one record."""
    return bool(step.get("record") == other["record"])


def _beside(call: Step, calls: list[Step]) -> int:
    """Count the calls that its sender had out when this one came, itself with them."""
    out = (other for other in calls if other["heard"] and call["heard"])
    began, actor = call["began"], call["actor"]
    return sum(
        other["actor"] == actor and other["began"] <= began < other["ended"]
        for other in out
    )


def _first(own: list[Step], op: str) -> Step:
    return next(step for step in own if step.get("op") == op)


def _last(own: list[Step], op: str) -> Step:
    return _first(own[::-1], op)


def _release(own: list[Step]) -> Step:
    """Return the release that took the finalizer off: one before it may have conflicted."""
    return next(step for step in own if step.get("outcome") == "released")


def _driver(tape: Json, own: list[Step]) -> dict[str, Any]:
    """Return the driver of a record."""
    shown = next(step["now"] for step in own if "now" in step)
    drivers: dict[str, Any] = tape["drivers"]  # type: ignore[assignment]
    found: dict[str, Any] = drivers[shown["driver"]]
    return found


def _move(step: Step, by: float) -> None:
    """Let a step come later, or earlier."""
    for what in ("began", "ended"):
        if step[what] is not None:
            step[what] += by


def _sorted(tape: Json, step: Step) -> int:
    """Put the steps in their order; returns where one is."""
    steps = steps_of(tape)
    steps.sort(key=lambda one: float(one["began"]))
    return next(number for number, one in enumerate(steps) if one is step)
