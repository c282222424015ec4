"""The API server with our kinds, and a connection to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cluster import Cluster
from tests.manifests.api import Api
from tests.manifests.documents import Document, crds, samples


@pytest.fixture(scope="module", name="api")
def _api(control_plane: Cluster, policies: Path) -> Iterator[Api]:
    """The API server with our kinds and policies, and a namespace of this session's."""
    assert policies.is_dir()
    with (
        control_plane.namespace("manifests") as name,
        Api.connect(control_plane.kubeconfig, name) as api,
    ):
        yield api


@pytest.fixture(scope="module", name="stored")
def _stored(api: Api) -> Iterator[dict[str, Document]]:
    """Every sample, stored; nobody changes them."""
    yield {name: api.store(sample) for name, sample in samples().items()}
    for sample in samples().values():
        is_outside = crds()[sample["kind"]]["spec"]["scope"] == "Cluster"
        if is_outside or sample["metadata"].get("namespace"):
            api.remove(sample)
