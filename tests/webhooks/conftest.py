"""The fixture of the suite that all shipped drivers pass, and the loops of tests here."""

import asyncio

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.steady import SteadyLoop
from tests.webhooks.rig import Rig
from tests.webhooks.rigs import RIGS


@pytest.fixture(
    name="rig",
    params=[pytest.param(name, marks=kind.marks) for name, kind in RIGS.items()],
)
async def _rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """Give a driver's load balancer."""
    async with RIGS[request.param].running(tmp_path) as rig:
        yield rig


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Count only what is waited for in vain where no other process has a part."""
    if item.path.stem == "test_memory":
        return {"steady": SteadyLoop}
    return {"asyncio": asyncio.new_event_loop}
