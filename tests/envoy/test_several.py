"""Several Envoys in one fleet, and several processes of one Envoy."""

import asyncio
import json

from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from aiohttp import ClientSession

from lbcf.sdk import Fail, Running
from tests.envoy.conftest import StartServer
from tests.envoy.node import Node
from tests.envoy.proxy import Envoy
from tests.envoy.relay import Relay
from tests.envoy.rig import BRIEF
from tests.envoy.stage import Stage, are_connected
from tests.haproxy.waiting import until
from tests.haproxy.web import WebServer, ask
from tests.webhooks.troubled import settled, told
from webhooks.envoy.driver import EnvoyDriver
from webhooks.envoy.fleets import Fleet
from webhooks.envoy.loads import Load, Reporting
from webhooks.envoy.resources import Kind
from webhooks.envoy.sessions import opened


pytestmark = pytest.mark.envoy

LB = "lbcf/10.0.0.1:80"
MEMBER = "10.0.0.2:80"


async def until_held(server: WebServer) -> None:
    """Wait until a slow request is at a server."""

    async def is_held() -> bool:
        return server.waiting == 1

    await until(is_held)


async def until_counted(driver: EnvoyDriver, stage: Stage, server: WebServer) -> str:
    """Drain until one request is told, and nothing is unknown; return the words."""
    said = ""

    async def is_counted() -> bool:
        nonlocal said
        answer = await driver.drain_backend(stage.drain(server.name, server.address))
        assert isinstance(answer, Running), answer
        said = str(answer.msg).partition("left: ")[2].partition(" (?")[0]
        return answer.active_connections == 1 and "?" not in said

    await until(is_counted)
    return said


async def test_one_that_is_late_holds_all_up(
    stage: Stage, start_server: StartServer
) -> None:
    """Nothing is done while one Envoy of two has not acknowledged it, and it is named."""
    driver = await stage.driver(patience=BRIEF)
    ready = await stage.envoy("a")
    apart = await stage.stack.enter_async_context(Relay.running(stage.port))
    await stage.stack.enter_async_context(Envoy.running(apart.port, "b"))
    await until(partial(are_connected, driver, "ab"))
    await settled(partial(driver.create_load_balancer, stage.create()))
    server = await start_server("one")
    ensure = stage.ensure("one", server.address)

    async def is_told() -> bool:
        late = await told(lambda: driver.ensure_backend(ensure))
        return late == "Envoy b has not acknowledged it yet"

    apart.hang()
    await until(is_told)
    there = await ready.members(stage.listen)
    apart.flow()
    await settled(lambda: driver.ensure_backend(ensure))

    assert {server.address: "HEALTHY"} == there


async def test_one_that_refuses_is_named_with_its_words(stage: Stage) -> None:
    """The other one takes it up all the same."""
    driver = await stage.driver()
    ready = await stage.envoy("a")
    words = (Kind.LISTENER, "no such filter here")

    async with Node.running(stage.port, "b", refuses=words):
        await until(partial(are_connected, driver, "ab"))
        with pytest.raises(Fail, match=r"^Envoy b refused it: no such filter here$"):
            await driver.create_load_balancer(stage.create())

    async def listens() -> bool:
        return [f"lbcf/{stage.listen}"] == await ready.listeners()

    await until(listens)


async def test_a_drain_waits_for_all_envoys(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """It is not over while one of two has a request; that one alone is named."""
    driver = await stage.driver()
    envoys = {name: await stage.envoy(name) for name in ("a", "b")}
    await until(partial(are_connected, driver, "ab"))
    await settled(partial(driver.create_load_balancer, stage.create()))
    server = await start_server("one")
    await settled(lambda: driver.ensure_backend(stage.ensure("one", server.address)))
    await stage.until_workers_know()
    slow = asyncio.create_task(ask(client, f"{stage.url}slow"))
    await until_held(server)
    (busy,) = [name for name, one in envoys.items() if await requests_at(one, stage)]

    said = await until_counted(driver, stage, server)
    server.release()
    await settled(lambda: driver.drain_backend(stage.drain("one", server.address)))

    assert f"1 at {busy}" == said
    assert "one" == await slow


async def requests_at(envoy: Envoy, stage: Stage) -> int:
    """Return how many requests an Envoy has at the members."""
    hosts = (await envoy.clusters())[f"lbcf/{stage.listen}"].values()
    stats = [one for host in hosts for one in host["stats"]]
    return sum(int(one.get("value", 0)) for one in stats if one["name"] == "rq_active")


async def test_a_drain_names_three_and_tells_how_many_more(stage: Stage) -> None:
    """As all messages about Envoys do."""
    driver = await stage.driver()
    async with AsyncExitStack() as stack:
        for name in "edcba":
            await stack.enter_async_context(Node.running(stage.port, name))
        await until(partial(are_connected, driver, "abcde"))
        await settled(partial(driver.create_load_balancer, stage.create()))
        ensure = stage.ensure("one", "198.18.0.1:80")
        await settled(lambda: driver.ensure_backend(ensure))
        answer = await driver.drain_backend(stage.drain("one", "198.18.0.1:80"))

    assert isinstance(answer, Running)
    assert "left: ? at a, ? at b, ? at c (and 2 more)" in str(answer.msg)


async def test_a_hot_restart(
    stage: Stage, start_server: StartServer, client: ClientSession, tmp_path: Path
) -> None:
    """The new process gets everything at once; a drain counts what the old one has."""
    driver = await stage.driver()
    base = tmp_path / "base"
    dynamic = ("--use-dynamic-base-id", "--base-id-path", str(base))
    old = await stage.stack.enter_async_context(
        Envoy.running(stage.relay.port, restart=dynamic)
    )
    await settled(partial(driver.create_load_balancer, stage.create()))
    server, other = await start_server("one"), await start_server("two")
    await settled(lambda: driver.ensure_backend(stage.ensure("one", server.address)))
    await old.until_workers_know()
    slow = asyncio.create_task(ask(client, f"{stage.url}slow"))
    await until_held(server)

    again = ("--base-id", base.read_text(), "--restart-epoch", "1")
    new = await stage.stack.enter_async_context(
        Envoy.running(stage.relay.port, restart=again)
    )

    async def has_begun() -> bool:
        return bool(json.loads(await new.ask("/server_info"))["state"] == "LIVE")

    await until(has_begun)
    assert {server.address: "HEALTHY"} == await new.members(stage.listen)
    await settled(lambda: driver.ensure_backend(stage.ensure("two", other.address)))
    said = await until_counted(driver, stage, server)
    assert "1 at envoy-1" == said
    await new.until_workers_know()  # the old one is asked for nothing any more
    assert "two" == await ask(client, stage.url)

    server.release()
    assert "one" == await slow
    await settled(lambda: driver.drain_backend(stage.drain("one", server.address)))
    await old.kill()
    gone = stage.deregister("one", server.address)
    # The old one may count as long as its end is not known.
    await settled(lambda: driver.deregister_backend(gone))
    assert {other.address: "HEALTHY"} == await new.members(stage.listen)
    # Its workers know since the drain; asked for statistics it would look for the old one.
    assert "two" == await ask(client, stage.url)


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        ({"at": 20.0, "active": 0}, None, {"a": None}),
        (None, {"at": 20.0, "active": 0}, {"a": None}),
        ({"at": 20.0, "active": 3}, {"at": 20.0, "active": 0}, {"a": 3}),
        ({"at": 20.0, "active": 3}, {"at": 14.0, "active": 0}, {"a": None}),
        ({"at": 20.0, "active": 0}, {"at": 20.0, "active": 0}, {}),
    ],
    ids=["new unheard", "old unheard", "old busy", "new not yet", "idle"],
)
def test_both_processes_of_one_envoy_count(
    old: dict[str, float] | None,
    new: dict[str, float] | None,
    left: dict[str, int | None],
) -> None:
    """What the one reports says nothing of the other, which drained at another time."""
    fleet = Fleet("edge")
    for drained_at, said in ((10.0, old), (15.0, new)):
        session = opened("a", "e")
        session.drained_since[LB] = {MEMBER: drained_at}
        fleet.sessions.add(session)
        if said is not None:
            reporting = Reporting()
            load = Load(int(said["active"]), 0)
            reporting.take({LB: {MEMBER: load}}, said["at"])
            fleet.reports.setdefault("a", []).append(reporting)

    assert left == fleet.left(LB, MEMBER, 1.0)
