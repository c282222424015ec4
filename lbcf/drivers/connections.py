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
class Connections:
    """The connections to one driver.

    Attributes:
        client: makes and keeps them.
        stamp: what they were made of.
        calls: how many are under way.
    """

    client: DriverClient
    stamp: Hashable
    calls: int = 0


class DriverConnections:
    """The connections of a process. Make it and close it in one event loop."""

    def __init__(self) -> None:
        self._connections: dict[ObjectKey, Connections] = {}
        self._retired: list[Connections] = []
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def to(
        self, driver: ObjectKey, stamp: Hashable, make: Callable[[], DriverClient]
    ) -> AsyncIterator[DriverClient]:
        """Give connections for one call; another stamp than before makes new ones."""
        connections = self._connections.get(driver)
        if connections is None or connections.stamp != stamp:
            made = Connections(make(), stamp)
            if connections is not None:
                self._retired.append(connections)
            self._connections[driver] = connections = made
        connections.calls += 1
        try:
            yield connections.client
        finally:
            connections.calls -= 1
            await self._sweep()

    def forget(self, driver: ObjectKey) -> None:
        """Close the connections to a driver that is gone; calls under way are lost."""
        connections = self._connections.pop(driver, None)
        if connections is not None:
            closing = asyncio.create_task(connections.client.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all connections."""
        while self._connections:
            _, connections = self._connections.popitem()
            await connections.client.close()
        while self._retired:
            await self._retired.pop().client.close()
        await asyncio.gather(*self._closing)

    async def _sweep(self) -> None:
        # One at a time: while it is closed, another call may end and look for more.
        while (connections := next(self._idle(), None)) is not None:
            self._retired.remove(connections)
            await connections.client.close()

    def _idle(self) -> Iterator[Connections]:
        return (connections for connections in self._retired if not connections.calls)
