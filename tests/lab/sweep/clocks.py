"""The clocks of the machine that a process runs on, in virtual time.

`Host.read` stands in the place of `time.clock_gettime` below the real `SystemClock`: which
of the kernel's clocks the code goes by is a part of what is tested.
"""

import asyncio
import time

from datetime import datetime

from lbcf.runtime.clock import SystemClock
from tests.fakes.clock import EPOCH, VirtualClock


_EPOCH = EPOCH.timestamp()
_BOOTS_APART = 1000.0
"""Seconds: a moment of one machine, taken for one of another, is long over or to come."""


class Host:
    """A machine.

    Attributes:
        ahead: seconds that its wall clock is ahead of the API server's.
        boot: its number among the machines; each was booted at another time.
    """

    def __init__(self, ahead: float = 0.0, boot: int = 0) -> None:
        self.ahead = ahead
        self.boot = boot
        self._suspended = 0.0

    def suspend(self, seconds: float) -> None:
        """Note that it is suspended for a while: its monotonic clock stands still."""
        self._suspended += seconds

    def read(self, clock: int) -> float:
        """Read one of the kernel's clocks."""
        true = asyncio.get_running_loop().time()
        if clock == time.CLOCK_REALTIME:
            return _EPOCH + true + self.ahead
        since_boot = true + self.boot * _BOOTS_APART
        return since_boot - (self._suspended if clock == time.CLOCK_MONOTONIC else 0.0)


class HostClock(VirtualClock):
    """The clock that ships, on a machine of the sweep; chance and ids are the seed's."""

    def __init__(self, host: Host, seed: int) -> None:
        super().__init__(seed=seed)
        self.boot = f"boot-{host.boot}"
        self._system = SystemClock(host.read)

    def now(self) -> datetime:
        """Return the moment as the machine has it."""
        return self._system.now()

    def monotonic(self) -> float:
        """Return the machine's seconds."""
        return self._system.monotonic()
