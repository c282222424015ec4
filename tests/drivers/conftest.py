"""Fixtures of the tests that call drivers."""

from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from prometheus_client import CollectorRegistry

from lbcf.drivers.pool import DriverPool
from lbcf.runtime.clock import SystemClock
from tests.drivers.servers import BESIDE_US


@pytest.fixture(name="registry")
def _registry() -> CollectorRegistry:
    """Return where the pool counts."""
    return CollectorRegistry()


@pytest.fixture(name="pool")
async def _pool(registry: CollectorRegistry) -> AsyncIterator[DriverPool]:
    """Give a pool without connections."""
    async with DriverPool(SystemClock(), registry, allowlist=BESIDE_US) as pool:
        yield pool


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], AbstractEventLoop]]:
    """Use the loop that the processes use; TLS and broken connections are its own."""
    return {"uvloop": uvloop.new_event_loop}
