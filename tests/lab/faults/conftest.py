"""A control plane whose audit log has bodies, for runs whose tapes are judged."""

from collections.abc import Iterator

import pytest

from tests.lab.cluster import Cluster
from tests.lab.faults.stage import told_cluster


@pytest.fixture(scope="session")
def told() -> Iterator[Cluster]:
    """Return one, shared by the session's tests: each run has a namespace of its own."""
    with told_cluster() as cluster:
        yield cluster
