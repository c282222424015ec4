"""A sample of the sweep, what it has found so far, and that its oracle is awake."""

import pytest

from lbcf.core.selection import location
from lbcf.core.selection.location import is_pod_gone
from tests.builders import a_record
from tests.lab.sweep.edits import Edit
from tests.lab.sweep.explore import (
    Case,
    bare_cases,
    chosen,
    firsts_of,
    sweep_pairs,
    sweep_singles,
    with_each,
)
from tests.lab.sweep.faults import OVER_BOUND
from tests.lab.sweep.guards import MUTANTS
from tests.lab.sweep.mutants import hunt


SEED = 1
PART_OF_SINGLES = 0.006
PART_OF_FIRSTS = 0.02
PART_OF_PAIRS = 0.02
NEED_FAULTS = frozenset(
    {
        "always-is-settled",
        "batch-permission-for-ever",
        "ensures-from-the-cache",
        "epoch-before-other-shards",
        "epoch-first",
        "holder-by-name",
        "load-balancers-are-everybodys",
        "no-quarantine",
        "permission-for-ever",
        "refused-is-gone",
        "renewed-unseen",
        "second-loss-unsaid",
        "silence-in-a-batch-is-an-answer",
    }
)
"""Mutants that no run without a fault notices, whichever fault it is."""
NOTICED = [n for n, m in MUTANTS.items() if not m.modes and n not in NEED_FAULTS]
"""Those that one does: a play that shows it no more has lost its purpose."""
MOST_PLAYS = 12
"""More than the plays of any mutant, in all of their settings."""


def breaches(*cases: Case) -> dict[str, str]:
    """Run cases; return what was broken, by the case as `--replay` takes it."""
    found = {str(case): case.play().breach for case in cases}
    return {case: breach for case, breach in found.items() if breach is not None}


@pytest.mark.parametrize("bare", bare_cases(), ids=str)
def test_no_single_fault_breaks_a_rule(bare: Case) -> None:
    """Whatever fails at whichever step: S1 to S5 hold, and all ends well and quiet.

    Each step that is made on the way is one that the model allows.
    """
    tally = sweep_singles(bare, lambda case: chosen(case, SEED, PART_OF_SINGLES))

    assert tally.runs
    assert not tally.breaches, "\n".join(map("\n".join, tally.breaches.items()))


@pytest.mark.parametrize("setting", ["record", "backend", "driver"])
def test_no_pair_of_faults_breaks_a_rule(setting: str) -> None:
    """Nor does a second fault on the way back from the first."""
    firsts = [f for f in firsts_of(Case("life", setting)) if is_sampled(f)]
    tallies = [
        sweep_pairs(first, lambda case: chosen(case, SEED, PART_OF_PAIRS))
        for first in firsts
    ]

    assert sum(tally.runs for tally in tallies)
    assert {} == {c: b for tally in tallies for c, b in tally.breaches.items()}


def is_sampled(first: Case) -> bool:
    """Tell whether a first fault is tried in this sample."""
    return chosen(first, SEED, PART_OF_FIRSTS)


@pytest.mark.parametrize("mode", OVER_BOUND)
def test_call_beyond_its_bound_is_seen(mode: str) -> None:
    """A driver that breaks its word leaks a member: the oracle must say so."""
    bare = Case("life", "record")
    ensure = next(s for s in bare.play().steps if "ensureBackend" in s.what)

    broken = bare.with_fault(ensure, mode).play().breach

    assert broken is not None
    assert "is registered, and no record names it" in broken


@pytest.mark.parametrize(
    ("name", "setting", "what", "mode"),
    [
        pytest.param("life", "record", "DELETE", "409", id="refused deletion"),
        pytest.param("register", "record", "POST", "cancel", id="write cut off"),
        pytest.param(
            "life", "backend", "ensureBackend", "cancel-late", id="call cut off"
        ),
        pytest.param(
            "two-registrars", "record", "WRITE", "gap", id="view older than a record"
        ),
        pytest.param(
            "slow-drain", "backend", "drainBackend", "crash-late", id="late drain"
        ),
        pytest.param(
            "reset-in-vain", "record", "listBackends", "cancel", id="reading cut off"
        ),
        pytest.param(
            "looked-at",
            "record",
            "READ GET /apis/lbcf",
            "slow",
            id="look that took long",
        ),
        pytest.param(
            "reset", "driver", "ensureBackend", "old-list", id="list before a reset"
        ),
        pytest.param("hasty", "driver", "POST", "gap", id="two views of one group"),
        pytest.param(
            "two-registrars", "record", "POST", "gap-pods", id="two views of pods"
        ),
        pytest.param(
            "parameters-later",
            "backend",
            "backendgroups/web/status",
            "old-list",
            id="view older than a look",
        ),
    ],
)
def test_what_was_found_stays_mended(
    name: str, setting: str, what: str, mode: str
) -> None:
    """Each of these once broke a rule."""
    cases = with_each(name, setting, what, mode)

    assert cases
    assert {} == breaches(*cases)


def test_late_answer_confirms_nothing() -> None:
    """Older parameters landed while the process that sent newer ones stood still."""
    first = with_each("parameters", "record", "ensureBackend", "crash-late")[0]
    steps = first.play().steps[first.plan[0][0] :]
    later = [step for step in steps if "ensureBackend" in step.what]

    cases = [first.with_fault(step, "pause") for step in later]

    assert cases
    assert {} == breaches(*cases)


def test_static_address_needs_no_driver_to_say_it() -> None:
    """With drivers that find addresses, static ones were never registered."""
    assert {} == breaches(Case("static-again", "driver"))


def test_run_is_the_same_each_time() -> None:
    """A breach can be replayed, step by step."""
    case = Case("drain", "backend", ((30, "crash-after"),))

    assert case.play() == case.play()


@pytest.mark.parametrize("name", MUTANTS)
def test_guard_can_be_taken_out(name: str) -> None:
    """The edit still fits the code: else the list of mutants would lie."""
    with MUTANTS[name].made():
        pass


def test_edit_is_seen_by_whoever_imported_the_function() -> None:
    """Else the mutant is whole code, and that nobody notices it says nothing."""
    edit = Edit(location, "is_pod_gone", "return True", "return False")
    record = a_record()
    assert is_pod_gone(record, None)

    with edit.made():
        assert not is_pod_gone(record, None)

    assert is_pod_gone(record, None)


@pytest.mark.parametrize("name", NOTICED)
def test_lost_guard_is_noticed(name: str) -> None:
    """The oracle sees what the guard keeps away."""
    kill = hunt(MUTANTS[name], most=MOST_PLAYS)

    assert kill is not None
    assert not kill.case.plan
