"""The connections to each driver, made anew when its credentials change.

`lbcf.drivers.pool` asks for them before each call. Kept by driver and not by URL: a
connection shows whose credentials it was made with, and no other driver may use it.
"""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Callable, Hashable, Iterator

import attrs

from lbcf.core.model.values import ObjectKey
from lbcf.drivers.client import DriverClient


@attrs.define(eq=False)
class Line:
    """The connections to one driver.

    Attributes:
        client: makes and keeps them.
        stamp: what they were made of.
        calls: how many are under way.
    """

    client: DriverClient
    stamp: Hashable
    calls: int = 0


class Lines:
    """All of them. Make it and close it in one event loop."""

    def __init__(self) -> None:
        self._lines: dict[ObjectKey, Line] = {}
        self._retired: list[Line] = []
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def to(
        self, driver: ObjectKey, stamp: Hashable, make: Callable[[], DriverClient]
    ) -> AsyncIterator[DriverClient]:
        """Give connections for one call; what they are made of says the stamp."""
        line = self._lines.get(driver)
        if line is None or line.stamp != stamp:
            made = Line(make(), stamp)
            if line is not None:
                self._retired.append(line)
            self._lines[driver] = line = made
        line.calls += 1
        try:
            yield line.client
        finally:
            line.calls -= 1
            await self._sweep()

    def forget(self, driver: ObjectKey) -> None:
        """Close the connections to a driver that is gone; calls under way are lost."""
        line = self._lines.pop(driver, None)
        if line is not None:
            closing = asyncio.create_task(line.client.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all connections."""
        while self._lines:
            _, line = self._lines.popitem()
            await line.client.close()
        while self._retired:
            await self._retired.pop().client.close()
        await asyncio.gather(*self._closing)

    async def _sweep(self) -> None:
        """Close what is no longer used and has no call under way."""
        # One at a time: while it is closed, another call may end and look for more.
        while (line := next(self._idle(), None)) is not None:
            self._retired.remove(line)
            await line.client.close()

    def _idle(self) -> Iterator[Line]:
        """Find what was replaced and has no call under way."""
        return (line for line in self._retired if not line.calls)
