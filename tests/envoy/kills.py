"""The driver is killed again and again under load, while a member comes and goes."""

import asyncio
import contextlib

from collections.abc import Sequence

import attrs

from aiohttp import ClientSession

from tests.envoy.process import call, process
from tests.envoy.proxy import Envoy
from tests.envoy.stage import UNAIDED, Stage
from tests.haproxy.web import Traffic, WebServer


LOOK = 0.05
"""Seconds between two looks at Envoy's members."""
LATEST = 1.0
"""Seconds from a start until the kill at most."""
GOLDEN = 0.618034


@attrs.define
class Losses:
    """What the kills cost.

    Attributes:
        kills: of the driver.
        looks: at Envoy's members.
        lost: looks at which a member that stays was missing, or drained.
        traffic: the requests meanwhile.
    """

    traffic: Traffic
    kills: int = 0
    looks: int = 0
    lost: int = 0

    async def watch(self, envoy: Envoy, listen: str, stay: Sequence[str]) -> None:
        """Look until cancelled."""
        while True:
            members = await envoy.members(listen)
            self.looks += 1
            self.lost += any(members.get(one) != "HEALTHY" for one in stay)
            await asyncio.sleep(LOOK)


async def killed(
    stage: Stage, envoy: Envoy, servers: Sequence[WebServer], kills: int
) -> Losses:
    """Kill the driver so often; the last of the servers comes and goes meanwhile."""
    *stay, comes = servers
    losses = Losses(Traffic(stage.url))
    async with ClientSession() as client:
        async with process(stage) as driver:
            await call(
                client, driver.url, "createLoadBalancer", stage.create(**UNAIDED)
            )
            for one in stay:
                ensure = stage.ensure(one.name, one.address)
                await call(client, driver.url, "ensureBackend", ensure)
        await envoy.until_workers_know()
        watching = asyncio.create_task(
            losses.watch(envoy, stage.listen, [one.address for one in stay])
        )
        async with losses.traffic.flowing(people=4):
            for number in range(kills):
                await _one_life(stage, client, comes, LATEST * (number * GOLDEN % 1))
                losses.kills += 1
        async with process(stage) as driver:
            gone = stage.deregister(comes.name, comes.address)
            await call(client, driver.url, "deregisterBackend", gone)
            await asyncio.sleep(LOOK)
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    return losses


async def _one_life(
    stage: Stage, client: ClientSession, comes: WebServer, after: float
) -> None:
    """Start the driver, have it work on a member, and kill it meanwhile."""
    operations = (
        ("ensureBackend", stage.ensure(comes.name, comes.address)),
        ("drainBackend", stage.drain(comes.name, comes.address)),
        ("deregisterBackend", stage.deregister(comes.name, comes.address)),
    )

    async def work(url: str) -> None:
        """Do one after the other, again and again, until it dies."""
        while all([await call(client, url, *one) for one in operations]):
            pass

    async with process(stage) as driver:
        working = asyncio.create_task(work(driver.url))
        await asyncio.sleep(after)
        driver.child.kill()
        await driver.child.wait()
        await working
