"""Fixtures: a unit, a pair, and the driver."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from lbcf.sdk import Clock
from tests.f5.drivers import a_driver
from tests.f5.server import PASSWORD, USER, Bigip, a_bigip, a_pair
from webhooks.f5.driver import F5Driver


@pytest.fixture(name="drivers")
async def _drivers() -> AsyncIterator[list[F5Driver]]:
    """Return the drivers of a test; they end before the units do."""
    drivers: list[F5Driver] = []
    yield drivers
    await _stop(drivers)


async def _stop(drivers: list[F5Driver]) -> None:
    """End all drivers."""
    while drivers:
        await drivers.pop().stop()


@pytest.fixture(name="bigip")
async def _bigip(drivers: list[F5Driver]) -> AsyncIterator[Bigip]:
    """Return a unit with the empty pool /Common/web."""
    async with a_bigip() as bigip:
        yield bigip
        await _stop(drivers)


@pytest.fixture(name="pair")
async def _pair(drivers: list[F5Driver]) -> AsyncIterator[tuple[Bigip, Bigip]]:
    """Return two units, each with that pool; the first is active."""
    async with a_pair() as pair:
        yield pair
        await _stop(drivers)


@pytest.fixture(name="secret")
def _secret(tmp_path: Path) -> Path:
    """Return the folder of a mounted Secret."""
    (tmp_path / "username").write_text(USER)
    (tmp_path / "password").write_text(PASSWORD)
    return tmp_path


@pytest.fixture(name="make_driver")
def _make_driver(secret: Path, drivers: list[F5Driver]) -> Callable[..., F5Driver]:
    """Make as many drivers as the test likes."""

    def make(clock: Clock | None = None, **changes: timedelta) -> F5Driver:
        drivers.append(a_driver(secret, clock=clock, **changes))
        return drivers[-1]

    return make


@pytest.fixture(name="driver")
def _driver(make_driver: Callable[..., F5Driver]) -> F5Driver:
    """Return a driver that has never done anything."""
    return make_driver()
