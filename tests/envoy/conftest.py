"""Fixtures: what a test of the Envoy driver plays with, and web servers behind it."""

import contextlib

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from aiohttp import ClientSession

from tests.envoy.stage import Stage
from tests.haproxy.web import WebServer


StartServer = Callable[..., Awaitable[WebServer]]


@pytest.fixture(name="stage")
async def _stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Keep a stage."""
    async with Stage.running(tmp_path / "state") as stage:
        yield stage


@pytest.fixture(name="start_server")
async def _start_server() -> AsyncIterator[StartServer]:
    """Start as many web servers as the test likes."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(name: str, host: str = "127.0.1.1") -> WebServer:
            return await stack.enter_async_context(WebServer.running(name, host))

        yield start


@pytest.fixture(name="client")
async def _client() -> AsyncIterator[ClientSession]:
    """Return somebody who can send requests."""
    async with ClientSession() as session:
        yield session
