"""The watch over the event loop's delays."""

import asyncio

from datetime import timedelta

from lbcf.runtime.health import LoopWatch
from lbcf.runtime.metrics import Metrics
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual


async def beating(
    watch: LoopWatch, clock: VirtualClock, *stalls: float
) -> "asyncio.Task[None]":
    """Let the heart beat a second before and after each stall of so many seconds."""
    heart = asyncio.create_task(watch.run())
    for stall in stalls:
        await asyncio.sleep(1)
        clock.advance(timedelta(seconds=stall))
        await asyncio.sleep(1)
    return heart


def after(*stalls: float, then: float = 0.0) -> tuple[float, str | None]:
    """Return worst lag and the check's answer after stalls and some quiet seconds."""
    clock = VirtualClock()
    watch = LoopWatch(clock)

    async def body() -> tuple[float, str | None]:
        """Stall, then beat quietly."""
        heart = await beating(watch, clock, *stalls, *[0.0] * int(then / 2))
        await asyncio.sleep(0.25)
        heart.cancel()
        return round(watch.worst(), 3), watch.check()

    return run_virtual(body())


def test_quiet_loop_passes() -> None:
    """Beats in time are no lag."""
    assert (0, None) == after(0)


def test_short_stall_passes_and_is_measured() -> None:
    """A stall below the limit is in the gauge only."""
    assert (3, None) == after(3)


def test_long_stall_fails() -> None:
    """A stall above the limit is told with its length."""
    assert (
        12,
        "the event loop stood still for 12.0 s, more than 10 s, within the last 30 s",
    ) == after(12)


def test_worst_stall_of_the_window_counts() -> None:
    """A small stall after a big one hides nothing, nor the other way round."""
    assert [12, 12] == [after(12, 2)[0], after(2, 12)[0]]


def test_stall_is_forgotten_after_the_window() -> None:
    """Half a minute later the loop passes again; a smaller, newer stall stays."""
    assert (0, None) == after(12, then=32)
    assert (4, None) == after(12, 0, 0, 0, 0, 0, 4, then=24)


def test_stall_that_lasts_is_seen_before_the_next_beat() -> None:
    """A check that runs in the midst of the stall sees it."""
    clock = VirtualClock()
    watch = LoopWatch(clock)

    async def body() -> float:
        """Ask right after the stall, before the heart can beat."""
        heart = asyncio.create_task(watch.run())
        await asyncio.sleep(0.25)
        clock.advance(timedelta(seconds=20))
        worst = watch.worst()
        heart.cancel()
        return worst

    assert 19.75 == run_virtual(body())


def test_watch_that_does_not_run_fails() -> None:
    """A heartbeat that was never begun is no good sign."""
    assert "has not begun" in str(LoopWatch(VirtualClock()).check())


def test_gauge_shows_the_worst_lag() -> None:
    """The metric says what the watch says."""
    clock, metrics = VirtualClock(), Metrics()
    watch = LoopWatch(clock, metrics)

    async def body() -> float | None:
        """Stall, then read the metric."""
        heart = await beating(watch, clock, 7)
        heart.cancel()
        return metrics.registry.get_sample_value("lbcf_event_loop_lag_seconds")

    assert 7 == run_virtual(body())
