"""The only place that asks for the time, for chance and for new ids.

Everything above gets a `Clock`, or a moment that was read from one: so a test
can run hours of waiting in milliseconds, and the same seed gives the same run.
"""

import asyncio
import hashlib
import random
import time
import uuid

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """Time, chance and ids, as the rest of the project may have them."""

    def now(self) -> datetime:
        """Return the moment, aware and in UTC; it may jump when the host is set."""

    def monotonic(self) -> float:
        """Return seconds that never go back; only differences mean anything.

        They go on while the machine is suspended; the timers of asyncio do not.
        """

    @property
    def boot(self) -> str:
        """Return which boot of which machine `monotonic` counts from, empty: not known.

        Processes of one boot share the clock, so that one goes on counting where another
        one has ended.
        """

    async def sleep(self, delay: timedelta) -> None:
        """Come back after the delay; at once when it is zero or negative."""

    def jitter(self) -> float:
        """Return a number from 0 up to, but never, 1."""

    def new_id(self) -> str:
        """Return the text of a random UUID that nobody else has."""


# Permissions and waits are about what happens elsewhere, which goes on while this machine
# is suspended. CLOCK_MONOTONIC (time.monotonic, and the timers of asyncio) stands still
# then: a call could leave with a permission that ran out hours ago. What it costs is that
# timers ring late after a suspension; whoever waits for a moment asks this clock again.
# Only Linux has CLOCK_BOOTTIME, and only there the processes run.
_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_BOOT_DIGITS = 16


@cache
def _read_boot() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # Two time namespaces of one kernel count from different moments
        # (time_namespaces(7)).
        namespace = Path("/proc/self/ns/time").stat().st_ino
    except OSError:
        return ""
    return hashlib.sha256(f"{boot}/{namespace}".encode()).hexdigest()[:_BOOT_DIGITS]


class SystemClock:
    """The clocks of the machine.

    Args:
        read: reads one of the kernel's clocks, in seconds; None: the kernel itself does.
    """

    _read: Callable[[int], float] = staticmethod(time.clock_gettime)

    def __init__(self, read: Callable[[int], float] | None = None) -> None:
        if read is not None:
            self._read = read

    def now(self) -> datetime:
        """Return the moment of the host, aware and in UTC."""
        return datetime.fromtimestamp(self._read(time.CLOCK_REALTIME), UTC)

    def monotonic(self) -> float:
        """Return the host's seconds since its boot, those of its suspensions included."""
        return self._read(_ELAPSED)

    @property
    def boot(self) -> str:
        """Return a digest of the kernel's id of its boot; empty elsewhere than on Linux."""
        return _read_boot()

    async def sleep(self, delay: timedelta) -> None:
        """Suspend the calling task for the delay."""
        await asyncio.sleep(delay.total_seconds())

    def jitter(self) -> float:
        """Return a number from 0 up to 1; good for spreading, not for secrets."""
        return random.random()

    def new_id(self) -> str:
        """Return the text of a version 4 UUID."""
        return str(uuid.uuid4())
