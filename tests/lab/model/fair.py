"""Finds fair lassos: endless runs in which what is desired never comes, or does not stay.

A run ends in a part of the graph that it does not leave. It is fair if each of its actors
that can go on all the time does (weak fairness), and if whatever waits for its turn, and
could have it again and again, gets it (strong fairness, for turns alone).
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar


S = TypeVar("S")


class Move(NamedTuple):
    """A step that is no fault.

    Attributes:
        text: it in words.
        who: the actor that goes on by it.
        state: where it leads.
        turn: whose turn begins by it; empty for no turn's beginning.
    """

    text: str
    who: str
    state: Any
    turn: str = ""


class Lasso(NamedTuple):
    """The end of a run that ends badly.

    Attributes:
        knot: the number of the state in which it begins; what is desired is not there.
        cycle: steps that go on for ever, in words; empty: nothing happens any more.
    """

    knot: int
    cycle: list[str]


class Graph(Generic[S]):
    """All states that follow upon some, and who takes which step between them.

    Args:
        seeds: the states in which the last fault may have been.
        moves: gives what may come next.
        index: numbers of states, from 0 in their order, which the graph goes on from:
            those of a search, so that none is kept twice.

    Attributes:
        states: all of them.
        starts: by state, its first step; one more at the end.
        targets: by step, the state where it leads.
    """

    def __init__(
        self,
        seeds: Iterable[S],
        moves: Callable[[S], Sequence[Move]],
        index: dict[S, int] | None = None,
    ) -> None:
        self._index: dict[S, int] = {} if index is None else index
        self.states: list[S] = list(self._index)
        self.starts = array("q", [0])
        self.targets = array("i")
        self._moves = moves
        self._bits: dict[str, int] = {}
        # Of sets of actors there are few: steps and states have their numbers.
        self._sets: list[int] = []
        self._set_numbers: dict[int, int] = {}
        self._done = array("I")
        self._able = array("I")
        self._due = array("I")
        for seed in seeds:
            self._number(seed)
        while len(self._able) < len(self.states):
            self._expand(self.states[len(self._able)])

    def _number(self, state: S) -> int:
        """Return the number of a state, a new one if it is new."""
        known = self._index.get(state)
        if known is not None:
            return known
        number = self._index[state] = len(self.states)
        self.states.append(state)
        return number

    def _bit(self, name: str) -> int:
        """Return the bit of an actor or a turn, 0 for none."""
        number = self._bits.setdefault(name, len(self._bits)) if name else 64
        return 1 << number if name else 0

    def _set(self, bits: int) -> int:
        """Return the number of a set of actors and turns, a new one if it is new."""
        number = self._set_numbers.setdefault(bits, len(self._sets))
        if number == len(self._sets):
            self._sets.append(bits)
        return number

    def _expand(self, state: S) -> None:
        """Go through the steps from a state."""
        able = due = 0
        for move in self._moves(state):
            actor, turn = self._bit(move.who), self._bit(move.turn)
            able, due = able | actor, due | turn
            self.targets.append(self._number(move.state))
            self._done.append(self._set(actor | turn))
        self._able.append(self._set(able))
        self._due.append(self._set(due))
        self.starts.append(len(self.targets))

    # --- the search ---------------------------------------------------------------------

    def lasso(
        self, is_desired: Callable[[S], bool], rank: Callable[[S], int]
    ) -> Lasso | None:
        """Find a fair run that is not in what is desired from some moment on.

        Args:
            is_desired: tells it of a state.
            rank: the knot is a state of the lowest rank.
        """
        bad = bytearray(not is_desired(state) for state in self.states)
        found = [
            (rank(self.states[i]), i, part)
            for part in self._fair_parts(bad)
            for i in part
            if bad[i]
        ]
        if not found:
            return None
        _, knot, part = min(found)
        return Lasso(knot, self._cycle(knot, part))

    def _fair_parts(self, bad: bytearray) -> Iterator[list[int]]:
        """Go through the components with a bad state in which a fair run may stay."""
        work: list[Iterable[int]] = [range(len(self.states))]
        while work:
            for part in Components(self, work.pop()):
                if not any(bad[i] for i in part):
                    continue
                left = self._fair_in(part)
                if len(left) == len(part):
                    yield part
                elif left:
                    work.append(left)

    def _fair_in(self, part: list[int]) -> list[int]:
        """Say in which states of a component a fair run may stay."""
        inside, sets = set(part), self._sets
        taken, able, due = 0, ~0, 0
        for i in part:
            able &= sets[self._able[i]]
            due |= sets[self._due[i]]
            for e in self._inner(i, inside):
                taken |= sets[self._done[e]]
        if able & ~taken:
            return []
        missed = due & ~taken
        return [i for i in part if not sets[self._due[i]] & missed]

    def _inner(self, i: int, inside: set[int]) -> Iterator[int]:
        """Go through the steps from a state that stay inside."""
        for e in range(self.starts[i], self.starts[i + 1]):
            if self.targets[e] in inside:
                yield e

    # --- the way round ------------------------------------------------------------------

    def _cycle(self, knot: int, part: list[int]) -> list[str]:
        """Tell a fair way round in a component, a short one."""
        inside, here, sets = set(part), knot, self._sets
        owed = sets[self._able[knot]]
        steps: list[int] = []
        while owed:
            way = self._way(here, inside, partial(self._pays, owed))
            steps += way
            for e in way:
                here = self.targets[e]
                owed = owed & ~sets[self._done[e]] & sets[self._able[here]]
        if here != knot or (sets[self._able[knot]] and not steps):
            steps += self._way(here, inside, lambda e: self.targets[e] == knot)
        return self._told(knot, steps)

    def _pays(self, owed: int, e: int) -> bool:
        """Tell whether a step takes an actor off those that have been able all along."""
        able = self._sets[self._able[self.targets[e]]]
        return bool(owed & self._sets[self._done[e]] or owed & ~able)

    def _way(
        self, start: int, inside: set[int], is_last: Callable[[int], bool]
    ) -> list[int]:
        """Find the shortest way inside to a step."""
        before: dict[int, int] = {start: -1}
        sources: dict[int, int] = {}
        queue = deque([start])
        while queue:
            i = queue.popleft()
            for e in self._inner(i, inside):
                sources[e] = i
                if is_last(e):
                    return self._back(e, before, sources)
                if self.targets[e] not in before:
                    before[self.targets[e]] = e
                    queue.append(self.targets[e])
        raise LookupError("a component is left on the way round")

    def _back(
        self, last: int, before: dict[int, int], sources: dict[int, int]
    ) -> list[int]:
        """Return the steps up to a last one."""
        steps = [last]
        while before[sources[steps[-1]]] >= 0:
            steps.append(before[sources[steps[-1]]])
        return steps[::-1]

    def _told(self, start: int, steps: list[int]) -> list[str]:
        """Put steps into words."""
        words, here = [], start
        for e in steps:
            moves = self._moves(self.states[here])
            words.append(moves[e - self.starts[here]].text)
            here = self.targets[e]
        return words


class Components:
    """The strongly connected components of a part of a graph (Tarjan's algorithm)."""

    def __init__(self, graph: Graph[S], among: Iterable[int]) -> None:
        self._starts, self._targets = graph.starts, graph.targets
        self._among = list(among)
        size = len(graph.states)
        self._open = bytearray(size)
        for i in self._among:
            self._open[i] = 1
        self._order = array("i", bytes(4 * size))
        self._low = array("i", bytes(4 * size))
        self._count = 0
        self._stack: list[int] = []
        # States that are gone through, and the next step of each: one may be below all.
        self._work = array("i")
        self._next = array("q")

    def __iter__(self) -> Iterator[list[int]]:
        """Go through them."""
        for root in self._among:
            if not self._order[root]:
                self._enter(root)
            while self._work:
                i = self._go_on()
                if i >= 0:
                    yield self._closed(i)

    def _enter(self, i: int) -> None:
        """Begin with a state."""
        self._count += 1
        self._order[i] = self._low[i] = self._count
        self._stack.append(i)
        self._work.append(i)
        self._next.append(self._starts[i])

    def _go_on(self) -> int:
        """Take one more step; answers the state whose component is complete, else -1."""
        i, e = self._work[-1], self._next[-1]
        if e == self._starts[i + 1]:
            self._work.pop()
            self._next.pop()
            if self._work:
                below = self._work[-1]
                self._low[below] = min(self._low[below], self._low[i])
            return i if self._low[i] == self._order[i] else -1
        self._next[-1] = e + 1
        j = self._targets[e]
        if self._open[j] and not self._order[j]:
            self._enter(j)
        elif self._open[j]:
            self._low[i] = min(self._low[i], self._order[j])
        return -1

    def _closed(self, root: int) -> list[int]:
        """Take a complete component off the stack."""
        part: list[int] = []
        while not part or part[-1] != root:
            part.append(self._stack.pop())
            self._open[part[-1]] = 0
        return part
