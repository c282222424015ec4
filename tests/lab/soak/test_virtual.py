"""The crowd in virtual time: the promises hold, and the share is what it should be."""

from pathlib import Path

import pytest

from tests.lab.soak import virtual
from tests.lab.sweep.pool import silenced


@pytest.mark.parametrize("trouble", [False, True], ids=["calm", "trouble"])
def test_nobody_is_removed_leaked_or_missing(tmp_path: Path, *, trouble: bool) -> None:
    """Whatever fails: addresses have one owner at a time, and all comes to rest."""
    with silenced():
        result = virtual.measure(tmp_path, 1, 60.0, trouble=trouble)

    figures = result.figures
    assert (0, True) == (figures["wrongly_removed"], figures["at_rest"])
    assert trouble is (figures["kills"] != 0)
    assert [] == [wrong for wrong in result.wrong if not wrong.startswith("served")]


def test_all_but_a_hundredth_of_the_ready_time_is_served(tmp_path: Path) -> None:
    """As long as nothing fails."""
    with silenced():
        result = virtual.measure(tmp_path, 1, 60.0, trouble=False)

    assert [] == result.wrong
