"""Batches of drivers that change many members at once: who goes together, and what is left."""

import asyncio

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import structlog

from lbcf.sdk import (
    Answer,
    BackendAnswer,
    BackendRequest,
    NotThere,
    Outcome,
    Refusal,
    RetriedRequest,
    RetrySingly,
    Running,
    Succ,
)


_R = TypeVar("_R", bound=RetriedRequest[Answer])
_Item = TypeVar("_Item", bound=BackendRequest[BackendAnswer])

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


def alike(requests: Sequence[_Item]) -> list[_Item]:
    """Return those that may be performed together: one load balancer, and in earnest."""
    info, namespace = requests[0].lb_info, getattr(requests[0], "namespace", "")
    return [
        one
        for one in requests
        if not one.dry_run
        and one.lb_info == info
        and getattr(one, "namespace", "") == namespace
    ]


def earliest(requests: Sequence[_Item]) -> datetime | None:
    """Return the first `notAfter` of a batch; None: nobody has one."""
    return min((one.not_after for one in requests if one.not_after), default=None)


async def together(
    requests: Sequence[_Item],
    operation: Callable[[Sequence[_Item]], Awaitable[Mapping[str, Outcome]]],
) -> Mapping[str, Outcome]:
    """Perform an operation on those of a batch that are alike; the rest is asked for singly.

    Args:
        requests: the items.
        operation: returns outcomes by record; those that it leaves out were not done, and
            are told why when they are asked for alone. What it refuses, it refuses all.
    """
    some = alike(requests)
    try:
        said = await operation(some) if some else {}
    except Refusal as refusal:
        said = {one.record_id: refusal for one in some}
    left = RetrySingly("not done together with the others of its batch")
    return {one.record_id: said.get(one.record_id, left) for one in requests}
