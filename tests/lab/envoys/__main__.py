"""Connects Envoys to a driver, and prints what they cost it."""

import argparse
import asyncio
import contextlib
import tempfile
import time

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import attrs

from tests.envoy.proxy import FLEET
from tests.lab.bench.meters import usage
from tests.lab.cluster.ports import free_ports
from tests.lab.envoys.streams import Envoy, report_of, stats_of
from tests.webhooks.processes import running


_MIB = 1024 * 1024
CHANGES = 5
"""Changes of which the CPU is the mean."""


@attrs.define(eq=False)
class Driver:
    """The driver, and who calls it.

    Attributes:
        url: where it is called.
        port: where Envoys connect to.
        pid: of its process.
        client: who calls.
    """

    url: str
    port: int
    pid: int
    client: aiohttp.ClientSession

    @classmethod
    @contextlib.asynccontextmanager
    async def up(cls, folder: Path) -> AsyncIterator["Driver"]:
        """Run it for a block."""
        (port,) = free_ports(1)
        flags = (
            *("--state-directory", str(folder)),
            *("--xds-address", f"127.0.0.1:{port}"),
            *("--allow-listeners", "*"),
        )
        async with (
            running("webhooks.envoy", *flags) as up,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client,
        ):
            assert up.child.stderr is not None
            # Who does not read its log has it stand still.
            reading = asyncio.create_task(_read(up.child.stderr))
            yield cls(up.url, port, up.child.pid, client)
            reading.cancel()

    async def call(self, operation: str, **request: object) -> Mapping[str, Any]:
        """Call it once."""
        url = f"{self.url}/{operation}"
        async with self.client.post(url, json={"namespace": "a", **request}) as answer:
            found: Mapping[str, Any] = await answer.json()
            return found

    async def done(self, operation: str, **request: object) -> None:
        """Call it until all Envoys have what was asked for."""
        while (answer := await self.call(operation, **request))["status"] != "Succ":
            assert answer["status"] == "Running", answer

    @property
    def cpu(self) -> float:
        """The seconds of CPU that it has used."""
        return usage(self.pid).cpu


async def _read(stream: asyncio.StreamReader) -> None:
    while await stream.readline():
        pass


@attrs.frozen
class Load:
    """What is at a driver: load balancers with members, and for how long it is looked at."""

    balancers: int
    members: int
    seconds: float

    def listener(self, number: int) -> dict[str, str]:
        """Where a load balancer listens."""
        return {"fleet": FLEET, "listen": f"0.0.0.0:{8000 + number}"}

    def backends(self, number: int) -> list[tuple[str, int]]:
        """The members of a load balancer."""
        return [(f"198.18.{number}.{member + 1}", 80) for member in range(self.members)]

    async def make(self, driver: Driver) -> None:
        """Have all of it; no Envoy is there yet, so that each call is given up."""
        numbers = range(self.balancers)
        await asyncio.gather(
            *(
                driver.call(
                    "createLoadBalancer",
                    recordID=f"lb{number}",
                    lbSpec=self.listener(number),
                )
                for number in numbers
            )
        )
        await asyncio.gather(
            *(
                driver.call("ensureBackend", **self.member(number, one))
                for number in numbers
                for one in range(self.members)
            )
        )

    def member(self, number: int, one: int) -> dict[str, object]:
        """What a call says of a member."""
        host, port = self.backends(number)[one]
        where = self.listener(number)
        return {"recordID": host, "lbInfo": where, "backendAddr": f"{host}:{port}"}

    def report(self, envoy: str) -> Any:
        """What an Envoy reports."""
        return report_of(
            [
                stats_of(f"lbcf/0.0.0.0:{8000 + number}", self.backends(number))
                for number in range(self.balancers)
            ],
            envoy,
        )


async def _per_second(driver: Driver, seconds: float) -> float:
    """Return the CPU seconds that a driver uses in one second of the clock."""
    began, before = time.monotonic(), driver.cpu
    await asyncio.sleep(seconds)
    return (driver.cpu - before) / (time.monotonic() - began)


async def _per_change(driver: Driver, load: Load, members: int) -> float:
    """Return the CPU seconds for a change of members at once, until all Envoys have it."""
    before = driver.cpu
    for number in range(CHANGES):
        await asyncio.gather(
            *(
                driver.done(
                    "ensureBackend",
                    parameters={"weight": str(number % 2 + 1)},
                    **load.member(0, one),
                )
                for one in range(members)
            )
        )
    return (driver.cpu - before) / CHANGES


async def _draining(driver: Driver, load: Load) -> float:
    """Return what a second costs in which a member drains that has requests left."""

    async def ask() -> None:
        while True:
            await driver.call("drainBackend", **load.member(0, 0))
            await asyncio.sleep(1)

    asking = asyncio.create_task(ask())
    await asyncio.sleep(2)
    try:
        return await _per_second(driver, load.seconds)
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def measure(count: int, load: Load) -> str:
    """Return a line about so many Envoys."""
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        driver = await stack.enter_async_context(Driver.up(Path(folder)))
        await load.make(driver)
        envoys = [
            await stack.enter_async_context(
                Envoy.running(driver.port, name, load.report(name))
            )
            for name in (f"n{number}" for number in range(count))
        ]
        for number in range(load.balancers):
            where = load.listener(number)
            await driver.done(
                "createLoadBalancer", recordID=f"lb{number}", lbSpec=where
            )
        connected = driver.cpu
        sent = sum(one.reports for one in envoys)
        idle = await _per_second(driver, load.seconds)
        sent = sum(one.reports for one in envoys) - sent
        change = await _per_change(driver, load, 1)
        changes = await _per_change(driver, load, load.members)
        draining = await _draining(driver, load)
        memory = usage(driver.pid).resident / _MIB
        return (
            f"{count:6} {connected:10.1f} {100 * idle:6.1f} {sent / load.seconds:9.1f} "
            f"{change:6.2f} {changes:7.2f} {100 * draining:8.1f} {memory:6.0f}"
        )


async def main() -> None:
    """Measure each number of Envoys."""
    parser = argparse.ArgumentParser("python -m tests.lab.envoys", description=__doc__)
    parser.add_argument("envoys", type=int, nargs="+")
    parser.add_argument("--balancers", type=int, default=20)
    parser.add_argument("--members", type=int, default=20, help="of each of them")
    parser.add_argument("--seconds", type=float, default=30.0)
    chosen = parser.parse_args()
    load = Load(chosen.balancers, chosen.members, chosen.seconds)
    print(
        "CPU of the driver: s until all Envoys were connected; % of a core when nothing"
    )
    print(
        "happens; s for a change of one member, and of all of one load balancer at once;"
    )
    print("% of a core while one member drains. Memory in MiB.")
    print("Envoys connecting   idle reports/s change changes draining memory")
    for count in chosen.envoys:
        print(await measure(count, load), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
