"""What all scenarios are made of: phases on a ground, each with its outcome.

`storm`, `variants` and `nightly` put them in order.
"""

import asyncio
import contextlib
import time

from collections.abc import AsyncIterator

from tests.lab.bench.ground import Ground, Phase
from tests.lab.bench.outcome import (
    RELEASED,
    STATUS,
    Outcome,
    outcome,
    time_deregistration,
    time_registration,
)
from tests.lab.bench.pods import Batch


IDLE_SECONDS = 20.0
SETTLE_SECONDS = 8.0
REST_SECONDS = 5.0


class Scenario:
    """Phases of a size on a ground of its own.

    Attributes:
        floors: seconds that a phase needs at least, by its name, where known before.
    """

    def __init__(self, ground: Ground, size: int) -> None:
        self.ground = ground
        self.size = size
        self.outcomes: list[Outcome] = []
        self.floors: dict[str, float] = {}

    @contextlib.asynccontextmanager
    async def measured(self, name: str) -> AsyncIterator[tuple[Phase, Outcome]]:
        """Measure a block; its outcome is complete once the block has ended."""
        blank = Outcome(self.size, name, 0.0)
        async with self.ground.phase(f"{self.size}-{name}") as phase:
            yield phase, blank
        found = outcome(self.ground, phase, name, self.size)
        found.lifecycles = blank.lifecycles
        found.floor = self.floors.get(name)
        self.outcomes.append(found)

    async def start(self) -> None:
        """Let our programs come to rest with nothing to do."""
        async with self.measured("nothing there"):
            await asyncio.sleep(3)

    async def register(self, batch: Batch) -> None:
        """Make all pods ready as fast as a rollout would."""
        async with self.measured("registration") as (phase, found):
            found.lifecycles = batch.count
            await self.ground.pods.make_all(batch)
            await self.written(phase, "controller", STATUS, batch.count)
        time_registration(self.outcomes[-1], phase, batch.addresses())
        await self.check_registered(batch.count)

    async def written(self, phase: Phase, user: str, what: str, count: int) -> None:
        """Wait for so many writes of a program in a phase."""
        await self.ground.until_written(phase.position, user, what, count)

    async def check_registered(self, count: int) -> None:
        """Look whether the driver has as many members as it should.

        Raises:
            AssertionError: it has not; the figures would mean nothing.
        """
        members = await self.ground.stage.control("members")
        assert count == len(members["members"]), len(members["members"])

    async def idle(self) -> None:
        """Do nothing, with everything there."""
        await asyncio.sleep(SETTLE_SECONDS)
        async with self.measured("idle"):
            await asyncio.sleep(IDLE_SECONDS)

    async def cold(self) -> None:
        """Start our programs with everything there."""
        await asyncio.sleep(SETTLE_SECONDS)
        await self.ground.stop_ours()
        async with self.measured("cold start") as (phase, _):
            await self.ground.start_ours()
            working = time.time() - phase.began
            await asyncio.sleep(REST_SECONDS)
        self.outcomes[-1].seconds = working

    async def deregister(self, batch: Batch) -> None:
        """Delete all pods."""
        await asyncio.sleep(SETTLE_SECONDS)
        async with self.measured("deregistration") as (phase, found):
            found.lifecycles = batch.count
            await self.ground.pods.delete_all(batch)
            await self.written(phase, "deregistrar", RELEASED, batch.count)
        time_deregistration(self.outcomes[-1], phase, batch.addresses())
        await self.check_registered(0)
        await asyncio.sleep(SETTLE_SECONDS)
