"""Fixtures of the tests that call drivers."""

from collections.abc import AsyncIterator

import pytest

from prometheus_client import CollectorRegistry

from lbcf.drivers.pool import DriverPool
from lbcf.runtime.clock import SystemClock


@pytest.fixture(name="registry")
def _registry() -> CollectorRegistry:
    """Return where the pool counts."""
    return CollectorRegistry()


@pytest.fixture(name="pool")
async def _pool(registry: CollectorRegistry) -> AsyncIterator[DriverPool]:
    """Give a pool without connections."""
    async with DriverPool(SystemClock(), registry) as pool:
        yield pool
