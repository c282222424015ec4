"""L: once faults end, what users want comes about, and stays (<>[] desired).

The states that a search has found, faults and all, are where the last fault may have been.
From each of them only steps go on that are no faults, and no trouble that would have to be
one for ever. Of several incarnations of a process one is left, as a Lease sees to it; the
others have stopped, with whatever they had written.
"""

from __future__ import annotations

import time

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tests.lab.model import layout as at
from tests.lab.model import promises
from tests.lab.model.fair import Graph, Lasso, Move
from tests.lab.model.rules import Rules
from tests.lab.model.search import Found, Search, orientations, successors
from tests.lab.model.surroundings import TIME
from tests.lab.model.world import State, Step


@dataclass
class Ended:
    """What a search for a bad end has found.

    Attributes:
        complete: all states with faults were found before.
        states: states after the last fault.
        steps: steps between them.
        seconds: how long it took, the search before not counted.
        way: to the knot, in words.
        cycle: what goes on for ever from there, in words; None: every fair run ends well.
    """

    complete: bool = False
    states: int = 0
    steps: int = 0
    seconds: float = 0.0
    way: list[str] = field(default_factory=list)
    cycle: list[str] | None = None


def check(search: Search, found: Found, rules: Rules) -> Ended:
    """Look at all that may come after the last fault of a search that has run."""
    began = time.perf_counter()
    ended = Ended(complete=found.complete)
    if not found.complete:
        return ended
    ends = replace(rules, registrars=1, deregistrars=min(1, rules.deregistrars))
    last = ends if rules.leads else rules
    # Without a second incarnation no state stands for others, and all steps are known.
    alone = rules.registrars == 1 and rules.deregistrars <= 1
    index = search.index if alone else None
    graph = Graph(_seeds(search.states, rules), lambda s: moves(s, last), index)
    ended.states, ended.steps = len(graph.states), len(graph.targets)
    lasso = graph.lasso(lambda s: promises.is_desired(s, last), search.number_of)
    if lasso is not None:
        _tell(ended, search, graph, lasso)
    ended.seconds = time.perf_counter() - began
    return ended


def _seeds(states: list[State], rules: Rules) -> Iterator[State]:
    """Go through the states in which all incarnations but the first have stopped."""
    for state in states:
        for one in orientations(state, rules):
            stopped = not one[at.registrar(1) + at.STAGE]
            stopped = stopped and not one[at.deregistrar(1) + at.STAGE]
            if stopped or not rules.leads:
                yield one


def moves(s: State, rules: Rules) -> list[Move]:
    """Return the steps that may go on for ever."""
    return [
        _move(s, rules, step)
        for step in successors(s, rules)
        if not (step.fault or step.trouble)
    ]


def _move(s: State, rules: Rules, step: Step) -> Move:
    """Say whose step it is."""
    text, w, r = step.label
    letter = "A" if "{a}" in text else "B" if "{b}" in text else ""
    told = text.format(a=f"A{w + 1}", b=f"B{w + 1}", r=f"R{r + 1}")
    if step.beside or not letter:
        # Time cannot be stopped by what hinders it again and again.
        turn = told if text == TIME else ""
        return Move(told, told, bytes(step.state), turn)
    worker = at.registrar(w) if letter == "A" else at.deregistrar(w)
    begins = rules.takes_turns and rules.records > 1 and not s[worker + at.STAGE]
    turn = f"{letter}{w + 1} with R{r + 1}" if begins else ""
    return Move(told, f"{letter}{w + 1}", bytes(step.state), turn)


def _tell(ended: Ended, search: Search, graph: Graph[State], lasso: Lasso) -> None:
    """Put a bad end into words, each incarnation keeping its name."""
    knot = graph.states[lasso.knot]
    ended.way, state = search.way_to(search.number_of(knot))
    ended.cycle = lasso.cycle
    for letter, other in (("A", at.REGISTRARS), ("B", at.DEREGISTRARS)):
        size = at.REGISTRAR if letter == "A" else at.DEREGISTRAR
        if state[other : other + 2 * size] != knot[other : other + 2 * size]:
            ended.cycle = [_swapped(line, letter) for line in ended.cycle]


def _swapped(line: str, letter: str) -> str:
    """Call the second incarnation what the first one was called."""
    marked = line.replace(f"{letter}1", "\0").replace(f"{letter}2", f"{letter}1")
    return marked.replace("\0", f"{letter}2")
