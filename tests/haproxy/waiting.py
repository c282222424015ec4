"""Waiting for the real world, with an end."""

import asyncio

from collections.abc import Awaitable, Callable

from tests.patience import PATIENCE


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Ask again and again until the condition holds.

    Raises:
        TimeoutError: it never did.
    """
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110  (the world has no events for it)
            await asyncio.sleep(0.01)
