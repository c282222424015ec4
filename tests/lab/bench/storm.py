"""The storm: the life of so many pods, phase by phase, between two floors of the same.

floor -> registration -> idle -> single pods -> rolling -> cold start
-> deregistration -> restart in the middle of a registration, and of a deletion -> floor
"""

import asyncio

from tests.e2e import objects
from tests.lab.bench.ground import NAMESPACE
from tests.lab.bench.outcome import (
    DELETED,
    MADE,
    RELEASED,
    STATUS,
    Outcome,
    floor_seconds,
    time_deregistration,
    time_registration,
)
from tests.lab.bench.pods import Batch, Pods
from tests.lab.bench.scenario import SETTLE_SECONDS, Scenario


SINGLES = 30
SINGLE_PAUSE = 0.4
ROLLING_RATE = 100.0
LARGEST_RESTART = 2_000


class Storm(Scenario):
    """All phases of a life."""

    async def run(self, *, quick: bool = False) -> list[Outcome]:
        """Go through all phases; when in haste, through the two storms alone."""
        before = await self.find_floors("f")
        await self.live(quick=quick)
        await self.ground.stop_ours()
        self.compare(before, await self.find_floors("g"))
        return self.outcomes

    async def live(self, *, quick: bool) -> None:
        """Go through the phases in which our programs run."""
        ground, stage = self.ground, self.ground.stage
        await ground.start_ours()
        await stage.setting()
        await self.start()
        first, second = ground.batch("a", self.size), ground.batch("b", self.size)
        await self.register(first)
        if quick:
            await asyncio.sleep(SETTLE_SECONDS)
            await self.deregister(first)
            return
        await self.idle()
        await self.singles()
        await self.roll(first, second)
        await self.cold()
        await self.deregister(second)
        await self.restarts()

    async def find_floors(self, prefix: str) -> dict[str, float]:
        """Have the bare loop do what our programs have to; the seconds, by phase."""
        seconds: dict[str, float] = {}
        ground, place = self.ground, f"{NAMESPACE}-floor"
        owner = await ground.stage.client.create(
            objects.GROUPS, place, objects.a_group(prefix)
        )
        pods = Pods(ground.pods.pipes, place, {"app": "web"})
        batch = ground.batch(prefix, self.size)
        for name, phase, users, first in (
            ("registration", "register", pods.make_all, MADE),
            ("deregistration", "deregister", pods.delete_all, DELETED),
        ):
            bare = await ground.floor(phase, place, owner.meta.uid, self.size)
            async with self.measured(f"floor of {name}") as (measured, found):
                found.lifecycles = self.size
                cpu, _ = await asyncio.gather(bare.go(), users(batch))
                await asyncio.sleep(0.3)
            seconds[name] = floor_seconds(measured.entries, first)
            self.outcomes[-1].seconds = seconds[name]
            self.outcomes[-1].cpu["floor"] = cpu
            await asyncio.sleep(2)
        return seconds

    def compare(self, before: dict[str, float], after: dict[str, float]) -> None:
        """Hold phases against floors found before and after: the machine may change."""
        for found in self.outcomes:
            if found.name in before:
                found.floor = (before[found.name] + after[found.name]) / 2

    async def singles(self) -> None:
        """Make pods one by one on a quiet cluster, and delete them one by one."""
        pods, batch = self.ground.pods, self.ground.batch("s", SINGLES)
        async with self.measured("single registrations") as (phase, found):
            found.lifecycles = SINGLES
            for index in range(SINGLES):
                await pods.make(batch, index)
                await asyncio.sleep(SINGLE_PAUSE)
            await self.written(phase, "controller", STATUS, SINGLES)
        time_registration(self.outcomes[-1], phase, batch.addresses())
        await asyncio.sleep(SETTLE_SECONDS)
        async with self.measured("single deletions") as (phase, found):
            found.lifecycles = SINGLES
            for index in range(SINGLES):
                await pods.delete(batch, index)
                await asyncio.sleep(SINGLE_PAUSE)
            await self.written(phase, "deregistrar", RELEASED, SINGLES)
        time_deregistration(self.outcomes[-1], phase, batch.addresses())

    async def roll(self, old: Batch, new: Batch) -> None:
        """Replace every pod."""
        async with self.measured("rolling") as (phase, found):
            found.lifecycles = old.count
            await self.ground.pods.replace_all(old, new, ROLLING_RATE)
            await self.written(phase, "deregistrar", RELEASED, old.count)
            await self.written(phase, "controller", STATUS, new.count)
        names = {**old.addresses(), **new.addresses()}
        time_registration(self.outcomes[-1], phase, names)
        time_deregistration(self.outcomes[-1], phase, names)
        await self.check_registered(new.count)

    async def restarts(self) -> None:
        """Restart our programs in the middle of a registration, and of a deletion."""
        count = min(self.size, LARGEST_RESTART)
        batch, pods = self.ground.batch("r", count), self.ground.pods
        names = batch.addresses()
        async with self.measured("registration, restarted") as (phase, found):
            found.lifecycles = count
            making = asyncio.create_task(pods.make_all(batch))
            await self.written(phase, "controller", STATUS, count // 2)
            await self.restart()
            await making
            await self.written(phase, "controller", STATUS, count)
            await self.until_registered(count)
        time_registration(self.outcomes[-1], phase, names)
        await asyncio.sleep(SETTLE_SECONDS)
        async with self.measured("deregistration, restarted") as (phase, found):
            found.lifecycles = count
            deleting = asyncio.create_task(pods.delete_all(batch))
            await self.written(phase, "deregistrar", RELEASED, count // 2)
            await self.restart()
            await deleting
            await self.written(phase, "deregistrar", RELEASED, count)
        time_deregistration(self.outcomes[-1], phase, names)
        await self.check_registered(0)

    async def restart(self) -> None:
        """End both programs as Kubernetes would, and start them again."""
        await self.ground.stop_ours()
        await self.ground.start_ours()

    async def until_registered(self, count: int) -> None:
        """Wait until so many records say that they are registered."""
        stage = self.ground.stage
        registered = len(await stage.registered())
        while registered < count:
            registered = len(await stage.registered())
