"""Lets operations on one member run one after the other, in the order they came.

`lbcf.sdk.server` takes a turn for each operation; members do not wait for each other.
"""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Hashable

import attrs

from lbcf.core.model.values import MemberKey
from lbcf.wire.driver import Answer, Request
from lbcf.wire.driver_requests import (
    BackendRequest,
    CreateLoadBalancerRequest,
    LoadBalancerRequest,
)


@attrs.define
class _Line:
    """Those who have a turn or wait for one.

    Attributes:
        lock: asyncio's is first come, first served.
        length: how many they are; the line is forgotten at zero.
    """

    lock: asyncio.Lock = attrs.Factory(asyncio.Lock)
    length: int = 0


class Turns:
    """One line per key; keys that nobody waits for take no memory."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}

    @contextlib.asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Wait for those who came before with this key; None waits for nobody."""
        if key is None:
            yield
            return
        line = self._lines.setdefault(key, _Line())
        line.length += 1
        try:
            async with line.lock:
                yield
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[key]

    def __len__(self) -> int:
        """Return how many keys have somebody in line."""
        return len(self._lines)


def turn_key(member_key: MemberKey, request: Request[Answer]) -> Hashable:
    """Say what the request must be alone with; None: with nothing.

    Where members are named after their record, two records with one address are two
    members.
    """
    match request:
        case BackendRequest():
            named = request.record_id if member_key is MemberKey.RECORD else ""
            return (_identity(request.lb_info), request.backend_addr, named)
        case LoadBalancerRequest():
            # What was never seen created has no identity: its creation comes first.
            return _identity(request.lb_info) if request.lb_info else request.record_id
        case CreateLoadBalancerRequest():
            return request.record_id
        case _:
            return None


def _identity(lb_info: dict[str, str]) -> Hashable:
    """Return a map as something that can be a key."""
    return frozenset(lb_info.items())
