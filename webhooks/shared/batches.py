"""What is left of a batch when most of it was done together: one by one, with its own outcome."""

import asyncio

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from lbcf.sdk import Answer, NotThere, Outcome, Refusal, RetriedRequest, Running, Succ


_R = TypeVar("_R", bound=RetriedRequest[Answer])

_log = structlog.get_logger(__name__)


async def one_by_one(
    method: Callable[[_R], Awaitable[Succ | Running]], requests: Sequence[_R]
) -> dict[str, Outcome]:
    """Call the method for one member with each; return what it returned or refused.

    One that broke is left out: nobody knows what became of it.
    """
    found = await asyncio.gather(*map(method, requests), return_exceptions=True)
    outcomes: dict[str, Outcome] = {}
    for request, result in zip(requests, found, strict=True):
        if isinstance(result, Succ | Running | Refusal | NotThere):
            outcomes[request.record_id] = result
        elif isinstance(result, Exception):
            _log.error("driver.broken", record_id=request.record_id, exc_info=result)
        else:
            raise result
    return outcomes
