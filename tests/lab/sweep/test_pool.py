"""Runs in processes of their own tell what they would tell in this one."""

import functools

import pytest

from tests.lab.sweep.__main__ import read_case
from tests.lab.sweep.explore import Case, chosen, sweep_singles, tally_of
from tests.lab.sweep.guards import MUTANTS
from tests.lab.sweep.pool import tally_apart


pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)
"""Of newer Pythons; what is forked here has no other thread to wait for."""

CASES = [
    Case("life", "record", ((20, "crash-late"),)),
    Case("two-registrars", "driver", ((60, "old-list"),)),
    Case("drain", "backend", ((30, "suspend"),)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_run_apart_is_the_run_here(case: Case) -> None:
    """Steps, looks, modes and breaches are the same wherever a case is run."""
    assert tally_of([case]) == tally_apart([case])


def test_sample_is_the_same_apart() -> None:
    """The same faults are chosen, and each is run once."""
    sample = functools.partial(chosen, seed=1, part=0.01)
    bare = Case("register", "record")

    here = sweep_singles(bare, sample)

    assert here.runs > 1
    assert here == sweep_singles(bare, sample, tally_apart)


def test_breach_is_told_by_a_case_that_can_be_replayed() -> None:
    """What a child finds is found again, in the same words."""
    mutant = MUTANTS["finalizer-later"]
    case = Case("life", "record")

    with mutant.made():
        ((text, told),) = tally_apart([case]).breaches.items()
        replayed = read_case(text).play()

    assert told == f"{replayed.breach}\n{replayed.ending}"


def test_death_of_a_child_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    """No run is lost silently."""
    with pytest.raises(RuntimeError, match="no-play/record/ to no-play/record/ ended"):
        tally_apart([Case("no-play", "record")])

    assert "KeyError: 'no-play'" in capfd.readouterr().err
