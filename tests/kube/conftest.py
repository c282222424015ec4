"""Fixtures of the tests on talking to the API server."""

from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest
import uvloop

from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import connect
from lbcf.runtime.clock import SystemClock
from tests.kube.builders import PromptClock
from tests.kube.scripted import ScriptedServer, running
from tests.lab.cluster.api import Cluster


@pytest.fixture(name="clock")
def _clock() -> PromptClock:
    """Wakes at once from each sleep."""
    return PromptClock()


@pytest.fixture(name="server")
async def _server() -> AsyncIterator[ScriptedServer]:
    """A server that does as it is told."""
    async with running() as server:
        yield server


@pytest.fixture(name="client")
async def _client(
    server: ScriptedServer, clock: PromptClock
) -> AsyncIterator[KubeClient]:
    """A client of the scripted server."""
    async with connected(
        server.connection,
        clock,
        user_agent="lbcf-test/1",
        field_manager="tests",
        limit=timedelta(minutes=1),
    ) as client:
        yield client


@pytest.fixture(name="real")
async def _real(control_plane: Cluster) -> AsyncIterator[KubeClient]:
    """A client of the real API server."""
    connection = await connect(str(control_plane.kubeconfig))
    async with connected(connection, SystemClock(), user_agent="lbcf-test/1") as client:
        yield client


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], AbstractEventLoop]]:
    """Use the loop that the processes use; TLS and broken connections are its own."""
    return {"uvloop": uvloop.new_event_loop}
