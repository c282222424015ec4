"""The only place that asks for the time, for chance and for new ids.

Everything above gets a `Clock`, or a moment that was read from one: so a test
can run hours of waiting in milliseconds, and the same seed gives the same run.
"""

import asyncio
import random
import time
import uuid

from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Time, chance and ids, as the rest of the project may have them."""

    def now(self) -> datetime:
        """Return the moment, aware and in UTC; it may jump when the host is set."""

    def monotonic(self) -> float:
        """Return seconds that never go back; only differences mean anything."""

    async def sleep(self, delay: timedelta) -> None:
        """Come back after the delay; at once when it is zero or negative."""

    def jitter(self) -> float:
        """Return a number from 0 up to, but never, 1."""

    def new_id(self) -> str:
        """Return the text of a random UUID that nobody else has."""


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """Return the moment of the host, aware and in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the host's monotonic seconds, the same in every event loop."""
        return time.monotonic()

    async def sleep(self, delay: timedelta) -> None:
        """Suspend the calling task for the delay."""
        await asyncio.sleep(delay.total_seconds())

    def jitter(self) -> float:
        """Return a number from 0 up to 1; good for spreading, not for secrets."""
        return random.random()

    def new_id(self) -> str:
        """Return the text of a version 4 UUID."""
        return str(uuid.uuid4())
