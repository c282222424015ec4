"""What a call that reached a driver may have been to who sent it.

By which version it went, when it was sent, whether its answer was heard and when: a tape
shows none of that. Beside what the model asks, a call is held to its permission:

    it names the address that the version says by which it went,
    its notAfter is no later than that permission's end: the read or write of this
    incarnation that showed the version, plus the operation's window (W),
    nor than its time-out after it came in, unless it is an item of a batch,
    a driver took it no later than that.
"""

import math

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tests.lab.model.facts import Facts
from tests.lab.model.witness import Memory, Witness


Step = Mapping[str, Any]

GRAIN = 0.05
"""Seconds: what a process may lose between two looks at two clocks (its `_end_of`)."""
SPARE = 2.0
"""Seconds of a permission that are left when a call of it has had its time-out, at least."""
_GRACE = 1.0
"""Seconds after its answer within which a process has heard it that never shows so."""
EDGE = 0.000_001


class Sights:
    """What steps have shown of a record.

    Attributes:
        shown: when an actor's last request had come in that showed it a version.
        written: when the request had come in that made a version.
        turn: since when an actor may have decided on its next call: its first look since
            the last one.
        heard: when an actor's last call had been answered, or had come in.
    """

    def __init__(self) -> None:
        self.shown: dict[tuple[str, int], float] = {}
        self.written: dict[int, float] = {}
        self.turn: dict[str, float] = {}
        self.heard: dict[str, float] = {}

    def note(self, step: Step) -> None:
        """Take in a step."""
        actor, began = step["actor"], step["began"]
        if step["step"] == "call":
            self.turn.pop(actor, None)
            self.heard[actor] = began
        elif "now" in step:
            version = step["now"]["version"]
            self.shown[actor, version] = began
            self.turn.setdefault(actor, began)
            self.written.setdefault(version, began)


def by_watch(keyed: frozenset[str], version: Facts) -> bool:
    """Tell whether the watch is permission enough, once it has shown a version."""
    return version.deleting and version.driver in keyed


def plain(driver: Step) -> Step:
    """Return what the model knows of a driver."""
    return {name: driver[name] for name in ("settling", "drains")}


@attrs.frozen
class Sending:
    """A call by one version.

    Attributes:
        world: in which it was sent.
        step: what the driver saw.
        version: by which it went; None: there is none.
        driver: as the tape describes it.
        seen: what was shown before it.
        after: when its sender went on.
    """

    world: Witness
    step: Step
    version: Facts | None
    driver: Step
    seen: Sights
    after: float

    def options(self) -> Iterator[Sequence[Step]]:
        """Give lists of what it may have been, of which the first that is allowed counts.

        Who sent it earlier has waited longer for its effect: the earliest moment counts.
        """
        base = {**self.step, "driver": plain(self.driver), "wrong": self._wrong()}
        if self.version is not None:
            base["of"] = attrs_of(self.version)
        moments = self._moments()
        finals = (True, False) if self.step["op"] == "deregister" else (False,)
        for outcome, ends in self._outcomes():
            for end in ends:
                yield [
                    {**base, "outcome": outcome, "began": at, "final": final,
                     "wall": [at, end], "ended": end}
                    for final in finals
                    for at in moments
                ]  # fmt: skip

    @property
    def _memory(self) -> Memory:
        """What its sender knows of the record."""
        key = (self.step["actor"], self.step["record"])
        return self.world.memories.get(key, Memory())

    @property
    def _is_by_watch(self) -> bool:
        """The watch was permission enough."""
        return self.version is not None and by_watch(self.world.keyed, self.version)

    @property
    def _permitted(self) -> float:
        """When its permission began at the earliest, by what it says."""
        began: float = self.step["not_after"] - self.driver["window"][self.step["op"]]
        return began

    @property
    def _sent(self) -> float:
        """When it was sent at the earliest, by what it says: it ends with its time-out."""
        return sent_at(self.step, self.driver)

    def _wrong(self) -> str:
        """Say why it is beyond its permission; empty: it is not."""
        step, version = self.step, self.version
        if version is None:
            return ""  # the model says why not
        if step["address"] != version.address and step["op"] != "generate":
            return f"it is about {step['address']}, the record says {version.address}"
        began, late = self._permitted, step["began"] - step["not_after"]
        shown = self.seen.shown.get((step["actor"], version.version), -math.inf)
        since = step["began"] if self._is_by_watch else shown
        if began - since > GRAIN:
            over = began - since
            return f"its notAfter is {over:.3f} s after its permission's end"
        over = self._sent - step["began"]
        if over > GRAIN:
            return f"its notAfter is {over:.3f} s after its time-out's end"
        early = self.seen.written.get(version.version, -math.inf) - self._sent
        if self._is_by_watch and early > GRAIN:
            return f"its permission began {early:.3f} s before that version"
        if late > 0 and step["heard"] and not step["late"]:
            return f"it was taken {late:.3f} s after its permission's end"
        return ""

    def _moments(self) -> Sequence[float]:
        """Return when it may have been sent, as far as it makes a difference."""
        step, version, actor = self.step, self.version, self.step["actor"]
        last: float = step["began"]
        if version is None:
            return [last]
        if not step["heard"]:
            last = min(last, step["not_after"])
        first = self.seen.turn.get(actor, last)
        if self._is_by_watch:
            permitted = min(first, self._permitted)
            first = max(permitted, self.seen.heard.get(actor, 0.0))
        first = min(first, last)
        edges = [last, first]
        if self._memory.drain is not None:
            edges.append(self._memory.drain.heard + version.drain)
        deleted = self.world.deleted.get(step["record"], version.deleted)
        settling = max(self.driver["settling"]["ensure"], version.settling)
        edges.append(deleted + settling)
        near = [at + by for at in edges for by in (0.0, -0.001, 0.001)]
        return sorted({last, *(at for at in near if first <= at <= last)})

    def _outcomes(self) -> Iterator[tuple[str, Sequence[float]]]:
        """Say what its sender may have heard, and when."""
        step, after = self.step, self.after
        answered = math.inf if step["ended"] is None else step["ended"]
        if step["heard"] and answered <= after and step["outcome"] != "failed":
            yield step["outcome"], self._heard(answered)
            if not self._matters_when_lost():
                return  # who has not heard of that may do no more than who has
        # The time-out is over some time before the permission is, or later.
        yield "unanswered", self._heard(min(answered, step["not_after"] - SPARE, after))

    def _matters_when_lost(self) -> bool:
        """Say whether its sender goes on otherwise where the answer is lost within it.

        After an ensure it leaves its mark, which it takes off when it has heard of the end.
        """
        op, outcome = self.step["op"], self.step["outcome"]
        if outcome == "running":
            return bool(op == "ensure")
        return bool(outcome == "succeeded" and op != "deregister")

    def _heard(self, first: float) -> Sequence[float]:
        """Return when its end may have been heard of, as far as it makes a difference.

        The clock of a drain that begins with it is written in whole seconds.
        """
        known = self._memory.drain is not None
        if self.step["op"] != "drain" or self.version is None or known:
            return [first]
        last = first + _GRACE if math.isinf(self.after) else max(first, self.after)
        drain = self.version.drain
        # The deadline of a drain is the next whole second.
        edges = range(math.ceil(first + drain), math.ceil(last + drain))
        inside = [edge - drain for edge in edges]
        later = [edge + EDGE for edge in inside]
        return [first, *inside, *(e for e in later if e <= last), last]


def sent_at(step: Step, driver: Step) -> float:
    """Return when a call was sent at the earliest, by its notAfter.

    That of generateBackendAddr is its permission's end: what it asks about is read first. So is
    that of an item of a batch, which goes out when all of them are permitted.
    """
    spare = 0.0 if step["op"] == "generate" or step["batched"] else SPARE
    sent: float = step["not_after"] - driver["window"][step["op"]] + spare
    return sent


def attrs_of(version: Facts) -> dict[str, object]:
    """Write a version down again."""
    return {name: getattr(version, name) for name in Facts.__dataclass_fields__}
