"""One member in many on which the driver hangs: how long that keeps the others."""

import asyncio

from datetime import timedelta

from lbcf import sdk
from lbcf.core.model.operations import Operation
from tests.lab.batches.caller import Caller, as_object, members
from tests.sdk.services import serving
from webhooks.memory import MemoryDriver


MEMBERS = 200
PACE = timedelta(milliseconds=20)
"""What a member takes that is well."""


class Hanging(MemoryDriver):
    """Never ends with one member.

    Attributes:
        poisoned: its record; empty: all are well.
    """

    batch = sdk.Batch(max_items=100)
    poisoned: str = ""

    async def ensure_backend(
        self, request: sdk.EnsureBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Put it there, or hang."""
        if request.record_id == self.poisoned:
            await asyncio.Event().wait()
        await asyncio.sleep(PACE.total_seconds())
        return await super().ensure_backend(request)


async def slowest(poisoned: str) -> float:
    """Register members; return how long the last one of the healthy ones took."""
    driver = Hanging()
    driver.poisoned = poisoned
    async with (
        serving(sdk.Service(driver)) as url,
        Caller.of(as_object(driver, url, batched=True), {"name": "front"}) as caller,
    ):
        others = [one for one in members(MEMBERS) if one.record != poisoned]
        sick = [one for one in members(MEMBERS) if one.record == poisoned]
        hangs = asyncio.create_task(
            caller.all(Operation.ENSURE_BACKEND, sick, attempts=1)
        )
        found = await caller.all(Operation.ENSURE_BACKEND, others)
        await hangs
    assert len(found.each) == len(others)
    return max(found.each.values())
