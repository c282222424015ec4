"""The time of emulator and driver, which tests push on."""

from datetime import timedelta

from tests.fakes.clock import VirtualClock


class QuickClock(VirtualClock):
    """Waits a twentieth of what it is asked to; loopback is quick."""

    def __init__(self) -> None:
        super().__init__()
        self._stopped: float | None = None

    def stop(self) -> None:
        """Move by `advance` alone from now on: not while a slow machine does its work."""
        self._stopped = self._loop_seconds()

    def monotonic(self) -> float:
        """Return seconds since the start."""
        if self._stopped is None:
            return super().monotonic()
        return self._stopped + self._advanced

    async def sleep(self, delay: timedelta) -> None:
        """Suspend the calling task for less than the delay."""
        await super().sleep(delay / 20)


class FastClock(QuickClock):
    """Tells the emulator that twenty times as much time has passed."""

    def monotonic(self) -> float:
        """Return seconds of AWS."""
        return super().monotonic() * 20
