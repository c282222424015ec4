"""S4: only a clock that is written keeps a drain both bounded and whole."""

import pytest

from tests.model import drain_clock
from tests.model.drain_clock import DOWNTIME, TIMEOUT, outcome


@pytest.mark.parametrize("crashes", drain_clock.CRASHES)
def test_a_written_clock_ends_in_time_and_offers_all(crashes: int) -> None:
    """A drain is over after its time and the downtime at most, and was offered whole."""
    found = outcome("status.drain", crashes)

    assert found.latest <= TIMEOUT + DOWNTIME
    assert TIMEOUT == found.shortest


def test_a_clock_in_memory_starts_anew_at_each_crash() -> None:
    """A drain that only the process remembers has no bound."""
    assert outcome("memory", 6).latest > TIMEOUT + DOWNTIME


def test_the_deletion_s_clock_cuts_drains_short() -> None:
    """A drain counted from the deletion is offered in part only after downtime."""
    assert outcome("deletionTimestamp", 1).shortest < TIMEOUT


def test_the_comparison_comes_out_as_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The table says all three, and none is a surprise."""
    assert 0 == drain_clock.show()
    assert 3 == len(capsys.readouterr().out.splitlines())
