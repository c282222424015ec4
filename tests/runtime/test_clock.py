"""Which of the kernel's clocks the machine's clock goes by."""

import time

from datetime import UTC, datetime, timedelta

import pytest

from lbcf.runtime.clock import SystemClock


ELAPSED = 1000.0


def test_seconds_go_on_while_the_machine_is_suspended() -> None:
    """What was allowed before is not allowed hours later."""
    clocks = {time.CLOCK_BOOTTIME: ELAPSED, time.CLOCK_MONOTONIC: ELAPSED}
    clock = SystemClock(clocks.__getitem__)
    before = clock.monotonic()

    clocks[time.CLOCK_BOOTTIME] += timedelta(hours=8).total_seconds()  # and no other

    assert timedelta(hours=8) == timedelta(seconds=clock.monotonic() - before)


def test_seconds_are_those_of_the_kernel() -> None:
    """A moment read between two others lies between them."""
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    found = SystemClock().monotonic()

    assert before <= found <= time.clock_gettime(time.CLOCK_BOOTTIME)


@pytest.mark.parametrize("seconds", [0.0, 1_767_225_600.25])
def test_moment_is_that_of_the_wall_clock(seconds: float) -> None:
    """To the microsecond, and in UTC."""
    clock = SystemClock({time.CLOCK_REALTIME: seconds}.__getitem__)

    assert datetime.fromtimestamp(seconds, UTC) == clock.now()
