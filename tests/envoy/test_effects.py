"""What attributes and parameters bring about: counted at web servers behind a real Envoy."""

from collections import Counter
from collections.abc import Iterable
from functools import partial

import pytest

from aiohttp import ClientSession

from tests.envoy.conftest import StartServer
from tests.envoy.stage import Stage
from tests.haproxy.waiting import until
from tests.haproxy.web import WebServer, ask
from tests.webhooks.troubled import settled


pytestmark = pytest.mark.envoy

ROUND = 12
"""Requests in which each of a few weights has had its whole turns."""


async def answers(client: ClientSession, url: str, number: int) -> Counter[str]:
    """Send requests one after the other; count who answered."""
    return Counter([await ask(client, url) for _ in range(number)])


async def put(stage: Stage, members: Iterable[tuple[str, str, str]]) -> None:
    """Ensure members: their names, addresses and weights."""
    driver = stage.drivers[-1]
    for name, address, weight in members:
        await driver.ensure_backend(stage.ensure(name, address, {"weight": weight}))


async def test_weights_are_shares(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """In turns by weight, exactly: Envoy's round robin is none of chance."""
    driver = await stage.driver()
    await stage.envoy()
    await driver.create_load_balancer(stage.create())
    light, heavy = await start_server("light"), await start_server("heavy")
    await put(stage, [("light", light.address, "1"), ("heavy", heavy.address, "2")])

    # Each worker of Envoy counts turns of its own, and hears of changes a moment after the
    # driver: one connection stays with one, and has these shares from some round on.
    async def shared(**shares: int) -> bool:
        return shares == await answers(client, stage.url, ROUND)

    await until(lambda: shared(light=ROUND // 3, heavy=ROUND * 2 // 3))
    await put(stage, [("light", light.address, "2")])
    await until(lambda: shared(light=ROUND // 2, heavy=ROUND // 2))


async def test_zones_are_localities(stage: Stage, start_server: StartServer) -> None:
    """Envoy knows where each member is, as zone-aware routing asks for."""
    driver = await stage.driver()
    envoy = await stage.envoy()
    await driver.create_load_balancer(stage.create())
    zones = {"a": "eu-west-1a", "b": "eu-west-1b"}
    known = {}
    for name, zone in zones.items():
        server = await start_server(name)
        member = stage.ensure(name, server.address, {"zone": zone})
        await driver.ensure_backend(member)
        known[server.address] = zone

    hosts = (await envoy.clusters())[f"lbcf/{stage.listen}"]
    assert known == {at: host["locality"]["zone"] for at, host in hosts.items()}


async def test_a_member_that_fails_its_checks_gets_nothing(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """It is back in turn once it answers again."""
    driver = await stage.driver()
    await stage.envoy()
    said = {"check": "http", "checkInterval": "100ms", "checkFall": "1", "retries": "0"}
    await driver.create_load_balancer(stage.create(**said))
    well, ill = await start_server("well"), await start_server("ill")
    for server in (well, ill):
        member = stage.ensure(server.name, server.address)
        await settled(partial(driver.ensure_backend, member))

    async def answered(*names: str) -> bool:
        return set(names) == set(await answers(client, stage.url, ROUND))

    await until(lambda: answered("well", "ill"))
    await ill.stop()
    await until(lambda: answered("well"))
    host, _, port = ill.address.rpartition(":")
    async with WebServer.running("ill", host, int(port)):
        await until(lambda: answered("well", "ill"))


@pytest.mark.parametrize("affinity", ["ClientIP", "None"])
async def test_a_client_stays_with_its_member(
    stage: Stage, start_server: StartServer, client: ClientSession, affinity: str
) -> None:
    """As a Service asks for; without affinity it goes from one to the other."""
    driver = await stage.driver()
    await stage.envoy()
    await driver.create_load_balancer(stage.create(sessionAffinity=affinity))
    for name in ("one", "two"):
        server = await start_server(name)
        await driver.ensure_backend(stage.ensure(name, server.address))

    await stage.until_workers_know()
    counted = await answers(client, stage.url, ROUND)
    assert counted.total() == ROUND
    assert len(counted) == (1 if affinity == "ClientIP" else 2)


async def test_each_request_is_logged_if_asked_for(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """On standard output, where a pod's log is; not before it is asked for."""
    driver = await stage.driver()
    envoy = await stage.envoy()
    await driver.create_load_balancer(stage.create())
    server = await start_server("one")
    await driver.ensure_backend(stage.ensure("one", server.address))
    await ask(client, f"{stage.url}?asked=before")
    loud = stage.remake(accessLog="stdout")
    await settled(partial(driver.ensure_load_balancer, loud))

    async def is_logged() -> bool:
        # Connections of the old listener are not logged: they end with it.
        async with ClientSession() as other:
            await ask(other, f"{stage.url}?asked=after")
        return "?asked=after" in envoy.log

    await until(is_logged)
    assert "?asked=before" not in envoy.log
