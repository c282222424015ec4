"""Which faults are tried: of watches those that keep something back, in shares all of them."""

import argparse

from typing import cast

import pytest

from tests.lab.sweep.__main__ import read_share, share_of
from tests.lab.sweep.explore import Case, bare_cases, singles_of
from tests.lab.sweep.faults import ALL_MODES, MODES, Kind, Mode, Trouble
from tests.lab.sweep.process import DISTURBED
from tests.lab.sweep.run import Outcome
from tests.lab.sweep.world import Step


ONE_WATCH = {name for name, mode in MODES[Kind.WRITE].items() if mode.watch}
SHOWN_BY = {
    "lag-records": "life/record",
    "lag-groups": "parameters/record",
    "lag-load-balancers": "load-balancer-again/record",
    "lag-drivers": "driver-edited/record",
    "lag-pods": "life/record",
    "lag-nodes": "nodes/record",
    "lag-services": "node-ports/record",
    "lag-leases": "taken-after-a-start/backend",
    "gap-records": "life/record",
    "gap-pods": "life/record",
}
"""A play by mode in which each has something to keep back."""
IDLE = "lag-nothing"
LEFT_OUT = 12
"""Runs per play, of faults that are left out."""


def bare(name: str) -> Case:
    """Return a play without a fault."""
    scenario, setting = name.split("/")
    return Case(scenario, setting)


def told(outcome: Outcome, step: Step) -> set[str]:
    """Return the kinds whose watches told a step's process something soon after it."""
    ends = step.at + DISTURBED
    return {
        news.plural
        for news in outcome.news
        if news.who == step.who and step.at < news.at < ends
    }


def course(outcome: Outcome) -> list[tuple[float, str, str]]:
    """Return the steps of a run, in order."""
    return [(step.at, step.who, step.what) for step in outcome.steps]


@pytest.fixture(name="_idle_mode")
def _idle_mode_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a mode in which the watches of a kind lag that nobody watches."""
    idle = Mode(trouble=Trouble.LAG, watch="nothing")
    modes = cast("dict[str, Mode]", ALL_MODES)
    monkeypatch.setitem(modes, IDLE, idle)


@pytest.mark.parametrize("mode", sorted(ONE_WATCH))
def test_watches_of_one_kind_tell_nothing_and_others_do(mode: str) -> None:
    """Else a mode would be a name for a run without a fault, or for one with all of them."""
    case = bare(SHOWN_BY[mode])
    whole, watch = case.play(), ALL_MODES[mode].watch
    faults = [c for c in singles_of(case, whole) if c.plan[0][1] == mode]
    steps = [whole.steps[fault.plan[0][0] - 1] for fault in faults]
    chosen = [
        (fault, step)
        for fault, step in zip(faults, steps, strict=True)
        if {watch} < told(whole, step)
    ]

    assert chosen
    fault, step = chosen[0]
    assert watch not in told(fault.play(), step)
    assert told(fault.play(), step)


@pytest.mark.usefixtures("_idle_mode")
@pytest.mark.parametrize("name", sorted(set(SHOWN_BY.values())))
def test_lag_that_is_left_out_would_change_nothing(name: str) -> None:
    """A watch that has nothing to tell cannot be late.

    Timers of one moment ring in the order of a heap, which each further timer changes:
    two writes of one moment may change places. So the run beside has such a timer, too.
    """
    case = bare(name)
    whole = case.play()
    tried = set(singles_of(case, whole))
    lags = [m for m in sorted(ONE_WATCH) if ALL_MODES[m].trouble is Trouble.LAG]
    left_out = [
        (fault, case.with_fault(step, IDLE))
        for step in whole.steps[: whole.played]
        if step.kind in {Kind.WRITE, Kind.CALL} and step.mode is None
        for fault in (case.with_fault(step, mode) for mode in lags)
        if fault not in tried
    ]

    assert left_out
    for fault, idle in left_out[:: max(1, len(left_out) // LEFT_OUT)]:
        assert course(fault.play()) == course(idle.play()), str(fault)


@pytest.mark.parametrize("shares", [1, 5, 7, 1000])
def test_shares_of_a_sweep_are_all_of_it(shares: int) -> None:
    """It takes an hour and more: in parts it can be done on several machines, or days."""
    cases = list(bare_cases())
    parts = [share_of(cases, number, shares) for number in range(1, shares + 1)]

    assert cases == [case for part in parts for case in part]
    assert len({len(part) for part in parts}) <= 2


@pytest.mark.parametrize("text", ["", "2", "0/5", "6/5", "a/b", "-1/5"])
def test_share_that_there_is_not(text: str) -> None:
    """It is refused: an empty sweep would break no rule."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"write 2/5|from 1 on"):
        read_share(text)
