"""Hunts mutants: runs cases with a guard taken out until the oracle notices.

`guards` lists what is taken out. The command line prints which mutant was noticed by which
case, and which lives on: a missing scenario, or a needless guard.
"""

import random

from collections.abc import Iterator

import attrs

from tests.lab.sweep.edits import Mutant
from tests.lab.sweep.explore import Case, bare_cases, singles_of
from tests.lab.sweep.guards import MUTANTS
from tests.lab.sweep.scenarios import SCENARIOS


__all__ = ["MUTANTS", "Kill", "hunt"]


@attrs.frozen
class Kill:
    """Who noticed, by which breach, after how many runs."""

    case: Case
    breach: str
    runs: int


def hunt(mutant: Mutant, *, most: int = 4000, seed: int = 1) -> Kill | None:
    """Run cases until one breaks that the whole code keeps."""
    for runs, case in enumerate(_cases(mutant, seed), 1):
        if runs > most:
            return None
        with mutant.made():
            breach = case.play().breach
        if breach is not None and case.play().breach is None:
            return Kill(case, breach, runs)
    return None


def _cases(mutant: Mutant, seed: int) -> Iterator[Case]:
    """Return cases: without a fault, then single ones, then pairs, in a shuffled order.

    The faults are those of the mutant's own steps.
    """
    bare = [
        case
        for case in bare_cases([SCENARIOS[w.partition("/")[0]] for w in mutant.where])
        if case.scenario in mutant.where
        or f"{case.scenario}/{case.setting}" in mutant.where
    ]
    yield from bare
    singles: list[Case] = []
    for case in bare:
        with mutant.made():
            outcome = case.play()
        singles.extend(_fitting(mutant, singles_of(case, outcome), 0))
    chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
    chance.shuffle(singles)
    if not mutant.pairs:
        yield from singles
        return
    while singles:
        yield _pair(mutant, chance, chance.choice(singles))


def _fitting(mutant: Mutant, cases: list[Case], place: int) -> list[Case]:
    """Keep the cases whose fault at a place is of the modes that are asked for."""
    return [c for c in cases if not mutant.modes or c.plan[place][1] in mutant.modes]


def _pair(mutant: Mutant, chance: random.Random, first: Case) -> Case:
    """Draw a second fault."""
    with mutant.made():
        outcome = first.play()
    pairs = _fitting(mutant, singles_of(first, outcome), 1)
    later = [c for c in pairs if c.plan[1][0] > c.plan[0][0]]
    return chance.choice(later) if later else first
