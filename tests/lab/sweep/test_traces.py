"""Steps that the model refused once, and that it does refuse what it should.

That it allows what both processes do, `test_sweep` asks of each of its runs.
"""

import pytest

from tests.lab.sweep.explore import Case, Tally, tally_of, with_each
from tests.lab.sweep.guards import MUTANTS


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
            "taken-meanwhile",
            "backend",
            "WRITE PATCH",
            "pause",
            id="late word of a release, after another one's",
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
        pytest.param(
            "taken-when-signed-off-late",
            "backend",
            "READ GET /apis/coordination",
            "slow",
            id="late word of a lock",
        ),
        pytest.param(
            "parameters-later",
            "record",
            "WRITE PATCH",
            "timeout",
            id="call that was sent without a mark",
        ),
        pytest.param(
            "taken-after-a-kill-in-between",
            "backend",
            "WRITE PATCH",
            "pause",
            id="call that was out in a pause",
        ),
        pytest.param(
            "late-in-permission",
            "record",
            "LIST GET /api/v1/services",
            "crash-before",
            id="own create that is told late",
        ),
        pytest.param(
            "bounds-raised-for-an-end",
            "backend",
            "deregisterBackend",
            "running-late",
            id="call before a kill, with shorter bounds than one that was running",
        ),
        pytest.param(
            "taken-after-a-restart",
            "unjournaled",
            "WRITE POST /apis/lbcf.tkestack.io",
            "crash-after",
            id="create whose answer nobody was there to read",
        ),
        pytest.param(
            "crowd",
            "record",
            "READ GET /apis/lbcf.tkestack.io",
            "cancel",
            id="permission whose renewal was cut off",
        ),
    ],
)
def test_what_was_refused_once_is_allowed(
    name: str, setting: str, what: str, mode: str
) -> None:
    """Each of these was a mistake in the code, or in how its trace was read."""
    cases = with_each(name, setting, what, mode)

    assert cases
    assert {} == tally_of(cases).breaches


@pytest.mark.parametrize(
    ("mutant", "name", "setting", "why"),
    [
        ("ensures-unwritten", "life", "backend", "the record has no address"),
        ("waits-by-the-driver-of-now", "bounds-raised-unseen", "record", "count yet"),
        ("settling-unwritten", "bounds-raised-unseen", "record", "the record says"),
        ("longer-ends-unannounced", "bounds-raised-for-an-end", "backend", "the next"),
        ("longer-ends-unread", "bounds-raised-for-a-drain", "backend", "s ago, not"),
        (
            "taken-over-by-the-driver-of-now",
            "bounds-lowered-at-the-end",
            "backend",
            "s ago, not",
        ),
        ("drains-once", "drain", "record", "s left"),
        ("drains-for-ever", "drain-in-vain", "record", "was over"),
        ("drain-of-a-tenth", "drain", "record", "does not end at"),
        ("deadline-rounded-down", "short-drain", "record", "does not end at"),
        ("counted-from-the-decision", "drain-in-turn", "record", "s left"),
        ("drains-by-the-wall-clock", "drain-set-ahead", "record", "s left"),
        ("drain-in-memory", "drain-goes-on", "record", "was over"),
        ("drains-longer-than-whole", "drain-begun-ahead", "record", "was over"),
        ("drain-before-its-deletion", "drain-begun-behind", "record", "s left"),
        ("drains-the-gone", "gone-while-draining", "record", "to be drained"),
        ("drained-whatever-is-left", "drain-in-vain", "record", "not empty"),
        ("cut-after-an-empty-drain", "sessions-return", "record", "was empty"),
        ("spared-for-ever", "sessions-stay", "record", "was empty"),
        ("abandoned-unasked", "abandoned", "record", "said why"),
        ("abandoned-for-no-reason", "abandoned", "backend", "said why"),
        ("unregistered-is-out", "early", "record", "something may be registered"),
    ],
)
def test_run_without_a_guard_is_refused(
    mutant: str, name: str, setting: str, why: str
) -> None:
    """The model names the step that breaks the rule, whatever came of it."""
    with MUTANTS[mutant].made():
        _, refusal = Case(name, setting).judge()

    assert refusal is not None
    assert why in refusal.why


def test_what_the_model_refuses_is_a_breach() -> None:
    """Also where nothing else came of it."""
    case, tally = Case("drain", "record"), Tally()
    with MUTANTS["drains-once"].made():
        _, refusal = case.judge()

    tally.count(case, case.play(), refusal)

    assert {str(case): str(refusal)} == tally.breaches
