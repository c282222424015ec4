"""Shows that a change costs the same among 50,000 records as among 500.

Groups of 50 static addresses each, on 100 load balancers, fill the API server with
records; then the same number of pods comes and goes in a group of its own. What a
lifecycle costs our programs, at both sizes, is the ratio.
"""

import asyncio

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console

from tests.e2e import objects
from tests.lab.bench import report
from tests.lab.bench.ground import prepared
from tests.lab.bench.options import Options
from tests.lab.bench.outcome import Outcome
from tests.lab.bench.pods import paced
from tests.lab.bench.scenario import SETTLE_SECONDS, Scenario
from tests.lab.bench.verdict import Line


SMALL = 500
EACH = 50
LOAD_BALANCERS = 100
CHURN = 300
CHURN_RATE = 20.0
GROUP_RATE = 20.0
LIMIT = 1.3


class Crowd(Scenario):
    """Many records that stay, and some pods that come and go among them."""

    async def run(self, *, quick: bool = False) -> list[Outcome]:
        """Fill, churn, and empty, or leave it full when in haste."""
        ground = self.ground
        await ground.start_ours()
        await self._lay_out()
        await self._fill()
        await asyncio.sleep(SETTLE_SECONDS)
        await self._churn()
        await self.idle()
        await self.cold()
        if not quick:
            await self._empty()
        return self.outcomes

    async def _lay_out(self) -> None:
        """Make the driver, the load balancers, and the group of the pods."""
        stage = self.ground.stage
        await stage.create(objects.DRIVERS, objects.a_driver(stage.driver_url))
        for number in range(LOAD_BALANCERS):
            body = objects.a_load_balancer(f"lb{number}")
            await stage.create(objects.LOAD_BALANCERS, body)
        await stage.create(objects.GROUPS, objects.a_group("web", lbs=("lb0",)))
        await asyncio.sleep(SETTLE_SECONDS)

    async def _fill(self) -> None:
        """Make all groups, and wait until their records are registered."""
        async with self._lifecycles("registration") as changes:
            await self._all_groups(self._make_group)
            await self._until(changes, "controller", "patch backendrecords/status")

    async def _empty(self) -> None:
        """Take all addresses out of all groups, and wait until the records are gone."""
        async with self._lifecycles("deregistration") as changes:
            await self._all_groups(self._empty_group)
            await self._until(changes, "deregistrar", "patch backendrecords")

    @asynccontextmanager
    async def _lifecycles(self, name: str) -> AsyncIterator[int]:
        """Measure a phase that concerns all records; gives its place in the ledger."""
        async with self.measured(name) as (phase, found):
            found.lifecycles = self.size
            yield phase.position

    async def _until(self, position: int, program: str, what: str) -> None:
        """Wait until a program has written that of every record."""
        await self.ground.until_written(position, program, what, self.size)

    async def _all_groups(self, act: Callable[[int], Awaitable[None]]) -> None:
        """Act for every group, so many per second."""
        await paced(range(self.size // EACH), GROUP_RATE, act)

    async def _make_group(self, number: int) -> None:
        """Make a group with addresses that no other has."""
        first = number * EACH
        addresses = [
            f"10.{100 + (n >> 16)}.{n >> 8 & 255}.{n & 255}:80"
            for n in range(first, first + EACH)
        ]
        body = {
            "metadata": {"name": f"static{number}"},
            "spec": {
                "loadBalancers": [f"lb{number % LOAD_BALANCERS}"],
                "static": addresses,
            },
        }
        await self.ground.stage.create(objects.GROUPS, body)

    async def _empty_group(self, number: int) -> None:
        """Take a group's addresses away."""
        spec: dict[str, object] = {"spec": {"static": []}}
        await self.ground.stage.patch(objects.GROUPS, f"static{number}", spec)

    async def _churn(self) -> None:
        """Let pods come and go one after the other, each registered and deregistered."""
        batch, pods = self.ground.batch("c", CHURN), self.ground.pods
        async with self.measured("churn") as (phase, found):
            found.lifecycles = CHURN
            await pods.make_all(batch, CHURN_RATE)
            await self.written(
                phase, "controller", "patch backendrecords/status", CHURN
            )
            await pods.delete_all(batch, CHURN_RATE)
            await self.written(phase, "deregistrar", "patch backendrecords", CHURN)


async def measure_large(
    folder: Path, options: Options, console: Console
) -> tuple[list[Outcome], list[Line]]:
    """Measure both sizes, and compare them."""
    outcomes: list[Outcome] = []
    for size in (SMALL, options.large):
        async with prepared(folder / str(size), options.profile) as ground:
            found = await Crowd(ground, size).run(quick=options.quick)
        report.show(console, found, f"{size} records")
        outcomes += found
    return outcomes, list(_compare(outcomes, options.large))


def _compare(outcomes: list[Outcome], large: int) -> list[Line]:
    """Say how many times as much a lifecycle costs at the larger size."""
    cost = {
        (found.size, found.name): found.our_cpu / found.lifecycles
        for found in outcomes
        if found.lifecycles
    }
    return [
        Line(
            f"CPU per lifecycle of {name}, {large} records to {SMALL}",
            cost[large, name] / cost[SMALL, name],
            LIMIT,
        )
        for name in ("registration", "churn", "deregistration")
        if (large, name) in cost
    ]
