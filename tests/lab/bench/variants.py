"""Storms with a driver that is slow, that fails one call in ten, or that takes batches."""

from tests.lab.bench.ground import Ground
from tests.lab.bench.outcome import Outcome
from tests.lab.bench.scenario import Scenario


SLOW_SECONDS = 0.05
SLOW_AT_ONCE = 5
FAILING_EVERY = 10
OPERATIONS = ("ensureBackend", "drainBackend", "deregisterBackend")


class Variants(Scenario):
    """Registration and deletion only, with a driver told to misbehave.

    The floor is what the driver itself needs: its calls, so many at a time.
    """

    def __init__(self, ground: Ground, size: int) -> None:
        super().__init__(ground, size)
        self._limit = 32

    async def run(self, variant: str) -> list[Outcome]:
        """Go through both phases; `variant` is `slow` or `failing`."""
        if variant == "slow":
            self._limit = SLOW_AT_ONCE
            calls = {"registration": 1, "deregistration": 2}
            for name, each in calls.items():
                seconds = self.size * each * SLOW_SECONDS / SLOW_AT_ONCE
                self.floors[name] = seconds
        await self._misbehave(variant)
        await self.ground.start_ours()
        await self.ground.stage.setting(
            webhooks=[{"name": "drainBackend"}], maxConcurrentCalls=self._limit
        )
        batch = self.ground.batch("a", self.size)
        await self.register(batch)
        await self.deregister(batch)
        return self.outcomes

    async def _misbehave(self, variant: str) -> None:
        """Tell the driver how to go on from now on."""
        how = (
            {"mode": "slow", "seconds": SLOW_SECONDS}
            if variant == "slow"
            else {"mode": "fail", "every": FAILING_EVERY}
        )
        for operation in OPERATIONS:
            body = {"operation": operation, "times": 1_000_000, **how}
            await self.ground.stage.control("behave", **body)

    async def check_registered(self, count: int) -> None:
        """Wait for the records that needed a second attempt, then look at the driver."""
        registered = len(await self.ground.stage.registered())
        while registered < count:
            registered = len(await self.ground.stage.registered())
        await super().check_registered(count)


class Batched(Scenario):
    """Registration and deletion, by a driver that declares batches or does not."""

    async def run(self, *, batched: bool) -> list[Outcome]:
        """Go through both phases."""
        batch = {"batch": {"maxItems": 100}} if batched else {}
        members = [{"name": one, "timeout": "2s", **batch} for one in OPERATIONS]
        await self.ground.start_ours()
        await self.ground.stage.setting(webhooks=[*members, {"name": "listBackends"}])
        pods = self.ground.batch("a", self.size)
        await self.register(pods)
        await self.deregister(pods)
        return self.outcomes
