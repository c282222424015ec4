"""Many Envoys: what one says wakes who waits for it, and reports come often where they count."""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import grpc
import pytest

from envoy.config.core.v3 import base_pb2
from envoy.service.load_stats.v3 import lrs_pb2, lrs_pb2_grpc

from tests.envoy.node import Node
from tests.envoy.proxy import FLEET
from tests.envoy.stage import Stage
from tests.haproxy.waiting import until
from tests.patience import PATIENCE
from tests.webhooks.troubled import settled
from webhooks.envoy import fleets
from webhooks.envoy.driver import EnvoyDriver
from webhooks.envoy.fleets import Fleet
from webhooks.envoy.loads import IDLE_INTERVAL, INTERVAL
from webhooks.envoy.resources import Kind, Snapshot
from webhooks.envoy.sessions import Session
from webhooks.envoy.subscriptions import Offer


MEMBER = "198.18.0.1:80"
NAMES = "abcdefgh"
NEVER = 86400.0


@contextlib.asynccontextmanager
async def reporting(stage: Stage, name: str) -> AsyncIterator[Any]:
    """Open a stream of load reports for a block; it has had its first wish."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{stage.port}") as channel:
        call = lrs_pb2_grpc.LoadReportingServiceStub(channel).StreamLoadStats()
        node = base_pb2.Node(id=name, cluster=FLEET)
        await call.write(lrs_pb2.LoadStatsRequest(node=node))
        try:
            yield call
        finally:
            call.cancel()


async def wish(call: Any) -> float:
    """Return how often reports are wished for next."""
    async with asyncio.timeout(PATIENCE):
        every = (await call.read()).load_reporting_interval
    return float(every.seconds + every.nanos / 1e9)


async def report(call: Any, fleet: Fleet) -> None:
    """Send a load report, and wait until it is taken."""
    (known,) = fleet.reports["a"]
    before = known.at
    await call.write(lrs_pb2.LoadStatsRequest())

    async def is_taken() -> bool:
        return known.at != before

    await until(is_taken)


@contextlib.asynccontextmanager
async def nodes(stage: Stage, driver: EnvoyDriver, names: str) -> AsyncIterator[None]:
    """Have Envoys connected that have a load balancer with a member, for a block."""
    async with contextlib.AsyncExitStack() as stack:
        for name in names:
            await stack.enter_async_context(Node.running(stage.port, name))

        async def are_there() -> bool:
            return {FLEET: [*names]} == driver.keeper.fleets.known()

        await until(are_there)
        await settled(partial(driver.create_load_balancer, stage.create()))
        await settled(lambda: driver.ensure_backend(stage.ensure("one", MEMBER)))
        yield


@pytest.fixture(name="looks")
def _looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the Envoys of which it was looked what they are owed, one for each time."""
    owed, looks = Session.owed, list[str]()

    def counted(self: Session, snapshot: Snapshot) -> Iterator[tuple[Kind, Offer, str]]:
        looks.append(self.envoy)
        return owed(self, snapshot)

    monkeypatch.setattr(Session, "owed", counted)
    return looks


async def test_a_load_report_wakes_nobody(stage: Stage, looks: list[str]) -> None:
    """Neither streams of other Envoys nor operations: who asks about a drain looks at it."""
    driver = await stage.driver()
    async with nodes(stage, driver, NAMES), reporting(stage, "a") as call:
        fleet = driver.keeper.fleets.fleet(FLEET)
        await wish(call)
        waiting = asyncio.ensure_future(fleet.change())
        before = len(looks)

        # What the first one wakes has run when the second one is taken.
        for _ in range(2):
            await report(call, fleet)
        is_woken, after = waiting.done(), len(looks)
        waiting.cancel()

    assert not is_woken
    assert before == after


async def test_what_an_envoy_acknowledges_wakes_its_own_stream(
    stage: Stage, looks: list[str]
) -> None:
    """A change costs each stream a few looks, and not one for each Envoy that there is."""
    driver = await stage.driver()
    async with nodes(stage, driver, NAMES):
        looks.clear()
        heavier = stage.ensure("one", MEMBER, {"weight": "3"})
        await settled(lambda: driver.ensure_backend(heavier))

    assert {*NAMES} == {*looks}
    assert 3 * len(NAMES) >= len(looks)


async def test_reports_are_wished_for_often_while_a_member_drains(stage: Stage) -> None:
    """Each wish once, whatever else changes, since it has an Envoy begin its period anew."""
    driver = await stage.driver()
    async with nodes(stage, driver, "a"), reporting(stage, "a") as call:
        wishes = [await wish(call)]
        other = stage.ensure("two", "198.18.0.2:80")
        await settled(lambda: driver.ensure_backend(other))
        await driver.drain_backend(stage.drain("one", MEMBER))
        wishes.append(await wish(call))
        await driver.drain_backend(stage.drain("two", "198.18.0.2:80"))
        async with reporting(stage, "a") as late:
            wishes.append(await wish(late))
        for record, address in (("one", MEMBER), ("two", "198.18.0.2:80")):
            await driver.deregister_backend(stage.deregister(record, address))
        wishes.append(await wish(call))
        await settled(lambda: driver.ensure_backend(stage.ensure("one", MEMBER)))
        await driver.drain_backend(stage.drain("one", MEMBER))
        wishes.append(await wish(call))
        await driver.delete_load_balancer(stage.delete())
        wishes.append(await wish(call))

    quick, slow = INTERVAL, IDLE_INTERVAL
    assert [slow, quick, quick, slow, quick, slow] == wishes


@pytest.mark.envoy
async def test_a_drain_is_over_soon_though_reports_came_seldom(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Envoy begins a new period when it is told of another one."""
    monkeypatch.setattr(fleets, "IDLE_INTERVAL", NEVER)
    driver = await stage.driver()
    await stage.envoy()
    await settled(partial(driver.create_load_balancer, stage.create()))
    await settled(lambda: driver.ensure_backend(stage.ensure("one", MEMBER)))

    await settled(lambda: driver.drain_backend(stage.drain("one", MEMBER)))
