"""The time of emulator and driver, which tests push on."""

from datetime import timedelta

from tests.fakes.clock import VirtualClock


class QuickClock(VirtualClock):
    """Waits a twentieth of what it is asked to; loopback is quick."""

    async def sleep(self, delay: timedelta) -> None:
        """Suspend the calling task for less than the delay."""
        await super().sleep(delay / 20)


class FastClock(QuickClock):
    """Tells the emulator that twenty times as much time has passed."""

    def monotonic(self) -> float:
        """Return seconds of AWS."""
        return super().monotonic() * 20
