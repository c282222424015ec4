"""The garbage collector is told to leave alone what lives, once."""

import gc

from collections.abc import Iterator

import pytest

from lbcf.process import host


@pytest.fixture
def restored() -> Iterator[None]:
    """Put the interpreter's own settings back afterwards."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.usefixtures("restored")
def test_what_lives_is_left_alone_and_the_rest_is_looked_at_less_often() -> None:
    """The frozen are many; the thresholds are ours."""
    frozen = gc.get_freeze_count()

    host.tune_gc()

    assert gc.get_freeze_count() > frozen
    assert (host.YOUNG, host.MIDDLE, host.OLD) == gc.get_threshold()
