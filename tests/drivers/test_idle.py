"""Connections that ask nothing: a driver closes them, and no call of ours is lost by it."""

import asyncio
import contextlib

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from aiohttp import web

from lbcf.drivers import client
from lbcf.drivers.pool import DriverPool
from lbcf.runtime.idle import IDLE
from lbcf.sdk.run import runner_of
from lbcf.sdk.server import Service
from lbcf.wire.driver_answers import Status
from tests.drivers.servers import ensure
from tests.patience import PATIENCE
from tests.sdk.services import PlainDriver


SOON = timedelta(seconds=0.3)


@contextlib.asynccontextmanager
async def driving(idle: timedelta) -> AsyncIterator[tuple[web.AppRunner, int]]:
    """Serve a driver as `lbcf.sdk.run` does; give what serves it, and the port."""
    runner = runner_of(Service(PlainDriver()), idle)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner, runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(b"", id="says nothing"),
        pytest.param(b"POST /ensureBackend HTTP/1.1\r\nHost: dr", id="half a head"),
    ],
)
async def test_connection_that_asks_nothing_is_closed(begun: bytes) -> None:
    """Whoever reaches the port could take up all open files, without a token."""
    async with driving(SOON) as (_, port), asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        assert b"" == await reader.read()
        writer.close()


async def test_call_after_a_connection_was_closed(pool: DriverPool) -> None:
    """It goes over another one, and has its answer."""
    async with driving(SOON) as (runner, port), asyncio.timeout(PATIENCE):
        assert runner.server is not None
        for _ in range(2):
            answer = await ensure(pool, f"http://127.0.0.1:{port}")
            assert Status.SUCC is answer.status
            while runner.server.connections:  # noqa: ASYNC110 - nothing else tells
                await asyncio.sleep(0.01)


def test_driver_waits_for_longer_than_its_callers() -> None:
    """A call must not be on its way over a connection that is just being closed."""
    assert timedelta(seconds=client._KEEPALIVE) * 2 < IDLE  # noqa: SLF001
