"""Requests to the driver, with only what a test is about said, and askers of them."""

import asyncio
import re

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from lbcf.sdk import (
    DeregisterBackendRequest,
    Drain,
    DrainBackendRequest,
    EnsureBackendRequest,
    Fail,
    ListBackendsRequest,
    RetryAfter,
    Running,
    Succ,
)


RECORD = "6a1b0c3e-7d5f-4f0e-9a35-2f0d9c1b7e11"
"""The uid of some record."""

ADDRESS = "198.18.0.1:8080"

PATIENCE = timedelta(seconds=50)
"""For what is to happen at last, on whatever machine."""


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


def a_drain(
    lb_info: dict[str, str],
    address: str = ADDRESS,
    record: str = RECORD,
    seconds: float = 30,
) -> DrainBackendRequest:
    """Return a request to drain a member within so many seconds from now."""
    now = datetime.now(UTC)
    return DrainBackendRequest(
        record_id=record,
        lb_info=lb_info,
        backend_addr=address,
        drain=Drain(started_at=now, deadline=now + timedelta(seconds=seconds)),
    )


def a_deregister(
    lb_info: dict[str, str],
    address: str = ADDRESS,
    record: str = RECORD,
    *,
    drained: bool = True,
) -> DeregisterBackendRequest:
    """Return a request to deregister a member."""
    return DeregisterBackendRequest(
        record_id=record, lb_info=lb_info, backend_addr=address, drained=drained
    )


def a_list(lb_info: dict[str, str]) -> ListBackendsRequest:
    """Return a request to list the members."""
    return ListBackendsRequest(lb_info=lb_info)


async def until_done(ask: Callable[[], Awaitable[Succ | Running]]) -> list[str]:
    """Ask until the answer is Succ; return what was said meanwhile, each text once."""
    said: list[str] = []
    async with asyncio.timeout(PATIENCE.total_seconds()):
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
    async with asyncio.timeout(PATIENCE.total_seconds()):
        while True:
            answer = await ask()
            if isinstance(answer, Running) and re.search(text, answer.msg or ""):
                return str(answer.msg)
            await asyncio.sleep(0.1)
