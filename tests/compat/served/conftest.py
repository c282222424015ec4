"""Both processes, and a stage that they serve."""

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.compat.pair import Pair, running
from tests.compat.scene import Scene
from tests.lab.cluster import Cluster


@pytest.fixture(scope="package", name="pair")
def _pair(
    control_plane: Cluster, crds: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Both processes, for all tests of this package."""
    assert crds.name == "crds"
    with running(control_plane, tmp_path_factory.mktemp("pair")) as pair:
        yield pair


@pytest.fixture(name="served")
def _served(empty: Scene, pair: Pair) -> Scene:
    """A namespace with nothing in it, both processes running."""
    return attrs.evolve(empty, pair=pair)


@pytest.fixture(name="scene")
async def _scene(served: Scene) -> Scene:
    """Both processes, the driver's object, one load balancer, one group."""
    await served.setting()
    return served
