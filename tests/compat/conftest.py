"""A plain driver, and a stage on which the processes are to run with it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.compat.plain import PlainDriver, serving
from tests.compat.scene import Scene
from tests.e2e.stage import staged
from tests.lab.cluster import Cluster


@pytest.fixture(name="plain")
async def _plain() -> AsyncIterator[PlainDriver]:
    """A driver that knows LBCF's wire protocol and nothing else."""
    async with serving() as driver:
        yield driver


@pytest.fixture(name="empty")
async def _empty(
    control_plane: Cluster,
    crds: Path,
    namespace: str,
    tmp_path: Path,
    plain: PlainDriver,
) -> AsyncIterator[Scene]:
    """A namespace with nothing in it, a plain driver, and no process running."""
    assert crds.name == "crds"
    async with staged(control_plane, namespace, tmp_path) as stage:
        yield Scene(stage, plain)
