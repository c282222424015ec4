"""The same tenants with real time, real sockets and the client that ships.

Drivers listen on loopback; those that hang take a call and never answer it. What waits
for one of them would wait for its time-out of a minute: the bound of a second tells that
from the work of a busy machine.
"""

import asyncio

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from aiohttp import web
from prometheus_client import CollectorRegistry

from lbcf.core.access import Secret
from lbcf.core.operations import Operation
from lbcf.core.resources import LoadBalancerDriver
from lbcf.drivers.client import DriverClient
from lbcf.drivers.pool import DriverPool
from lbcf.runtime.clock import Clock, SystemClock
from tests.drivers.servers import BESIDE_US
from tests.fairness.acts import DRIVER, FRONT, act
from tests.fairness.crowds import PATIENCE, all_at_once
from tests.fairness.world import World


SLOWER = 1.0
"""Seconds more than alone that anything of the calm tenant may take."""
ANSWERS_NEVER = 3600.0
_ROUNDS = 3
_IDLE = 0.2
"""Seconds by which a timer of an idle loop may ring late."""

Crowd = Callable[[World], None]


class LoopbackWorld(World):
    """A world whose drivers are behind sockets.

    Attributes:
        elsewhere: hosts that are called by their names, as they are.
    """

    def __init__(self, port: int) -> None:
        super().__init__()
        self.elsewhere: set[str] = set()
        self._port = port

    def now(self) -> datetime:
        """Return the real moment."""
        return datetime.now(UTC)

    def clock(self) -> Clock:
        """Make a real clock."""
        return SystemClock()

    def pool(self, clock: Clock) -> DriverPool:
        """Make a pool with real connections."""
        return _LoopbackPool(self, clock)

    def url_of(self, url: str) -> str:
        """Say where a driver of some URL listens."""
        host = str(urlsplit(url).hostname)
        return (
            url if host in self.elsewhere else f"http://127.0.0.1:{self._port}/{host}"
        )

    async def serve(self, request: web.Request) -> web.Response:
        """Answer a call as its driver."""
        operation = Operation(request.match_info["operation"])
        host, body = request.match_info["host"], await request.read()
        answer = await self.answer(host, operation, body, ANSWERS_NEVER)
        return web.Response(body=answer, content_type="application/json")


class _LoopbackPool(DriverPool):
    """The real pool and client; only where a driver listens is another."""

    def __init__(self, world: LoopbackWorld, clock: Clock) -> None:
        super().__init__(clock, CollectorRegistry(), fence=BESIDE_US)
        self._world = world

    def _connect(
        self, driver: LoadBalancerDriver, _secrets: Mapping[str, Secret]
    ) -> DriverClient:
        """Return the real client."""
        url = self._world.url_of(driver.url)
        return DriverClient(url, places=BESIDE_US.places)


@asynccontextmanager
async def _served() -> AsyncIterator[LoopbackWorld]:
    """Give a world whose drivers listen."""
    app = web.Application()
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    worlds: list[LoopbackWorld] = []

    async def serve(request: web.Request) -> web.Response:
        """Hand a call to the world."""
        return await worlds[0].serve(request)

    app.router.add_post("/{host}/{operation}", serve)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    port = int(site.name.rpartition(":")[2])
    try:
        async with LoopbackWorld(port) as world:
            worlds.append(world)
            yield world
    finally:
        await runner.cleanup()


async def _played(crowd: Crowd | None) -> Mapping[str, float]:
    """Let the calm tenant act beside a crowd that hangs already.

    Returns:
        The shortest time of each act in a few rounds: a busy machine makes some longer,
        what waits for a driver that hangs is long in all of them.
    """
    async with _served() as world:
        world.put(DRIVER, FRONT)
        if crowd is not None:
            crowd(world)
        await world.start(1.0)
        await _settled(world)
        rounds = [await act(world, f"-{number}") for number in range(_ROUNDS)]
        return {what: min(took[what] for took in rounds) for what in rounds[0]}


async def _settled(world: World) -> None:
    """Wait until all shares are used up: nothing more begins, and the loop is idle.

    Some drivers are asked again and again; so it waits for no longer than their time-out.
    """
    for _ in range(PATIENCE):
        before, began = _seen(world), world.second()
        await asyncio.sleep(1.0)
        if before == _seen(world) and world.second() - began < 1.0 + _IDLE:
            return


def _seen(world: World) -> tuple[int, int]:
    """Count the calls that hang, and what was written."""
    hanging = sum(call.host.startswith("hang") for call in world.calls)
    return hanging, world.api.history.version


@pytest.mark.timeout(300)
async def test_another_tenant_waits_a_second_more_at_most() -> None:
    """Load balancers, drivers, groups, Binds and records of one hang, all at once."""
    alone = await _played(None)
    beside = await _played(all_at_once)

    late = {what: s for what, s in beside.items() if s > alone[what] + SLOWER}
    assert {} == late
