"""Lets all who want to read the same thing share one reading, never an old one.

`group` reads through these: fifty members that drain ask at once for the same group,
and an appliance's management answers a few requests at a time.
"""

import asyncio

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import attrs

from webhooks.device.logins import looked_at


_T = TypeVar("_T")


@attrs.define(eq=False)
class SharedReading(Generic[_T]):
    """One thing to be read.

    Attributes:
        read: reads it.
    """

    read: Callable[[], Awaitable[_T]]
    _turn: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    _next: asyncio.Task[_T] | None = attrs.field(default=None, init=False)

    async def fresh(self) -> _T:
        """Return what a reading that begins after this call has read.

        Raises:
            Exception: whatever `read` raised, to all who share it.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._begun())
            self._next.add_done_callback(looked_at)
        # Shielded: one who gives up must not take the reading from the others.
        return await asyncio.shield(self._next)

    async def _begun(self) -> _T:
        """Read, when the reading before is through."""
        async with self._turn:
            # Who comes from here on may want to see what this reading missed.
            self._next = None
            return await self.read()
