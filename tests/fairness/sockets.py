"""The same tenants with real time, real sockets, real names and the client that ships.

    python -m tests.fairness.sockets

Runs inside of namespaces of its own. Drivers listen on loopback; those that hang take a call
and never answer it, or have a name that no name server answers for. Time-outs are longer than
the play: whatever waits for one of them never comes to its end. Prints a line of JSON: the
seconds of each act of another tenant, round by round, alone and beside all that hangs. These
are two worlds in processes of their own, which act in turn: what else the machine has to do
is the same for both.
"""

import asyncio
import json
import sys

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit

import uvloop

from aiohttp import web
from prometheus_client import CollectorRegistry

from lbcf.core.model.access import Secret
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.drivers.client import DriverClient
from lbcf.drivers.pool import DriverPool
from lbcf.runtime.clock import Clock, SystemClock
from tests.drivers.servers import BESIDE_US
from tests.fairness.acts import DRIVER, FRONT, act
from tests.fairness.crowds import ENDING, NOISY
from tests.fairness.objects import Balancer, Bind, Driver, Group, Record
from tests.fairness.world import World
from tests.lab.sweep.pool import silence
from tests.partition.name_server import NameServer, serve_names


ALONE, BESIDE = "alone", "beside"
ROUNDS = 3
NEVER = 240.0
"""Seconds after which the acts of a round count as never done."""

ANSWERS_NEVER = 3600.0
_LONGER = 3600
"""Seconds that calls of drivers that hang may take: longer than the whole play."""
_QUIET = 0.5
"""Seconds without a new call after which all that hangs has begun to."""
NAMELESS = ("hanging-1.test", "hanging-2.test")
"""Hosts that no name server answers for."""
_ASKED = (
    Operation.VALIDATE_LOAD_BALANCER,
    Operation.VALIDATE_BACKEND,
    Operation.ENSURE_BACKEND,
    Operation.DEREGISTER_BACKEND,
    Operation.LIST_BACKENDS,
    Operation.HEALTHZ,
)


class LoopbackWorld(World):
    """A world whose drivers are behind sockets."""

    def __init__(self, port: int) -> None:
        super().__init__()
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
        return url if host in NAMELESS else f"http://127.0.0.1:{self._port}/{host}"

    async def serve(self, request: web.Request) -> web.Response:
        """Answer a call as its driver."""
        operation = Operation(request.match_info["operation"])
        host, body = request.match_info["host"], await request.read()
        answer = await self.answer(host, operation, body, ANSWERS_NEVER)
        return web.Response(body=answer, content_type="application/json")


class _LoopbackPool(DriverPool):
    """The real pool and client; only where a driver listens is another."""

    def __init__(self, world: LoopbackWorld, clock: Clock) -> None:
        super().__init__(clock, CollectorRegistry(), allowlist=BESIDE_US)
        self._world = world

    def _connect(
        self, driver: LoadBalancerDriver, _secrets: Mapping[str, Secret]
    ) -> DriverClient:
        """Return the real client."""
        url = self._world.url_of(driver.url)
        return DriverClient(url, allowed_urls=BESIDE_US.allowed_urls)


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
    """Let all that one tenant has hang at once."""
    creates = _hanging("creates", Operation.VALIDATE_LOAD_BALANCER)
    asked = _hanging("asked", Operation.VALIDATE_BACKEND)
    comes = _hanging("in", Operation.ENSURE_BACKEND, 10_000)
    goes = _hanging("out", Operation.DEREGISTER_BACKEND, 10_000)
    listed = _hanging("listed", Operation.LIST_BACKENDS)
    world.put(creates, asked, comes, goes, listed)
    world.put(*(Balancer(NOISY, name, name) for name in ("asked", "in", "out")))
    for number in range(40):
        world.put(_hanging(f"sick-{number}", Operation.HEALTHZ))
    for number in range(200):
        world.put(
            Balancer(NOISY, f"new-{number}", "creates", is_new=True),
            Balancer(NOISY, f"old-{number}", "listed"),
            Group(NOISY, f"web-{number}", "asked", (f"10.1.0.{number}:80",)),
            Bind(NOISY, f"bind-{number}", ("creates",)),
        )
    for number in range(3000):
        name = f"{number // 250}.{number % 250}"
        world.put(
            Record(NOISY, f"10.2.{name}", "in", "in", is_new=True),
            Record(NOISY, f"10.3.{name}", "out", "out", ENDING),
        )
    for number, host in enumerate(NAMELESS):
        _fill_nameless(world, f"nameless-{number}", host)


def _fill_nameless(world: World, name: str, host: str) -> None:
    """Let a driver whose name is not found have records, and be asked how it is."""
    timeouts = {Operation.HEALTHZ: _LONGER, Operation.ENSURE_BACKEND: _LONGER}
    world.put(Driver(NOISY, name, f"http://{host}", timeouts))
    world.put(Balancer(NOISY, name, name))
    for number in range(100):
        record = f"10.4.{name[-1]}.{number}"
        world.put(Record(NOISY, record, name, name, is_new=True))


async def _settled(world: World, names: NameServer) -> None:
    """Wait until each kind hangs, and all shares are used up: no more calls come."""
    before = -1
    while (
        before != len(_hung(world))
        or set(_ASKED) != set(_hung(world))
        or len(names.unanswered) < len(NAMELESS)
    ):
        before = len(_hung(world))
        await asyncio.sleep(_QUIET)


def _hung(world: World) -> list[Operation]:
    """Return what is asked of drivers that hang."""
    return [call.operation for call in world.calls if call.host.startswith("hang")]


async def _live(kind: str) -> None:
    """Let a tenant act once for each line that is read; print what that took."""
    async with _served() as world:
        world.put(DRIVER, FRONT)
        if kind == ALONE:
            await world.start(1.0)
        else:
            names = await serve_names()
            _fill(world)
            await world.start(1.0)
            await _settled(world, names)
        print(json.dumps({}), flush=True)
        while again := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await _acted(world, again.strip())), flush=True)


async def _acted(world: World, again: str) -> Mapping[str, float]:
    """Let a tenant act; return what that took, or that it never came to its end."""
    try:
        async with asyncio.timeout(NEVER):
            return await act(world, again)
    except TimeoutError:
        return {"never done": NEVER}


@asynccontextmanager
async def _living(kind: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Have a world in a process of its own for a block."""
    pipe = asyncio.subprocess.PIPE
    argv = (sys.executable, "-m", "tests.fairness.sockets", kind)
    process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe)
    try:
        await _line(process)
        yield process
    finally:
        process.kill()
        await process.wait()


async def _told(process: asyncio.subprocess.Process, again: str) -> Mapping[str, float]:
    """Have a world act; return what that took."""
    assert process.stdin is not None
    process.stdin.write(f"{again}\n".encode())
    return await _line(process)


async def _line(process: asyncio.subprocess.Process) -> Mapping[str, float]:
    """Return what a world says next."""
    assert process.stdout is not None
    said: Mapping[str, float] = json.loads(await process.stdout.readline())
    return said


async def _main() -> None:
    """Let a tenant act alone and beside all that hangs, in turn."""
    async with _living(ALONE) as alone, _living(BESIDE) as beside:
        rounds = [
            {
                ALONE: await _told(alone, f"-{number}"),
                BESIDE: await _told(beside, f"-{number}"),
            }
            for number in range(ROUNDS)
        ]
    print(json.dumps(rounds))


if __name__ == "__main__":
    silence()
    uvloop.run(_live(sys.argv[1]) if sys.argv[1:] else _main())
