"""One call for all who ask before it begins."""

import asyncio

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Generic, TypeVar

from lbcf.runtime.tasks import note_error


T = TypeVar("T")


class SharedCall(Generic[T]):
    """A call whose answer all share who asked before it began.

    What was true when somebody asked is in the answer: a call that is under way may have
    begun before, so whoever asks meanwhile waits for the next one.

    Args:
        call: asks.
        patience: after so long the next call begins although the one before has no answer;
            None: there is one at a time.
    """

    def __init__(
        self, call: Callable[[], Awaitable[T]], patience: timedelta | None = None
    ) -> None:
        self._call = call
        self._patience = None if patience is None else patience.total_seconds()
        self._under_way: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def since_now(self) -> T:
        """Return the answer to a call that begins from now on; raises what that raises."""
        if self._next is None or self._next.done():
            self._next = asyncio.create_task(self._after(self._under_way))
            self._next.add_done_callback(note_error)
        return await asyncio.shield(self._next)

    async def _after(self, before: "asyncio.Task[T] | None") -> T:
        """Call when the call before has ended."""
        if before is not None and not before.done():
            await asyncio.wait({before}, timeout=self._patience)
        self._under_way, self._next = self._next, None
        return await self._call()
