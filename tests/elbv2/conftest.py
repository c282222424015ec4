"""Fixtures: the emulator with a target group, and the driver that uses it."""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.elbv2.clients import write_credentials
from tests.elbv2.clocks import QuickClock
from tests.elbv2.emulator import OURS, Emulator
from tests.elbv2.state import DELAY, EmulatedGroup
from tests.patience import PATIENT
from tests.steady import SteadyLoop
from webhooks.elbv2.balancer import LoadBalancers
from webhooks.elbv2.claims import Claims
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.elbv2.regions import Aws, Settings


MakeDriver = Callable[..., Elbv2Driver]


@pytest.fixture(name="clock")
def _clock() -> QuickClock:
    """Return the one clock of emulator and driver."""
    return QuickClock()


@pytest.fixture(name="emulator")
async def _emulator(clock: QuickClock) -> AsyncIterator[Emulator]:
    """Return a running emulator without target groups."""
    async with Emulator.running(clock) as emulator:
        yield emulator


@pytest.fixture(name="group")
def _group(emulator: Emulator, clock: QuickClock) -> EmulatedGroup:
    """Return a target group that drains for a minute."""
    group = emulator.add(EmulatedGroup(clock))
    group.attributes[DELAY] = "60"
    return group


@pytest.fixture(name="credentials")
def _credentials(tmp_path: Path, emulator: Emulator) -> Path:
    """Return a folder with the driver's credentials, as a Secret is mounted."""
    folder = tmp_path / "credentials"
    folder.mkdir()
    write_credentials(folder, OURS, emulator.keys[OURS].secret)
    return folder


@pytest.fixture(name="make_driver")
async def _make_driver(
    emulator: Emulator, clock: QuickClock, credentials: Path
) -> AsyncIterator[MakeDriver]:
    """Make as many drivers as the test likes; `claims` is the path of their file."""
    async with contextlib.AsyncExitStack() as stack:

        def make(claims: str = ":memory:", **settings: object) -> Elbv2Driver:
            said = {
                "endpoint_url": emulator.url,
                "credentials": credentials,
                "connecting": PATIENT,
                "answering": PATIENT,
            }
            chosen = Settings(**(said | {"attempts": 1} | settings))  # type: ignore[arg-type]
            balancers = LoadBalancers(
                Aws(chosen, clock), Claims(claims), fresh=timedelta(milliseconds=10)
            )
            driver = Elbv2Driver(balancers, patience=PATIENT)
            stack.push_async_callback(driver.stop)
            return driver

        yield make


@pytest.fixture(name="driver")
def _driver(make_driver: MakeDriver) -> Elbv2Driver:
    """Return a driver that has never done anything."""
    return make_driver()


def pytest_asyncio_loop_factories() -> dict[
    str, Callable[[], asyncio.AbstractEventLoop]
]:
    """Use one in which nothing is late because the machine is busy."""
    return {"steady": SteadyLoop}
