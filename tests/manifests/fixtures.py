"""Our kinds on the shared control plane, to be imported by a conftest.

    from tests.manifests.fixtures import crds, policies  # noqa: F401

They need the fixture `control_plane` of `tests.lab.cluster.fixtures`.
"""

import time

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.lab.cluster import Cluster
from tests.manifests.api import Api
from tests.manifests.documents import CRDS, POLICIES


PATIENCE = 30  # seconds until a policy that was applied must hold
SPECS = {
    "LoadBalancerDriver": {"driverType": "Webhook", "url": "http://host"},
    "LoadBalancer": {"lbDriver": "driver"},
}


@pytest.fixture(scope="session")
def crds(control_plane: Cluster) -> Path:
    """Our CRDs, applied and established; the folder that they come from."""
    control_plane.kubectl("apply", "-f", CRDS)
    control_plane.kubectl(
        "wait", "--for=condition=Established", "--timeout=30s", "-f", CRDS
    )
    return CRDS


@pytest.fixture(scope="session")
def policies(control_plane: Cluster, crds: Path) -> Path:
    """Our admission policies, applied and in force; the folder that they come from."""
    assert crds.is_dir()
    control_plane.kubectl("apply", "-f", POLICIES)
    with Api.connect(control_plane.kubeconfig, "default") as api:
        for kind, spec in SPECS.items():
            await_answer(partial(_is_denied, api, kind, spec))
    return POLICIES


def await_answer(has_come: Callable[[], bool]) -> None:
    """Wait until the API server has taken in a change of policies, which it does late.

    Raises:
        TimeoutError: it has not.
    """
    end = time.monotonic() + PATIENCE
    while not has_come():
        if time.monotonic() > end:
            raise TimeoutError(f"the policies did not change in {PATIENCE} s")
        time.sleep(0.05)


def _is_denied(api: Api, kind: str, spec: Mapping[str, str]) -> bool:
    """Whether a name for kube-system is denied elsewhere."""
    trial = {
        "apiVersion": "lbcf.tkestack.io/v1beta1",
        "kind": kind,
        "metadata": {"name": "lbcf-trial"},
        "spec": spec,
    }
    return not api.create(trial).accepted
