"""Connections that were replaced: closed once, whoever notices first."""

import asyncio
import contextlib

from lbcf.core.model.values import ObjectKey
from lbcf.drivers.client import DriverClient
from lbcf.drivers.connections import DriverConnections


DRIVER = ObjectKey("web", "mine")


class SlowlyClosed(DriverClient):
    """Takes a while to close, as TLS does."""

    closed = 0

    async def close(self) -> None:
        """Count, and close."""
        self.closed += 1
        await asyncio.sleep(0.01)
        await super().close()


async def test_calls_that_end_together_close_each_connection_once() -> None:
    """Two sweeps at a time neither fail, nor spoil the answers of their calls."""
    made: list[SlowlyClosed] = []

    def make() -> DriverClient:
        made.append(SlowlyClosed("http://192.0.2.1"))
        return made[-1]

    lines = DriverConnections()
    async with lines.to(DRIVER, 0, make):
        pass
    calls = [contextlib.AsyncExitStack() for _ in range(3)]
    for stamp, call in enumerate(calls, 1):
        await call.enter_async_context(lines.to(DRIVER, stamp, make))
    # The first to end finds its own connections and those of 0; they take a while.
    await asyncio.gather(*(call.aclose() for call in calls))
    await lines.close()

    assert [1, 1, 1, 1] == [one.closed for one in made]
