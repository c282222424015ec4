"""A driver in memory, at a real socket, that fails in each way in which drivers fail.

Members are told apart by their addresses, as with every driver of LBCF.
"""

import asyncio
import contextlib
import random

from collections.abc import Callable

from lbcf import sdk
from tests.lab.faults.history import Journal
from tests.lab.faults.witness import Witness


TIMEOUT = 2.0
"""Seconds that the caller waits for an answer."""
LATE = (2.0, 2.8)
"""Seconds after which an effect comes that is late: lateEffectSeconds is 1."""
HANGS = 5.0
"""Seconds for which a call hangs whose answer is lost."""


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
        running = await self._fail(lambda: self.members.ensure(request))
        return running or await super().ensure_backend(request)

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Take the member out, or fail."""
        running = await self._fail(lambda: self.members.remove(request))
        return running or await super().deregister_backend(request)

    async def _fail(self, effect: Callable[[], None]) -> sdk.Running | None:
        """Fail in the way that is drawn; None: the call goes well.

        Raises:
            Fail: that was drawn.
        """
        draw = self._draw.random() / self.part if self.part else 4
        if draw >= 4:
            return None
        if draw < 1:
            raise sdk.Fail("told to fail")
        if draw < 2:
            return sdk.Running(msg="told to be asked again")
        with contextlib.suppress(sdk.NotThere):
            if draw < 3:
                loop = asyncio.get_running_loop()
                loop.call_later(self._draw.uniform(*LATE), _take, effect)
            else:
                effect()
        await asyncio.sleep(HANGS)
        return sdk.Running(msg="nobody hears this")


def _take(effect: Callable[[], None]) -> None:
    with contextlib.suppress(sdk.NotThere):
        effect()
