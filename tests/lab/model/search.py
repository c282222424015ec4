"""Searches all states of a variant, breadth first, so that traces are shortest ones.

States that differ only in which of two equal incarnations does what are one state.
"""

from __future__ import annotations

import time

from array import array
from dataclasses import dataclass, field

from tests.lab.model import deregistrar, elsewhere, promises, registrar, surroundings
from tests.lab.model import layout as at
from tests.lab.model.rules import Rules
from tests.lab.model.world import Draft, State, Step, Steps


STUCK = "G: no way is left to the state where all is as it should be"


@dataclass
class Found:
    """What a search has found.

    Attributes:
        states: how many there are, up to which incarnation is which.
        transitions: how many were taken.
        seconds: how long it took.
        broken: the promise that was broken, empty for none.
        trace: the shortest way there, in words.
        complete: nothing was left out.
    """

    states: int = 0
    transitions: int = 0
    seconds: float = 0.0
    broken: str = ""
    trace: list[str] = field(default_factory=list)
    complete: bool = False


def successors(s: State, rules: Rules) -> Steps:
    """Return all steps from a state."""
    out: Steps = []
    surroundings.steps(s, rules, out)
    registrar.steps(s, rules, out)
    if rules.elsewhere:
        elsewhere.steps(s, rules, out)
    deregistrar.steps(s, rules, out)
    return out


_SWAPPED = (0, 2, 1, 3, 4, 6, 5, 7)


def canonical(s: Draft, rules: Rules) -> State:
    """Name equal incarnations in one order."""
    if rules.registrars > 1:
        x, y, z = at.REGISTRARS, at.REGISTRARS + at.REGISTRAR, at.DEREGISTRARS
        if s[y:z] < s[x:y]:
            s = _swapped(s, x, y, z)
        elif s[y:z] == s[x:y]:
            other = _swapped(s, x, y, z)
            s = min(s, other)
    if rules.deregistrars > 1:
        x = at.DEREGISTRARS
        y, z = x + at.DEREGISTRAR, x + 2 * at.DEREGISTRAR
        if rules.frees:
            s = min(s, _swapped_enders(s, x, y, z))
        elif s[y:z] < s[x:y]:
            s[x:z] = s[y:z] + s[x:y]
    return bytes(s)


def _swapped_enders(s: Draft, x: int, y: int, z: int) -> Draft:
    """Let two deregistrars change their places and names."""
    n = bytearray(s)
    n[x:z] = s[y:z] + s[x:y]
    for r in range(at.MAX_RECORDS):
        m = at.record(r) + at.ENDER
        n[m] = _SWAPPED[n[m]]
    return n


def _swapped(s: Draft, x: int, y: int, z: int) -> Draft:
    """Let two registrars change their places and names."""
    n = bytearray(s)
    n[x:z] = s[y:z] + s[x:y]
    for r in range(at.MAX_RECORDS):
        for m in (at.record(r) + at.MARK, at.READ_MARKS + r):
            n[m] = _SWAPPED[n[m]]
    return n


def orientations(s: State, rules: Rules) -> list[State]:
    """Return all states that a canonical one stands for."""
    found = [s]
    if rules.registrars > 1:
        x, y, z = at.REGISTRARS, at.REGISTRARS + at.REGISTRAR, at.DEREGISTRARS
        found += [bytes(_swapped(bytearray(one), x, y, z)) for one in found]
    if rules.deregistrars > 1:
        x, y = at.DEREGISTRARS, at.DEREGISTRARS + at.DEREGISTRAR
        z = y + at.DEREGISTRAR
        found += [bytes(_swapped_enders(bytearray(one), x, y, z)) for one in found]
    return found


class Search:
    """One search of one variant.

    Args:
        rules: the variant.
        limit: how many states at most.
        alive: also whether the goal can be reached from everywhere without faults.
    """

    def __init__(
        self, rules: Rules, *, limit: int = 20_000_000, alive: bool = False
    ) -> None:
        self._rules = rules
        self._limit = limit
        self._alive = alive
        first = bytes(at.SIZE)
        self._index: dict[State, int] = {first: 0}
        self._states: list[State] = [first]
        self._parents = array("i", [-1])
        self._edges = (array("i"), array("i"))

    def run(self) -> Found:
        """Search."""
        began = time.perf_counter()
        found = self._search()
        found.states = len(self._states)
        if found.complete and self._alive:
            self._judge_stuck(found)
        found.seconds = time.perf_counter() - began
        return found

    def _search(self) -> Found:
        """Go through all states, up to the first that breaks a promise."""
        rules, states = self._rules, self._states
        found = Found()
        i = 0
        while i < len(states):
            if len(states) > self._limit:
                return found
            for step in successors(states[i], rules):
                found.transitions += 1
                j = self._reached(i, step)
                broken = step.broken
                if j < 0:
                    j = -j
                    broken = broken or promises.broken(states[j], rules)
                if broken:
                    found.broken = broken
                    found.trace = self._trace(i, step)
                    return found
                if self._alive and not step.fault:
                    self._edges[0].append(i)
                    self._edges[1].append(j)
            i += 1
        found.complete = True
        return found

    def _reached(self, i: int, step: Step) -> int:
        """Return the number of the state that a step leads to, negative if new."""
        state = canonical(step.state, self._rules)
        j = self._index.get(state)
        if j is not None:
            return j
        j = self._index[state] = len(self._states)
        self._states.append(state)
        self._parents.append(i)
        return -j

    def _judge_stuck(self, found: Found) -> None:
        """Find the first state from which no fault-free steps lead to the goal."""
        good = bytearray(len(self._states))
        work = []
        for k, state in enumerate(self._states):
            if promises.is_goal(state, self._rules):
                good[k] = 1
                work.append(k)
        starts, sources = self._backwards()
        while work:
            k = work.pop()
            for e in range(starts[k], starts[k + 1]):
                i = sources[e]
                if not good[i]:
                    good[i] = 1
                    work.append(i)
        stuck = good.find(0)
        if stuck >= 0:
            found.broken = STUCK
            found.trace = self._trace(stuck, None)

    def _backwards(self) -> tuple[array[int], array[int]]:
        """Sort the steps by where they lead."""
        sources, targets = self._edges
        starts = array("i", bytes(4 * (len(self._states) + 2)))
        for j in targets:
            starts[j + 2] += 1
        for k in range(1, len(starts)):
            starts[k] += starts[k - 1]
        ordered = array("i", bytes(4 * len(sources)))
        for e, j in enumerate(targets):
            ordered[starts[j + 1]] = sources[e]
            starts[j + 1] += 1
        return starts, ordered

    @property
    def states(self) -> list[State]:
        """All states that were found, in the order of the search."""
        return self._states

    @property
    def index(self) -> dict[State, int]:
        """The number of each of them."""
        return self._index

    def number_of(self, s: State) -> int:
        """Return the number of a state, whoever is called what in it."""
        return self._index[canonical(bytearray(s), self._rules)]

    def way_to(self, i: int) -> tuple[list[str], State]:
        """Tell the shortest way to a state, and how it looks at its end.

        Each incarnation keeps its name on the way.
        """
        path = []
        while i > 0:
            path.append(i)
            i = self._parents[i]
        words, state = [], self._states[0]
        for k in reversed(path):
            step = self._step_to(state, self._states[k])
            words.append(told(step))
            state = bytes(step.state)
        return words, state

    def _trace(self, i: int, last: Step | None) -> list[str]:
        """Tell the way to a state, and a last step, in words."""
        words, state = self.way_to(i)
        if last is not None:
            goal = canonical(bytearray(last.state), self._rules)
            words.append(told(self._step_to(state, goal, last)))
        return words

    def _step_to(self, state: State, target: State, like: Step | None = None) -> Step:
        """Find the step that leads from a concrete state to one of a class."""
        for step in successors(state, self._rules):
            if like is not None and step.label[0] != like.label[0]:
                continue
            if canonical(bytearray(step.state), self._rules) == target:
                return step
        raise LookupError("a step of a trace cannot be taken again")


def told(step: Step) -> str:
    """Put a step into words."""
    text, w, r = step.label
    return text.format(a=f"A{w + 1}", b=f"B{w + 1}", r=f"R{r + 1}")


def search(rules: Rules, *, limit: int = 20_000_000, alive: bool = False) -> Found:
    """Search a variant: to its end, or to the first broken promise."""
    return Search(rules, limit=limit, alive=alive).run()
