"""The control plane with our CRDs, and a stage on it whose processes are followed."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.stage import Stage
from tests.e2e.traces import followed
from tests.lab.cluster import Cluster


@pytest.fixture(name="bare")
async def _bare(
    control_plane: Cluster,
    crds: Path,
    namespace: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Stage]:
    """A namespace with nothing in it and no process running.

    In the end the processes are killed, and what they did is held against the model.
    """
    assert crds.name == "crds"
    async with followed(control_plane, namespace, tmp_path, request) as stage:
        yield stage


@pytest.fixture(name="stage")
async def _stage(bare: Stage) -> Stage:
    """Driver, controller and deregistrar running, one load balancer and one group.

    The load balancer's epoch is known: from here on each call and each write is due to
    what the test does.
    """
    await bare.start_driver()
    await bare.start("controller")
    await bare.start("deregistrar")
    await bare.setting()
    await bare.until_epoch()
    return bare
