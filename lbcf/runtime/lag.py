"""Watches how late the event loop is: a heartbeat that measures its own delay.

A loop that stands still answers no probe, which the kubelet sees as a time-out.
This one tells of the stalls that are over: a call that blocks now and then.
"""

from collections import deque
from datetime import timedelta

from lbcf.runtime.clock import Clock
from lbcf.runtime.metrics import Metrics


class LoopWatch:
    """Measures the loop while `run` runs; `check` is a check for `health`."""

    def __init__(
        self,
        clock: Clock,
        metrics: Metrics | None = None,
        *,
        interval: timedelta = timedelta(milliseconds=500),
        window: timedelta = timedelta(seconds=30),
        limit: timedelta = timedelta(seconds=10),
    ) -> None:
        """Get ready.

        Args:
            clock: sleeps between the beats and tells how long that took.
            metrics: gets the worst lag of the window, when it is read.
            interval: from beat to beat.
            window: how far back the worst lag is looked for.
            limit: a lag above it fails the check.
        """
        self._clock = clock
        self._interval = interval.total_seconds()
        self._window = window.total_seconds()
        self._limit = limit.total_seconds()
        self._expected: float | None = None
        # (moment, lag), the lags falling: whatever is smaller than a later lag can
        # never again be the worst.
        self._lags: deque[tuple[float, float]] = deque()
        if metrics:
            metrics.loop_lag.set_function(self.worst)

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self._expected = self._clock.monotonic() + self._interval
            await self._clock.sleep(timedelta(seconds=self._interval))
            self._note(self._overdue())

    def worst(self) -> float:
        """Return the worst lag of the window in seconds, counting one that lasts."""
        oldest = self._clock.monotonic() - self._window
        while self._lags and self._lags[0][0] < oldest:
            self._lags.popleft()
        past = self._lags[0][1] if self._lags else 0.0
        return max(past, self._overdue())

    def check(self) -> str | None:
        """Return what is wrong when the loop was too late, or was never watched."""
        if self._expected is None:
            return "the heartbeat of the event loop has not begun"
        worst = self.worst()
        if worst <= self._limit:
            return None
        return (
            f"the event loop stood still for {worst:.1f} s, more than "
            f"{self._limit:g} s, within the last {self._window:g} s"
        )

    def _overdue(self) -> float:
        """Return by how many seconds the next beat is late."""
        if self._expected is None:
            return 0.0
        return max(0.0, self._clock.monotonic() - self._expected)

    def _note(self, lag: float) -> None:
        """Remember a lag as long as it may be the worst of a window."""
        while self._lags and self._lags[-1][1] <= lag:
            self._lags.pop()
        self._lags.append((self._clock.monotonic(), lag))
