"""Requests to the driver, with only what a test is about said, and askers of them."""

import asyncio
import re

from collections.abc import Awaitable, Callable

from lbcf.sdk import EnsureBackendRequest, Fail, RetryAfter, Running, Succ
from tests.patience import PATIENCE
from tests.webhooks.requests import ADDRESS, RECORD


def an_ensure(
    lb_info: dict[str, str],
    address: str = ADDRESS,
    record: str = RECORD,
    **parameters: str,
) -> EnsureBackendRequest:
    """Return a request to ensure a member."""
    return EnsureBackendRequest(
        record_id=record, lb_info=lb_info, backend_addr=address, parameters=parameters
    )


async def until_done(ask: Callable[[], Awaitable[Succ | Running]]) -> list[str]:
    """Ask until the answer is Succ; return what was said meanwhile, each text once."""
    said: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                answer = await ask()
            except (Fail, RetryAfter) as error:
                answer = Running(msg=error.msg)
            if answer.msg and answer.msg not in said:
                said.append(answer.msg)
            if isinstance(answer, Succ):
                return said
            await asyncio.sleep(0.1)


async def until_said(ask: Callable[[], Awaitable[Succ | Running]], text: str) -> str:
    """Ask until the answer is Running with this text, a pattern; return the whole."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = await ask()
            if isinstance(answer, Running) and re.search(text, answer.msg or ""):
                return str(answer.msg)
            await asyncio.sleep(0.1)
