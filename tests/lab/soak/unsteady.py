"""A driver in memory, at a real socket, that fails in each way in which drivers fail.

Members are told apart by their addresses, as with every driver of LBCF.
"""

import asyncio
import random

from collections.abc import Callable
from contextvars import ContextVar

import attrs

from aiohttp import web
from aiohttp.typedefs import Handler

from lbcf import sdk
from tests.lab.faults.history import Journal
from tests.lab.faults.witness import Witness, take


TIMEOUT = 2.0
"""Seconds that the caller waits for an answer."""
LATE = (2.0, 2.8)
"""Seconds after which an effect comes that is late: lateEffectSeconds is 1."""
LOST = 5.0
"""Seconds for which an answer that is lost is kept back: nobody waits for so long."""
_NAMES = ("Fail", "Running", "late", "lost")
_WAYS = len(_NAMES)
"""To fail."""


@attrs.define
class _Answer:
    is_lost: bool = False


_ANSWER: ContextVar[_Answer] = ContextVar("answer")
"""Of the call that is being served: the SDK handles it in a task of its own."""


@web.middleware
async def losing(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Keep an answer back that is to be lost; the call itself is over, as on a bad network."""
    answer = _Answer()
    _ANSWER.set(answer)
    response = await handler(request)
    if answer.is_lost:
        await asyncio.sleep(LOST)
    return response


class UnsteadyDriver(Witness):
    """Fails by chance.

    Args:
        journal: gets each call and each change of the members.
        chance: draws how a call goes.
        part: of the calls, for each of the four ways to fail: an error, `Running`, an
            effect after the time-out, and one whose answer is lost.
    """

    def __init__(self, journal: Journal, chance: random.Random, part: float) -> None:
        super().__init__(sdk.MemberKey.ADDRESS, journal, chance)
        self.part = part
        self._draw = chance

    async def ensure_backend(
        self, request: sdk.EnsureBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Put the member in, or fail."""
        draw = self._drawn()
        if draw >= _WAYS:
            return await super().ensure_backend(request)
        with self._noted(sdk.Operation.ENSURE_BACKEND, request) as call:
            call.outcome = _NAMES[int(draw)]
            return await self._fail(draw, lambda: self.members.ensure(request))

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Take the member out, or fail."""
        draw = self._drawn()
        if draw >= _WAYS:
            return await super().deregister_backend(request)
        with self._noted(sdk.Operation.DEREGISTER_BACKEND, request) as call:
            call.outcome = _NAMES[int(draw)]
            return await self._fail(draw, lambda: self.members.remove(request))

    def _drawn(self) -> float:
        """Draw how a call goes: below `_WAYS` by the way to fail of that number."""
        return self._draw.random() / self.part if self.part else _WAYS

    async def _fail(
        self, draw: float, effect: Callable[[], object]
    ) -> sdk.Succ | sdk.Running:
        """Fail in the way that is drawn.

        Raises:
            Fail: that was drawn.
        """
        if draw < 1:
            raise sdk.Fail("told to fail")
        if draw < 2:
            return sdk.Running(msg="told to be asked again")
        if draw < 3:
            await asyncio.sleep(self._draw.uniform(*LATE))
        else:
            _ANSWER.get().is_lost = True
        take(effect)
        return sdk.Succ()
