"""The driver is killed, its state is lost, its Envoys are: what is there afterwards."""

import asyncio
import itertools
import json

from contextlib import AsyncExitStack

import grpc
import pytest

from aiohttp import ClientSession

from lbcf.sdk import (
    BackendState,
    DrainBackendRequest,
    Fail,
    RetryAfter,
    Running,
    Succ,
)
from tests.envoy.conftest import StartServer
from tests.envoy.kills import killed
from tests.envoy.process import call, process
from tests.envoy.stage import UNAIDED, Stage
from tests.envoy.streams import GrpcServer, Stream
from tests.haproxy.waiting import until
from tests.haproxy.web import Traffic, ask
from tests.webhooks.troubled import settled, told
from webhooks.envoy.loads import INTERVAL


pytestmark = pytest.mark.envoy


async def test_killed_at_any_step(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """Who stays is never missing, and no request fails; who left is gone at last.

    Each process begins with what the one before has left.
    """
    envoy = await stage.envoy()
    stays, comes = await start_server("stays"), await start_server("comes")
    life = (
        ("ensureBackend", stage.ensure("comes", comes.address)),
        ("drainBackend", stage.drain("comes", comes.address)),
        ("deregisterBackend", stage.deregister("comes", comes.address)),
    )
    async with process(stage) as healthy:
        made = stage.create(**UNAIDED)
        await call(client, healthy.url, "createLoadBalancer", made)
        ensure = stage.ensure("stays", stays.address)
        await call(client, healthy.url, "ensureBackend", ensure)
    traffic = Traffic(stage.url)
    await stage.until_workers_know()

    deaths = 0
    async with traffic.flowing(people=3):
        for die_at in itertools.count():
            async with process(stage, die_at) as child:
                is_alive = all([await call(client, child.url, *one) for one in life])
            members = await envoy.members(stage.listen)
            assert "HEALTHY" == members[stays.address], die_at
            if is_alive:
                break
            deaths += 1

    assert {stays.address: "HEALTHY"} == await envoy.members(stage.listen)
    assert deaths >= 12
    assert 0 == traffic.failed, traffic.answers


async def test_killed_again_and_again(stage: Stage, start_server: StartServer) -> None:
    """Five times under load: no request fails, and no member is missing at any look."""
    envoy = await stage.envoy()
    servers = [await start_server(f"s{number}") for number in range(4)]

    losses = await killed(stage, envoy, servers, 5)

    assert (5, 0) == (losses.kills, losses.lost)
    assert 0 == losses.traffic.failed, losses.traffic.answers
    assert {one.address for one in servers[:3]} == set(
        await envoy.members(stage.listen)
    )


async def _killed_in_a_drain(
    stage: Stage, client: ClientSession, drain: DrainBackendRequest, other: str
) -> None:
    """Start the driver, have a member drain beside another one, and kill the driver."""
    async with process(stage) as driver:
        await call(client, driver.url, "ensureBackend", stage.ensure("new", other))
        await call(client, driver.url, "drainBackend", drain)
        await stage.until_workers_know()
        driver.child.kill()
        await driver.child.wait()


async def test_streams_of_grpc_outlive_kills_and_rollouts(
    stage: Stage, client: ClientSession
) -> None:
    """No stream is cut though its member drains: that waits for the last one's end."""
    await stage.envoy()
    async with AsyncExitStack() as stack:
        old, new = [
            await stack.enter_async_context(GrpcServer.running(name, "127.0.1.1"))
            for name in ("old", "new")
        ]
        channel = await stack.enter_async_context(
            grpc.aio.insecure_channel(stage.listen)
        )
        made = stage.create(upstreamProtocol="http2")
        async with process(stage) as driver:
            await call(client, driver.url, "createLoadBalancer", made)
            ensure = stage.ensure("old", old.address)
            await call(client, driver.url, "ensureBackend", ensure)
            await stage.until_workers_know()
            streams = [Stream.begin(channel) for _ in range(20)]
            first = [await one.ask() for one in streams]
        drain = stage.drain("old", old.address)
        for _ in range(3):
            await _killed_in_a_drain(stage, client, drain, new.address)
            assert ["old"] * 20 == [await one.ask() for one in streams]
        late = Stream.begin(channel)
        answered = await late.ask()
        lasting = await stage.driver()

        async def are_counted() -> bool:
            answer = await lasting.drain_backend(drain)
            assert isinstance(answer, Running), answer
            return answer.active_connections == len(streams)

        await until(are_counted)
        for one in streams:
            await one.end()
        await settled(lambda: lasting.drain_backend(drain))
        await lasting.deregister_backend(stage.deregister("old", old.address))
        await old.stop()

        assert (["old"] * 20, "new") == (first, answered)
        assert "new" == await late.ask()
        await late.end()


async def test_a_restart_sends_nothing(stage: Stage, start_server: StartServer) -> None:
    """An Envoy that comes back has the versions that the driver would send."""
    envoy = await stage.envoy()
    driver = await stage.driver()
    await driver.create_load_balancer(stage.create())
    server = await start_server("one")
    await driver.ensure_backend(stage.ensure("one", server.address))
    before = json.loads(await envoy.ask("/config_dump?include_eds"))
    epoch = (await driver.list_backends(stage.list())).epoch
    await driver.stop()

    driver = await stage.driver()
    listed = await driver.list_backends(stage.list())

    assert epoch == listed.epoch
    assert [BackendState.ACTIVE] == [one.state for one in listed.backends]
    assert before == json.loads(await envoy.ask("/config_dump?include_eds"))


async def test_an_orderly_end_is_no_error(stage: Stage, client: ClientSession) -> None:
    """SIGTERM ends the streams of Envoys without a word about it."""
    async with process(stage) as driver:
        await stage.envoy()
        await call(client, driver.url, "createLoadBalancer", stage.create())
        ensure, drain = (
            one("one", "198.18.0.1:80") for one in (stage.ensure, stage.drain)
        )
        await call(client, driver.url, "ensureBackend", ensure)
        await call(client, driver.url, "drainBackend", drain)
        await asyncio.sleep(INTERVAL)  # load reports flow, too
        driver.child.terminate()
        assert driver.child.stderr is not None
        said = await driver.child.stderr.read()

    assert b"driver.stopped" in said
    assert b'"level":"error"' not in said


async def test_envoy_restarts(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """The first request that it answers is answered by a member."""
    envoy = await stage.envoy()
    driver = await stage.driver()
    await driver.create_load_balancer(stage.create())
    server = await start_server("one")
    await driver.ensure_backend(stage.ensure("one", server.address))
    await envoy.kill()

    starting = asyncio.create_task(envoy.start())
    answers: list[str] = []

    async def is_back() -> bool:
        answers.append(await ask(client, stage.url))
        return answers[-1] == "one"

    await until(is_back)
    await starting

    assert {"one", "ClientConnectorError"} >= set(answers), answers


async def test_a_driver_with_other_state_does_no_harm(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """It neither takes members away nor puts its own beside; Envoy goes on."""
    envoy = await stage.envoy()
    driver = await stage.driver()
    await driver.create_load_balancer(stage.create())
    server = await start_server("one")
    await driver.ensure_backend(stage.ensure("one", server.address))
    await driver.stop()

    lost = await stage.driver(stage.folder / "other")
    asks = (
        lambda: lost.create_load_balancer(stage.create()),
        lambda: lost.ensure_backend(stage.ensure("two", "198.18.0.2:80")),
        lambda: lost.deregister_backend(stage.deregister("one", server.address)),
        lambda: lost.delete_load_balancer(stage.delete()),
    )
    said = [await told(one) for one in asks[:3]]

    assert all("from a driver with another state directory" in one for one in said)
    assert {server.address: "HEALTHY"} == await envoy.members(stage.listen)
    await stage.until_workers_know()
    assert "one" == await ask(client, stage.url)
    await envoy.kill()
    await envoy.start()
    await settled(asks[1])
    assert {"198.18.0.2:80": "HEALTHY"} == await envoy.members(stage.listen)


async def test_a_second_process_stands_by(
    stage: Stage, start_server: StartServer
) -> None:
    """It says whom to call, and takes over without a change at Envoy."""
    await stage.envoy()
    first, second = await stage.driver(), await stage.driver()
    await first.create_load_balancer(stage.create())
    server = await start_server("one")

    with pytest.raises(RetryAfter, match="another process of this driver has"):
        await second.ensure_backend(stage.ensure("one", server.address))
    assert [True, False] == [await one.healthz() for one in (first, second)]
    await first.stop()
    await settled(lambda: second.ensure_backend(stage.ensure("one", server.address)))

    assert await second.healthz()


async def test_a_full_disk(stage: Stage, start_server: StartServer) -> None:
    """No Envoy is told of what is not on disk."""
    envoy = await stage.envoy()
    driver = await stage.driver()
    await driver.create_load_balancer(stage.create())
    server = await start_server("one")

    def full(_: str) -> None:
        raise OSError(28, "No space left on device")

    driver.keeper.store.step = full
    with pytest.raises(Fail, match=r"cannot be written .*No space left"):
        await driver.ensure_backend(stage.ensure("one", server.address))
    assert {} == await envoy.members(stage.listen)
    driver.keeper.store.step = lambda _: None

    assert isinstance(
        await driver.ensure_backend(stage.ensure("one", server.address)), Succ
    )


async def _of_a_backup(stage: Stage, *, is_broken: bool) -> str:
    """Have an older file of the state, in which are others; return the epoch before."""
    driver = await stage.driver()
    await driver.create_load_balancer(stage.create())
    await driver.ensure_backend(stage.ensure("old", "198.18.0.1:80"))
    (path,) = (stage.folder / "balancers").iterdir()
    backup = path.read_bytes()
    await driver.ensure_backend(stage.ensure("new", "198.18.0.2:80"))
    await driver.deregister_backend(stage.deregister("old", "198.18.0.1:80"))
    epoch = (await driver.list_backends(stage.list())).epoch
    await driver.stop()
    if is_broken:
        path.write_text("{")
        with pytest.raises(OSError, match="put it back from a backup"):
            await stage.driver()
    path.write_bytes(backup)
    return epoch


async def test_state_that_cannot_be_read(stage: Stage) -> None:
    """The driver does not start: what it does not know it would take away.

    What is put back is older, so that members are registered anew.
    """
    await stage.envoy()
    before = await _of_a_backup(stage, is_broken=True)

    driver = await stage.driver()
    listed = await driver.list_backends(stage.list())
    await driver.ensure_backend(stage.ensure("new", "198.18.0.2:80"))
    await driver.stop()
    again = await (await stage.driver()).list_backends(stage.list())

    assert ["old"] == [one.record_id for one in listed.backends]
    assert before != listed.epoch == again.epoch


async def test_state_that_a_person_puts_back(stage: Stage) -> None:
    """It says that it is older, for nothing else does; Envoys have what is theirs all the same."""
    envoy = await stage.envoy()
    before = await _of_a_backup(stage, is_broken=False)
    (stage.folder / "restored").write_text("2026-11-28\n")

    driver = await stage.driver()
    listed = await settled(lambda: driver.list_backends(stage.list()))
    await driver.ensure_backend(stage.ensure("new", "198.18.0.2:80"))

    assert listed is not None
    assert before != listed.epoch
    assert {"198.18.0.1:80", "198.18.0.2:80"} == set(await envoy.members(stage.listen))
