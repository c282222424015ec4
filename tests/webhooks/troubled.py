"""One operation while something is wrong, and again until it has come to its end.

What the fault tests of all drivers share: they set a fault, ask once, look at what was
said and at what is there, take the fault away, ask again as the controller does.
"""

import asyncio

from collections.abc import Awaitable, Callable

import pytest

from lbcf.sdk import ListBackendsAnswer, Refusal, Running, Succ


OPERATIONS = ("ensure", "drain", "deregister", "list")

PATIENCE = 50.0
"""Seconds for what is to happen at last, on whatever machine."""

PAUSE = 0.02
"""Seconds between two questions."""

Ask = Callable[[], Awaitable[Succ | Running | ListBackendsAnswer]]


async def told(ask: Ask) -> str:
    """Ask once; return what the driver says is wrong."""
    with pytest.raises(Refusal) as caught:
        await ask()
    return caught.value.msg


async def settled(ask: Ask) -> ListBackendsAnswer | None:
    """Ask until it is done; return the list where that is what was asked for."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                answer = await ask()
            except Refusal:
                answer = Running()
            if isinstance(answer, ListBackendsAnswer):
                return answer
            if isinstance(answer, Succ):
                return None
            await asyncio.sleep(PAUSE)
