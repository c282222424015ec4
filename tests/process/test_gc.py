"""The garbage collector is told to leave alone what lives, once in each run."""

import asyncio
import gc
import subprocess
import sys
import weakref

from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from lbcf.process import run_process
from lbcf.runtime import garbage
from lbcf.runtime.shutdown import StopRequest
from lbcf.settings import Settings


@pytest.fixture
def restored() -> Iterator[None]:
    """Put the interpreter's own settings back afterwards."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


class _Run:
    """What a run has held."""

    def __init__(self) -> None:
        self.itself = self


def run_in_vain() -> None:
    """Begin a run that ends at once."""
    with pytest.raises(ValueError, match="no level"):
        asyncio.run(
            run_process(
                Settings("controller", log_level="no level"), Mock(), StopRequest()
            )
        )


def test_cycles_are_looked_for_less_often_before_anything_large_is_imported() -> None:
    """What the program imports is most of what it allocates in its first second."""
    asked = (
        "import gc, sys",
        "counted = []",
        "gc.callbacks.append(lambda phase, info: counted.append(info['generation']))",
        "import lbcf.__main__",
        "print(len(counted), gc.get_threshold(), 'aiohttp' in sys.modules)",
    )
    done = subprocess.run(
        [sys.executable, "-c", "; ".join(asked)],
        capture_output=True,
        text=True,
        check=True,
    )

    times, _, told = done.stdout.partition(" ")
    ours = (garbage.YOUNG, garbage.MIDDLE, garbage.OLD)
    assert f"{ours} True" == told.strip()
    # Twice a collection: its begin and its end. Python's own thresholds make it hundreds.
    assert int(times) < 100


@pytest.mark.usefixtures("restored")
def test_what_is_imported_is_left_alone_from_the_start() -> None:
    """It is most of what there is until something has been read."""
    run_in_vain()

    assert gc.get_freeze_count() > len(gc.get_objects())


@pytest.mark.usefixtures("restored")
def test_what_has_been_read_is_left_alone() -> None:
    """All that lives is frozen, and no garbage with it."""
    run_in_vain()
    gone = weakref.ref(_Run())
    read = _Run()

    garbage.leave_alone()

    assert gone() is None
    assert all(one is not read for one in gc.get_objects())


@pytest.mark.usefixtures("restored")
def test_what_an_ended_run_has_held_is_freed_at_the_next_start() -> None:
    """A run that has lost its Lease begins again in the same process, with all to read anew."""
    run = _Run()
    ended = weakref.ref(run)
    garbage.leave_alone()
    del run
    gc.collect()
    assert ended() is not None

    run_in_vain()

    assert ended() is None
