"""Clusters for tests: a plugin with session fixtures.

    pytest_plugins = ["tests.lab.cluster.fixtures"]     # in the first conftest, once

What is missing is built or installed after the collection, outside any test's
time-out, and never a reason to skip. LBCF_TEST_KEEP=1 leaves the clusters running
and their folders in place, to be looked at after a failure.
"""

import os
import shutil
import tempfile

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.cluster.api import Cluster
from tests.lab.cluster.binaries import cache_folder, find_binaries
from tests.lab.cluster.images import build_images
from tests.lab.cluster.kinds import operator_kinds
from tests.lab.cluster.layout import Options
from tests.lab.cluster.lifecycle import up
from tests.lab.cluster.packages import install_packages
from tests.lab.cluster.places import places
from tests.lab.cluster.unpacked import promtool


# Seconds until a lost node counts as NotReady: 8 instead of about 50.
QUICK_FAILURES = Options(
    lease=4,
    controller_flags=("--node-monitor-period=1s", "--node-monitor-grace-period=8s"),
)
NODES = "nodes"  # the marker of tests that need real nodes
ALONE = "cluster"  # the marker of tests that need a control plane
PROMETHEUS = "prometheus"  # the marker of tests that need it, or its operator's kinds
FIXTURES = {"control_plane", "namespace"}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build and install what the collected tests need."""
    if session.config.option.collectonly:
        return
    if any(item.get_closest_marker(NODES) for item in session.items):
        install_packages(print)
        build_images(find_binaries(alone=False, say=print), print)
    elif any(_needs_control_plane(item) for item in session.items):
        find_binaries(alone=True, say=print)
    if any(item.get_closest_marker(PROMETHEUS) for item in session.items):
        promtool(print)
        operator_kinds(print)


def _needs_control_plane(item: pytest.Item) -> bool:
    """Whether a test is marked so, or uses one of the fixtures here."""
    used = set(getattr(item, "fixturenames", []))
    return item.get_closest_marker(ALONE) is not None or bool(FIXTURES & used)


@contextmanager
def running(nodes: int, options: Options | None = None) -> Iterator[Cluster]:
    """A cluster in a temporary folder; both are gone at the end."""
    with places(cache_folder() / "places", nodes):
        folder = Path(tempfile.mkdtemp(prefix=f"lbcf-cluster{nodes}-", dir="/tmp"))
        cluster = up(folder, nodes=nodes, options=options)
        try:
            yield cluster
        finally:
            if os.environ.get("LBCF_TEST_KEEP"):
                print(f"kept: python -m tests.lab.cluster exec --dir {folder} -- bash")
            else:
                cluster.down()
                shutil.rmtree(folder)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Cluster]:
    """A control plane alone, shared by the session's tests: use a namespace each.

    Its audit log has bodies: what our processes do is held against the model by them.
    """
    with running(0, Options(audit_bodies=True)) as cluster:
        yield cluster


@pytest.fixture
def namespace(control_plane: Cluster) -> Iterator[str]:
    """A new namespace on the control plane, deleted after the test."""
    with control_plane.namespace() as name:
        yield name
