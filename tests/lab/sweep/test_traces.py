"""What both processes do is what the model does, without faults and with them."""

import msgspec
import pytest

from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.wire.resources import parse_driver
from tests.lab.model.follow import follow
from tests.lab.sweep import objects
from tests.lab.sweep.explore import Case, bare_cases, chosen, singles_of, with_each
from tests.lab.sweep.guards import MUTANTS
from tests.lab.sweep.run import Outcome
from tests.lab.sweep.scenarios import SCENARIOS
from tests.lab.sweep.traces import taped


SEED = 2
PART = 0.004
FOLLOWED = [case for case in bare_cases() if case.scenario != "two-drivers"]
"""The model has one driver, which knows its members in one way."""
META = {
    "namespace": "shop",
    "name": "driver",
    "uid": "uid-d",
    "resourceVersion": "1",
    "generation": 1,
}


def driver_of(case: Case) -> LoadBalancerDriver:
    """The driver that a case is played with: it says how long calls may live."""
    raw = objects.driver(SCENARIOS[case.scenario].settings[case.setting])
    whole = {**raw, "metadata": META}
    return parse_driver(msgspec.json.encode(whole))


def judged(case: Case) -> tuple[Outcome, str | None]:
    """Play a case, and follow it in the model: the first step that it does not allow."""
    with taped(driver_of(case)) as tape:
        outcome = case.play()
    refusal = follow(tape.trace())
    return outcome, None if refusal is None else f"{case}: {refusal}"


@pytest.mark.parametrize("bare", FOLLOWED, ids=str)
def test_model_allows_what_is_done(bare: Case) -> None:
    """Each step of a run, and of a sample of runs with one fault, is one of its own."""
    outcome, refusal = judged(bare)
    sample = [c for c in singles_of(bare, outcome) if chosen(c, SEED, PART)]

    refusals = [refusal, *(judged(case)[1] for case in sample)]

    assert {None} == set(refusals)


@pytest.mark.parametrize(
    ("name", "setting", "what", "mode"),
    [
        pytest.param(
            "always-orphaned",
            "backend",
            "ensureBackend",
            "crash-before",
            id="mark under Always",
        ),
        pytest.param(
            "hasty", "record", "ensureBackend", "timeout", id="change during an ensure"
        ),
        pytest.param(
            "reuse-name", "backend", "WRITE PATCH", "pause", id="late word of a release"
        ),
        pytest.param(
            "parameters-later",
            "record",
            "WRITE PATCH",
            "lost",
            id="lost answer to a change",
        ),
        pytest.param(
            "crowd", "record", "READ GET", "reset", id="permission that was not renewed"
        ),
    ],
)
def test_what_was_refused_once_is_allowed(
    name: str, setting: str, what: str, mode: str
) -> None:
    """Each of these was a mistake in the code, or in how its trace was read."""
    cases = with_each(name, setting, what, mode)

    assert cases
    assert {None} == {judged(case)[1] for case in cases}


def test_run_without_a_guard_is_refused() -> None:
    """The model sees at once that an ensure went out unwritten."""
    with MUTANTS["ensures-unwritten"].made():
        assert judged(Case("life", "backend"))[1] is not None
