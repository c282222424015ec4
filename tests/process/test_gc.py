"""The garbage collector is told to leave alone what lives, once in each run."""

import asyncio
import gc
import weakref

from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from lbcf.process import host
from lbcf.settings import Settings


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


class _Run:
    """What a run has held."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.usefixtures("restored")
def test_what_an_ended_run_has_held_is_freed_at_the_next_start() -> None:
    """A run that has lost its Lease begins again in the same process, with all to read anew."""
    run = _Run()
    ended = weakref.ref(run)
    host.tune_gc()
    del run
    gc.collect()
    assert ended() is not None

    with pytest.raises(ValueError, match="no level"):
        asyncio.run(
            host.run_process(Settings("controller", log_level="no level"), Mock())
        )

    assert ended() is None
