"""Tests of which no tape is judged, and why."""

from collections.abc import Mapping


LEFT_OUT: Mapping[str, str] = {
    "test_drift::test_orphans_that_are_confirmed_are_taken_out": (
        "a person has a member deregistered whose record is gone: no record's turn calls"
    ),
    "test_gated_rollout": "a node's cluster, no stage: make demo follows rollouts there",
    "test_gates": "no driver is called: the test itself writes the records pods wait for",
    "test_take_over::test_take_over_touches_nothing_and_lives_on[Record]": (
        "a record of LBCF's is marked, unread, before its spec is changed for the first time"
    ),
}
"""By module, or by module and test."""


def why_left_out(module: str, test: str) -> str:
    """Say why a test is left out; empty: it is judged."""
    return LEFT_OUT.get(module, "") or LEFT_OUT.get(f"{module}::{test}", "")
