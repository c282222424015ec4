"""Our kinds on the shared control plane, to be imported by a conftest.

    from tests.manifests.fixtures import crds, policies  # noqa: F401

They need the fixture `control_plane` of `tests.lab.cluster.fixtures`.
"""

import time

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.lab.cluster import Cluster
from tests.manifests.api import Api
from tests.manifests.documents import CRDS, POLICIES, Document
from tests.patience import PATIENCE


SPECS = {
    "LoadBalancerDriver": {"driverType": "Webhook", "url": "http://host"},
    "LoadBalancer": {"lbDriver": "driver"},
}


@pytest.fixture(scope="session")
def crds(control_plane: Cluster) -> Path:
    """Our CRDs, applied and established; the folder that they come from."""
    control_plane.kubectl("apply", "-f", CRDS)
    established = ("wait", "--for=condition=Established", f"--timeout={PATIENCE}s")
    control_plane.kubectl(*established, "-f", CRDS)
    return CRDS


@pytest.fixture(scope="session")
def policies(control_plane: Cluster, crds: Path) -> Path:
    """Our admission policies, applied and in force; the folder that they come from."""
    assert crds.is_dir()
    control_plane.kubectl("apply", "-f", POLICIES)
    with Api.connect(control_plane.kubeconfig, "default") as api:
        for kind in SPECS:
            await_answer(partial(_is_denied, api, kind))
        # The last one that refuses: what is applied later may be in force later.
        kept = _trial("LoadBalancer", "trial", **{"lbcf.tkestack.io/do-not-delete": ""})
        api.store(kept)
        await_answer(lambda: not api.delete(kept, "dryRun=All").accepted)
        api.remove(kept)
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


def _is_denied(api: Api, kind: str) -> bool:
    """Whether a name for kube-system is denied elsewhere, by the policy's own words."""
    return "must not begin with" in api.create(_trial(kind, "lbcf-trial")).message


def _trial(kind: str, name: str, **labels: str) -> Document:
    """An object to try policies with."""
    return {
        "apiVersion": "lbcf.tkestack.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": SPECS[kind],
    }
