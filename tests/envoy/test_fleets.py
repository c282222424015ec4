"""Who waits for a change of a fleet hears of it."""

import asyncio

from webhooks.envoy.fleets import Fleet


async def test_a_change_before_the_task_has_begun_is_heard() -> None:
    """What is awaited counts from when it was asked for, not from its first step."""
    fleet = Fleet("edge")
    waiting = asyncio.ensure_future(fleet.change())
    fleet.tell()

    async with asyncio.timeout(5):
        await waiting
