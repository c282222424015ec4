"""Asks the model whether a tape of what really happened is one of its own.

A tape does not show everything (`tape` says what is left open). Whatever is left open is
tried, the likely first, record by record; the first step that no such world allows is
refused. What decides is `tests.lab.model.follow.judge`, as for the traces of the sweep.
`sendings` says what a call may have been, and holds it to its permission; a driver has no
more calls of one process at a time than it has places.

Of a call that its sender had given up the driver may hear after the sender's next step;
of a drain's first call there may be nothing to be seen but that its clock is written.
"""

import copy
import json
import math

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from operator import itemgetter
from typing import Any

import attrs

from tests.lab.model import follow
from tests.lab.model.facts import Event, Facts, event_of, facts_of
from tests.lab.model.witness import Memory, Refusal, Takeover, Witness
from tests.lab.traced.sendings import (
    EDGE,
    Sending,
    Sights,
    Step,
    by_watch,
    plain,
    sent_at,
)


WORLDS = 20_000
"""More of them are not looked at: the tape is refused for that."""
BESIDE = "beside"
"""Who does what is done beside the turns: nothing follows from it."""
_PROOFS = ("deregistered", "never", "abandoned")


@attrs.frozen
class Verdict:
    """What a tape was found to be.

    Attributes:
        steps: that were judged.
        records: whose lives they were of.
        worlds: that were looked at.
        refusal: the first step, by time, that no world allows; None: all are allowed.
        lines: that step, and those of the tape before it about the same record.
    """

    steps: int
    records: int
    worlds: int
    refusal: Refusal | None = None
    lines: Sequence[Step] = ()


def judge(tape: Mapping[str, Any]) -> Verdict:
    """Find the first step of a tape that the model does not allow."""
    steps = list(enumerate(tape["steps"]))
    lives = {uid: _Life(tape, own) for uid, own in _by_record(steps).items()}
    allowed = {uid for uid, life in lives.items() if next(life.worlds(), None)}
    refusals = [life.refusal for uid, life in lives.items() if uid not in allowed]
    refusals = refusals or [*_takeovers(steps, lives), *_crowds(tape, lives)]
    tried = sum(life.tried for life in lives.values())
    if not refusals:
        return Verdict(len(steps), len(lives), tried)
    first = min(refusals, key=lambda refusal: refusal.event.number)
    about = first.event.record
    shown = [
        s for n, s in steps if s.get("record") == about and n <= first.event.number
    ]
    return Verdict(len(steps), len(lives), tried, first, shown)


def _by_record(
    steps: Sequence[tuple[int, Step]],
) -> Mapping[str, Sequence[tuple[int, Step]]]:
    """Sort steps out by record, each with those that are about none."""
    found: dict[str, list[tuple[int, Step]]] = {}
    everybody = [one for one in steps if "record" not in one[1]]
    for one in steps:
        if "record" in one[1]:
            found.setdefault(one[1]["record"], []).append(one)
    first = itemgetter(0)
    return {uid: sorted([*everybody, *own], key=first) for uid, own in found.items()}


class _Life:
    """All that a tape tells of one record, taken through the worlds that allow it.

    Attributes:
        tried: worlds that were looked at.
        refusal: the last step that any world has come to, and why it was refused there.
    """

    def __init__(
        self, tape: Mapping[str, Any], own: Sequence[tuple[int, Step]]
    ) -> None:
        self.tried = 0
        self._keyed = frozenset(tape["keyed"])
        self._drivers: Mapping[str, Any] = tape["drivers"]
        shown = [step["now"] for _, step in own if "now" in step]
        self._versions = {version["version"]: version for version in shown}
        name = shown[0]["driver"] if shown else next(iter(self._drivers))
        self.driver: Mapping[str, Any] = self._drivers[name]
        self._steps = self._in_turn(own)
        self._sights = _sights(step for _, step in self._steps)
        self.refusal = Refusal(_event(*self._steps[0]), "it was not looked at")
        self._furthest = -1

    def _in_turn(self, own: Sequence[tuple[int, Step]]) -> list[tuple[int, Step]]:
        """Sort steps by who made them: a call that was given up may arrive later.

        It was sent after its permission had been shown, and after the call before it.
        """
        turns: dict[int, float] = {}
        for number, step in own:
            turns[number] = step["began"]
            if step["step"] == "call" and not step["heard"]:
                permitted = step["not_after"] - self.driver["window"][step["op"]]
                before = [
                    (n, s) for n, s in own if n < number and s["actor"] == step["actor"]
                ]
                calls = [turns[n] for n, s in before if s["step"] == "call"]
                shown = [s["began"] for _, s in before if "now" in s]
                sights = [at for at in shown if at >= permitted]
                sent = max([sent_at(step, self.driver), *calls[-1:], *sights[:1]])
                sent += EDGE
                turns[number] = min(sent, step["began"])
        return sorted(own, key=lambda one: turns[one[0]])

    def worlds(self) -> Iterator[Witness]:
        """Give the worlds that allow all of it, each as soon as it is found."""
        known: set[tuple[int, str]] = set()
        branches: list[Iterator[Witness]] = [iter([Witness(self._keyed)])]
        while branches and self.tried < WORLDS:
            world, place = next(branches[-1], None), len(branches) - 1
            if world is None:
                branches.pop()
                continue
            self.tried += 1
            if place < len(self._steps):
                if (place, repr(world)) not in known:
                    known.add((place, repr(world)))
                    branches.append(self._tried(world, place))
            elif (lost := world.lost_update()) is None:
                yield world
            else:
                self._refuse(place, lost.event, lost.why)
        if branches:
            many = f"no world allows it among the first {WORLDS}"
            self._refuse(len(self._steps) + 1, self.refusal.event, many)

    def _refuse(self, place: int, event: Event, why: str) -> None:
        """Note why a step is refused; the last one that was come to counts."""
        if place > self._furthest:
            self._furthest, self.refusal = place, Refusal(event, why)

    def _first(
        self, world: Witness, place: int, options: Sequence[Step]
    ) -> Iterator[Witness]:
        """Give the world after the first of several possibilities that it allows."""
        for option in options:
            event = event_of(self._steps[place][0], option)
            after = _copied(world)
            wrong = self._wrong(world, place, option) or follow.judge(after, event)
            if not wrong:
                after.memories.pop((BESIDE, event.record), None)
                yield after
                return
            self._refuse(place, event, wrong)

    def _wrong(self, world: Witness, place: int, option: Step) -> str:
        """Say what is wrong with a step, whatever its actor heard of it; empty: nothing."""
        if "done" in option:
            event = event_of(self._steps[place][0], option["done"])
            return follow.judge(_copied(world), event)
        return str(option.get("wrong", ""))

    def _tried(self, world: Witness, place: int) -> Iterator[Witness]:
        """Try all that a step may have been; gives the worlds that allow it."""
        step = self._steps[place][1]
        if step["step"] == "call":
            for options in self._calls(world, place, step):
                yield from self._first(world, place, options)
            return
        for option in self._written(step):
            yield from self._first(world, place, [option])
        for drained in self._unseen(world, place, step):
            yield from self._first(drained, place, [self._with_version(step)])
        for cut in self._cut_off(world, place, step):
            for option in self._written(step):
                yield from self._first(cut, place, [option])

    # --- requests ---------------------------------------------------------------------

    def _written(self, step: Step) -> Iterator[Step]:
        """Say what a request may have been."""
        whole, way = self._with_version(step), step.get("beside", "")
        if way != "sure":
            for proof in _PROOFS if step["step"] == "release" else ("",):
                yield {**whole, "proof": proof}
        if way == "sure" or (way and not self._changes(step)):
            yield {**whole, "step": "read", "actor": BESIDE}
        elif step["step"] == "write" and "now" in step:
            # Nobody sees whether its answer was heard.
            clears = not step["now"]["ensuring"]
            unheard = {k: v for k, v in whole.items() if k != "now"}
            yield {**unheard, "outcome": "unknown", "clears": clears, "done": whole}

    def _changes(self, step: Step) -> bool:
        """Tell whether a write changed anything that the protocol looks at."""
        before, after = self._versions.get(step.get("of", 0)), step.get("now")
        if before is None or after is None:
            return False
        return {**before, "version": 0} != {**after, "version": 0}

    def _with_version(self, step: Step) -> Step:
        """Show the whole of the version that a write was made to."""
        before = self._versions.get(step.get("of", 0))
        return step if before is None else {**step, "of": before}

    def _unseen(self, world: Witness, place: int, step: Step) -> Iterator[Witness]:
        """Give the worlds in which a drain began with a call that no driver has seen.

        Its sender gave it up; within which second is what the clock says.
        """
        before, after = self._versions.get(step.get("of", 0)), step.get("now")
        if step["step"] != "write" or before is None or after is None:
            return
        memory = world.memories.get((step["actor"], step["record"]), Memory())
        is_first = before["drain_deadline"] is None and memory.drain is None
        if not is_first or after["drain_deadline"] is None:
            return
        latest = after["drain_deadline"] - after["drain"]
        shown = self._sights[place].written.get(before["version"], -math.inf)
        for at in (latest - 1 + EDGE, latest):
            sent = min(max(at, shown), step["began"])
            call = self._unanswered("drain", step, before, sent)
            yield from self._first(world, place, [call])

    def _cut_off(self, world: Witness, place: int, step: Step) -> Iterator[Witness]:
        """Give the world after a call that its driver was killed too soon to note.

        Its sender writes that the connection ended.
        """
        before = self._versions.get(step.get("of", 0))
        if "lost" not in step or before is None:
            return
        call = self._unanswered(step["lost"], step, before, step["began"])
        yield from self._first(world, place, [call])

    def _unanswered(self, op: str, step: Step, before: Step, at: float) -> Step:
        """Return a call that no driver has noted, by who made a step and before that."""
        return {"actor": step["actor"], "step": "call", "op": op,
                "record": step["record"], "of": before, "outcome": "unanswered",
                "driver": plain(self.driver), "began": at, "ended": at}  # fmt: skip

    # --- calls ------------------------------------------------------------------------

    def _calls(
        self, world: Witness, place: int, step: Step
    ) -> Iterator[Sequence[Step]]:
        """Say what a call may have been."""
        after, seen = self._next(place, step["actor"]), self._sights[place]
        for version in self._bases(world, place, step):
            yield from Sending(world, step, version, self.driver, seen, after).options()

    def _bases(self, world: Witness, place: int, step: Step) -> Sequence[Facts | None]:
        """Return the versions that a call may have gone by; None: there is none."""
        memory = world.memories.get((step["actor"], step["record"]), Memory())
        kept = [facts for at, facts in memory.kept if at <= step["began"]]
        known = [memory.seen, *kept[-1:]]
        if step["op"] in ("drain", "deregister"):
            born = self._sights[place].written
            versions = [facts_of(version) for version in self._versions.values()]
            seen = [f for f in versions if by_watch(world.keyed, f)]
            known += [f for f in seen if born.get(f.version, math.inf) <= step["began"]]
        distinct = {f.version: f for f in known if f is not None}
        return list(distinct.values()) or [None]

    def _next(self, place: int, actor: str) -> float:
        """Return when the next step of an actor's turns about the record was there."""
        later = (step for _, step in self._steps[place + 1 :] if _is_of(step, actor))
        began: float = next((step["began"] for step in later), math.inf)
        return began


def _sights(steps: Iterator[Step]) -> Sequence[Sights]:
    """Return what had been shown before each step."""
    found = [Sights()]
    for step in steps:
        found.append(copy.deepcopy(found[-1]))
        found[-1].note(step)
    return found


def _is_of(step: Step, actor: str) -> bool:
    """Tell whether a step belongs to an actor's turns, for sure."""
    is_turn = step["step"] != "update" and "beside" not in step
    return is_turn and bool(step["actor"] == actor)


def _event(number: int, step: Step) -> Event:
    """Read a step of which something is left open."""
    return event_of(number, {**step, "of": None, "driver": None})


def _copied(world: Witness) -> Witness:
    """Copy a world; what is frozen in it is shared."""
    memories = {
        key: replace(memory, kept=list(memory.kept), claims=set(memory.claims))
        for key, memory in world.memories.items()
    }
    found = {f.name: copy.copy(getattr(world, f.name)) for f in fields(Witness)}
    return Witness(**{**found, "memories": memories})


# --- more than one record -------------------------------------------------------------


def _takeovers(
    steps: Sequence[tuple[int, Step]], lives: Mapping[str, _Life]
) -> Iterator[Refusal]:
    """Find locks that were taken while calls of their last holders might be out."""
    held: dict[str, Event] = {}
    locks = [(number, step) for number, step in steps if step["step"] == "lock"]
    locks.sort(key=lambda lock: lock[1]["version"])
    for number, step in locks:
        taken = event_of(number, step)
        before = held.get(taken.lock, taken)
        held[taken.lock] = taken
        holder = before.record
        if holder == taken.record:
            continue
        worlds = lives[holder].worlds() if holder in lives else [Witness(frozenset())]
        refusals = (_taken(world, Takeover(taken, before)) for world in worlds)
        refused = next(refusals, None)
        if refused is not None and None not in refusals:
            yield refused


def _taken(world: Witness, takeover: Takeover) -> Refusal | None:
    """Judge a takeover in one world of the last holder's."""
    world.takeovers = [takeover]
    return world.early_takeover()


def _crowds(tape: Mapping[str, Any], lives: Mapping[str, _Life]) -> Iterator[Refusal]:
    """Find calls that a process had out beside as many as a driver has places.

    What was given up counts no more: nobody sees since when.
    """
    moments = []
    for number, step in enumerate(tape["steps"]):
        if step["step"] == "call" and step["heard"] and not step["shares"]:
            moments.append((step["began"], 1, number, step))
            moments.append((step["ended"], -1, number, step))
    busy: Counter[tuple[str, str]] = Counter()
    for _, more, number, step in sorted(moments, key=lambda moment: moment[:3]):
        driver = lives[step["record"]].driver
        out = (step["actor"], driver["name"])
        busy[out] += more
        if more > 0 and busy[out] > driver["places"]:
            why = f"it has {driver['places']} places, and all are taken"
            yield Refusal(_event(number, step), why)


def in_short(verdict: Verdict) -> str:
    """Say what came of it in a line."""
    word = "all allowed" if verdict.refusal is None else "one REFUSED"
    return f"{verdict.steps:,} steps of {verdict.records:,} records followed, {word}"


def told(verdict: Verdict) -> str:
    """Say what came of it, with the lines of the tape that matter."""
    if verdict.refusal is None:
        return f"{in_short(verdict)}; {verdict.worlds:,} worlds looked at"
    lines = [json.dumps(line) for line in verdict.lines[-12:]]
    return "\n".join([f"refused: {verdict.refusal}", *lines])
