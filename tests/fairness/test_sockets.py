"""The same tenants with real time, real sockets and the client that ships.

Drivers listen on loopback; those that hang take a call and never answer it, and their
time-outs are longer than the play: whatever waits for one of them never comes to its end.
So nothing depends on how fast the machine is.
"""

import asyncio

from collections.abc import AsyncIterator, Mapping
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
from tests.fairness.crowds import ENDING, NOISY
from tests.fairness.objects import Balancer, Bind, Driver, Group, Record
from tests.fairness.world import World


ANSWERS_NEVER = 3600.0
_LONGER = 3600
"""Seconds that calls of drivers that hang may take: longer than the whole play."""
_QUIET = 0.5
"""Seconds without a new call after which all that hangs has begun to."""
_MANY = 100
_ASKED = (
    Operation.VALIDATE_LOAD_BALANCER,
    Operation.VALIDATE_BACKEND,
    Operation.ENSURE_BACKEND,
    Operation.DEREGISTER_BACKEND,
    Operation.LIST_BACKENDS,
    Operation.HEALTHZ,
)


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


def _hanging(name: str, operation: Operation, at_once: int = 32) -> Driver:
    """Make a driver that hangs for longer than the play."""
    url = f"http://hang-{name}.test"
    return Driver(NOISY, name, url, {operation: _LONGER}, at_once)


def _fill(world: World) -> None:
    """Let load balancers, drivers, groups, Binds and records of one tenant hang at once.

    Records are fewer than their workers: `test_tenants` plays thousands of them.
    """
    creates = _hanging("creates", Operation.VALIDATE_LOAD_BALANCER)
    asked = _hanging("asked", Operation.VALIDATE_BACKEND)
    comes = _hanging("in", Operation.ENSURE_BACKEND, 10_000)
    goes = _hanging("out", Operation.DEREGISTER_BACKEND, 10_000)
    listed = _hanging("listed", Operation.LIST_BACKENDS)
    world.put(creates, asked, comes, goes, listed)
    world.put(*(Balancer(NOISY, name, name) for name in ("asked", "in", "out")))
    for number in range(_MANY):
        name = f"10.2.0.{number}"
        world.put(
            Balancer(NOISY, f"new-{number}", "creates", is_new=True),
            Balancer(NOISY, f"old-{number}", "listed"),
            _hanging(f"sick-{number}", Operation.HEALTHZ),
            Group(NOISY, f"web-{number}", "asked", (f"10.1.0.{number}:80",)),
            Bind(NOISY, f"bind-{number}", ("creates",)),
            Record(NOISY, name, "in", "in", is_new=True),
            Record(NOISY, f"10.3.0.{number}", "out", "out", ENDING),
        )


async def _settled(world: World) -> None:
    """Wait until each kind hangs, and all shares are used up: no more calls come."""
    before = -1
    while before != len(_hung(world)) or set(_ASKED) != set(_hung(world)):
        before = len(_hung(world))
        await asyncio.sleep(_QUIET)


def _hung(world: World) -> list[Operation]:
    """Return what is asked of drivers that hang."""
    return [call.operation for call in world.calls if call.host.startswith("hang")]


@pytest.mark.timeout(200)
async def test_another_tenant_waits_for_none_that_hangs() -> None:
    """All of its acts come to their ends while every call of the other one hangs."""
    async with _served() as world:
        world.put(DRIVER, FRONT)
        _fill(world)
        await world.start(1.0)
        await _settled(world)
        took = await act(world)

    assert "driver gone" in took
