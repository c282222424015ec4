"""The fixture of the suite that all shipped drivers pass."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

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
