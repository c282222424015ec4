"""S4: only a clock that is written when it was heard keeps a drain bounded and whole."""

import pytest

from tests.lab.model import drain_clock
from tests.lab.model.drain_clock import BOUND, BUILT, TIMEOUT, outcome


@pytest.mark.parametrize("crashes", drain_clock.CRASHES)
def test_a_clock_written_when_heard_ends_in_time_and_offers_all(crashes: int) -> None:
    """A drain is over after its time, the downtime and the driver's absence at most."""
    found = outcome(BUILT, crashes)

    assert found.latest <= BOUND
    assert TIMEOUT == found.shortest


def test_a_clock_in_memory_starts_anew_at_each_crash() -> None:
    """A drain that only the process remembers has no bound."""
    assert outcome("memory", 6).latest > BOUND


@pytest.mark.parametrize("clock", ["deletionTimestamp", "first try"])
def test_a_clock_that_starts_unheard_cuts_drains_short(clock: str) -> None:
    """While nobody stops new traffic, nothing is drained."""
    assert outcome(clock, 1).shortest < TIMEOUT


def test_the_comparison_comes_out_as_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The table says all four, and none is a surprise."""
    assert 0 == drain_clock.show()
    assert 4 == len(capsys.readouterr().out.splitlines())
