"""Who connects to the driver and is no Envoy that it can serve."""

import asyncio

import grpc
import pytest

from aiohttp import ClientSession

from tests.envoy.conftest import StartServer
from tests.envoy.stage import Stage
from tests.haproxy.waiting import until
from tests.haproxy.web import ask


pytestmark = pytest.mark.envoy

GARBAGE = (
    b"",
    b"GET / HTTP/1.1\r\nHost: driver\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 4096,
    bytes(range(256)) * 400,
)
"""Nothing, a browser, TLS, half of HTTP/2, HTTP/2 with frames that there are not, noise."""


DELTA = (
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
)


async def answer_to_noise(port: int) -> str:
    """Send what is no message of protobuf in a stream of gRPC; return how that ends."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream(DELTA)()
        await call.write(b"\xff" * 1000)
        code = await call.code()
        return str(code.name)


async def test_an_envoy_that_asks_for_whole_states_is_told(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own log says what to write, and so does the driver's; others are served."""
    driver = await stage.driver()
    envoy = await stage.envoy("old", api_type="GRPC")

    async def is_told() -> bool:
        return "use api_type: DELTA_GRPC in its ads_config" in envoy.log

    await until(is_told)
    logged = capsys.readouterr().out
    assert "envoy.turned_away" in logged
    assert "Envoy 'old' of fleet 'edge' asks for the state of the world" in logged
    assert not any(one.sessions for one in driver.keeper.fleets)
    await stage.envoy("new")
    await driver.create_load_balancer(stage.create())


async def test_garbage_disturbs_nobody(
    stage: Stage,
    start_server: StartServer,
    client: ClientSession,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Envoys keep their streams, what is changed meanwhile reaches them, the log has a line."""
    driver = await stage.driver()
    await stage.envoy()
    await driver.create_load_balancer(stage.create())
    before = set(driver.keeper.fleets.fleet("edge").sessions)
    writers = []

    for number in range(3):
        for one in GARBAGE:
            _, writer = await asyncio.open_connection("127.0.0.1", stage.port)
            writer.write(one)
            writers.append(writer)
        assert "INVALID_ARGUMENT" == await answer_to_noise(stage.port)
        server = await start_server(f"s{number}")
        await driver.ensure_backend(stage.ensure(server.name, server.address))

    assert before == set(driver.keeper.fleets.fleet("edge").sessions)
    await stage.until_workers_know()
    assert (await ask(client, stage.url)).startswith("s")
    assert 1 == capsys.readouterr().out.count("what is no request of xDS came from")
    for writer in writers:
        writer.transport.abort()
