"""One member in 200 that the load balancer refuses, or on which the driver hangs.

How long that keeps the other 199 from being registered, driver by driver. Where the poisoned
member comes among them matters: the first one keeps all that come after it, and whoever finds
it by halving, the first half first, has most to do for it.
"""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta

import attrs

from lbcf import sdk
from lbcf.core.model.operations import Operation
from tests.lab.batches.caller import Caller, Member, as_object, members
from tests.lab.batches.stages import STAGES, Scene, Stage
from tests.sdk.services import serving
from webhooks.memory import MemoryDriver


MEMBERS = 200
PACE = timedelta(milliseconds=20)
"""What a member takes that is well."""


class Hanging(MemoryDriver):
    """Never ends with one member.

    Attributes:
        poisoned: its address; empty: all are well.
    """

    batch = sdk.Batch(max_items=100)
    poisoned: str = ""

    async def ensure_backend(
        self, request: sdk.EnsureBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Put it there, or hang."""
        if request.backend_addr == self.poisoned:
            await asyncio.Event().wait()
        await asyncio.sleep(PACE.total_seconds())
        return await super().ensure_backend(request)


@contextlib.asynccontextmanager
async def memory(number: int) -> AsyncIterator[Scene]:
    """Keep members in memory."""
    driver = Hanging()

    async def hang(member: Member) -> Member:
        driver.poisoned = member.address
        return member

    lb_info = {"name": "front"}
    yield Scene(driver, lb_info, members(number), poisons={"the driver hangs": hang})


USUAL = ("memory", "elbv2", "haproxy", "envoy", "f5", "netscaler")
_STAGES: Mapping[str, Stage] = {"memory": memory} | {
    name: stage for name, (stage, _) in STAGES.items()
}


@attrs.frozen
class Delay:
    """How late members were that are well.

    Attributes:
        last: seconds until the last of them was registered.
        each: the same of each, by record.
        said: what was said of the poisoned one; None: there was none.
    """

    last: float
    each: Mapping[str, float]
    said: str | None = None

    def more_than(self, before: "Delay") -> float:
        """Return by how much a member was later than before, at most, in seconds."""
        return max(at - before.each[record] for record, at in self.each.items())


async def delay(
    name: str, poison: str | None, number: int = MEMBERS, place: int = 0
) -> Delay:
    """Register members of a stage, in order; the one at a place may be poisoned."""
    async with _STAGES[name](number) as scene:
        sick = scene.of[place]
        if poison is not None:
            sick = await scene.poisons[poison](sick)
        async with (
            serving(sdk.Service(scene.driver)) as url,
            Caller.of(
                as_object(scene.driver, url, batched=True), scene.lb_info, turns=number
            ) as caller,
        ):
            before, refused, after = await asyncio.gather(
                caller.all(Operation.ENSURE_BACKEND, scene.of[:place]),
                caller.all(Operation.ENSURE_BACKEND, [sick], attempts=1),
                caller.all(Operation.ENSURE_BACKEND, scene.of[place + 1 :]),
            )
    each = {**before.each, **after.each}
    assert len(each) == number - 1
    assert refused.failures or poison is None, "it was not refused, but late"
    return Delay(max(each.values()), each, ", ".join(refused.failures) or None)


async def poisons_of(name: str) -> list[str]:
    """Return how a member of a stage can be poisoned."""
    async with _STAGES[name](1) as scene:
        return list(scene.poisons)
