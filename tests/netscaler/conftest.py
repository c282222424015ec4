"""Fixtures: an appliance, a pair of them, and the driver."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from tests.netscaler.appliances import Site, a_site
from webhooks.netscaler.driver import NetscalerDriver


@pytest.fixture(name="authority", scope="session")
def _authority() -> trustme.CA:
    """Return what signs the appliances' certificates."""
    return trustme.CA()


@pytest.fixture(name="site")
async def _site(tmp_path: Path, authority: trustme.CA) -> AsyncIterator[Site]:
    """Serve one appliance."""
    async with a_site(tmp_path, authority) as site:
        yield site


@pytest.fixture(name="pair")
async def _pair(tmp_path: Path, authority: trustme.CA) -> AsyncIterator[Site]:
    """Serve two appliances that stand in for each other."""
    async with a_site(tmp_path, authority, units=2) as site:
        yield site


@pytest.fixture(name="driver")
async def _driver(site: Site) -> AsyncIterator[NetscalerDriver]:
    """Return a driver that has never done anything."""
    driver = site.driver()
    yield driver
    await driver.stop()


@pytest.fixture(name="pair_driver")
async def _pair_driver(pair: Site) -> AsyncIterator[NetscalerDriver]:
    """Return a driver of a pair that has never done anything."""
    driver = pair.driver()
    yield driver
    await driver.stop()
