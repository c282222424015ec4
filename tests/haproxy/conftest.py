"""Fixtures: one or more HAProxys, web servers behind them, and the driver."""

import contextlib
import ipaddress

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from aiohttp import ClientSession

from tests.haproxy.proxy import Haproxy
from tests.haproxy.web import WebServer
from tests.patience import PATIENCE
from webhooks.haproxy.connection import Limits
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.endpoints import AllowedEndpoints
from webhooks.haproxy.load_balancers import LoadBalancers
from webhooks.shared.reach import AllowedAddresses


ANYWHERE = AllowedEndpoints(("/tmp/*/*.sock", "127.0.0.1:*"))
"""Where the sockets of tests are."""

HERE = AllowedAddresses(
    (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1"))
)
"""Where the members of tests are."""

PATIENT = Limits(patience=timedelta(seconds=PATIENCE))
"""Of drivers: a machine may be slow, HAProxy's answers are not what is timed."""

D = TypeVar("D", bound=HaproxyDriver)

StartProxy = Callable[[], Awaitable[Haproxy]]
StartServer = Callable[..., Awaitable[WebServer]]


@pytest.fixture(name="start_proxy")
async def _start_proxy() -> AsyncIterator[StartProxy]:
    """Start as many HAProxys as the test likes."""
    async with contextlib.AsyncExitStack() as stack:

        async def start() -> Haproxy:
            return await stack.enter_async_context(Haproxy.running())

        yield start


@pytest.fixture(name="proxy")
async def _proxy(start_proxy: StartProxy) -> Haproxy:
    """Return a running HAProxy."""
    return await start_proxy()


@pytest.fixture(name="start_server")
async def _start_server() -> AsyncIterator[StartServer]:
    """Start as many web servers as the test likes."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(
            name: str, host: str = "127.0.1.1", *, listens: bool = True
        ) -> WebServer:
            server = WebServer.running(name, host, listens=listens)
            return await stack.enter_async_context(server)

        yield start


def patient(kind: type[D], allowed: AllowedEndpoints = ANYWHERE, **how: Any) -> D:
    """Return a driver that no slow machine has give up.

    Args:
        kind: of it.
        allowed: which HAProxys it may use.
        how: what else its `LoadBalancers` are told.
    """
    balancers = LoadBalancers(allowed, PATIENT, **how)
    return kind(balancers, patience=PATIENT.patience)


@pytest.fixture(name="driver")
def _driver() -> HaproxyDriver:
    """Return a driver that has never done anything."""
    return patient(HaproxyDriver, addresses=HERE)


@pytest.fixture(name="client")
async def _client() -> AsyncIterator[ClientSession]:
    """Return somebody who can send requests."""
    async with ClientSession() as session:
        yield session
