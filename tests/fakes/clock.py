"""A clock that tells the virtual loop's time, with chance and ids from a seed."""

import asyncio
import random
import uuid

from datetime import UTC, datetime, timedelta


EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""The moment at which virtual time begins when a test names no other."""


class VirtualClock:
    """Implements `lbcf.runtime.clock.Clock` without looking at the host.

    Inside a running loop its seconds are the loop's, so use it in a virtual loop;
    `advance` adds to them. Outside of any loop only `advance` and `sleep` move it.

    Attributes:
        boot: the machine's; two clocks with one boot tell the same seconds.
    """

    def __init__(self, start: datetime = EPOCH, seed: int = 0) -> None:
        self.boot = "boot"
        self._start = start
        self._chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._advanced = 0.0

    def now(self) -> datetime:
        """Return the virtual moment."""
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return the virtual seconds since the start."""
        return self._loop_seconds() + self._advanced

    async def sleep(self, delay: timedelta) -> None:
        """Let the loop's time move on by the delay."""
        await asyncio.sleep(delay.total_seconds())

    def jitter(self) -> float:
        """Return the next number of the seed's sequence."""
        return self._chance.random()

    def new_id(self) -> str:
        """Return the next id of the seed's sequence, formed like a version 4 UUID."""
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))

    def advance(self, delay: timedelta) -> None:
        """Move on by hand: a stalled process, or code that runs in no loop.

        Timers of the loop do not notice.
        """
        self._advanced += delay.total_seconds()

    @staticmethod
    def _loop_seconds() -> float:
        """Return the running loop's time; zero when none runs."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return 0.0
