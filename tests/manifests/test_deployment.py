"""What is deployed: kustomize builds it, and the API server takes all of it."""

import json

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from images.table import IMAGES
from lbcf.ctl.uninstall.removal import OURS
from tests.lab.cluster import Cluster
from tests.lab.cluster.errors import KubectlError
from tests.manifests import accounts
from tests.manifests.documents import ROOT, shown
from tests.manifests.fixtures import await_answer


pytestmark = pytest.mark.cluster

MANIFESTS = ROOT / "manifests"
FOLDERS = (
    "overlays/default",
    "overlays/cert-manager",
    "overlays/drain-gate",
    "overlays/release",
    "drivers/haproxy",
    "drivers/envoy",
    "drivers/f5",
    "drivers/netscaler",
    "drivers/elbv2",
)
FOREIGN = "cert-manager.io"
DEPLOYMENT, BUDGET = "Deployment", "PodDisruptionBudget"
WORKLOADS = {DEPLOYMENT, "Job"}
GUARDED = ("overlays/default", *(name for name in FOLDERS if "drivers" in name))
"""Each shipped budget once."""
INSIDE = ("-n", accounts.NAMESPACE)


@pytest.fixture(scope="module", name="built")
def _built(control_plane: Cluster) -> dict[str, list[dict[str, Any]]]:
    """The documents of each folder, as kubectl puts them together."""
    texts = {
        folder: control_plane.kubectl("kustomize", MANIFESTS / folder)
        for folder in FOLDERS
    }
    return {folder: list(yaml.safe_load_all(text)) for folder, text in texts.items()}


@pytest.fixture(scope="module", name="ready")
def _ready(
    control_plane: Cluster, crds: object, built: dict[str, list[dict[str, Any]]]
) -> Iterator[Cluster]:
    """The namespace, the accounts and the priority class are there."""
    assert crds
    accounts.apply(control_plane)
    drivers = [
        one for folder in FOLDERS if "drivers" in folder for one in built[folder]
    ]
    for document in [*built["overlays/release"], *drivers]:
        if document["kind"] in {"Namespace", "ServiceAccount"}:
            control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(document))
    priority = MANIFESTS / "deploy" / "priority.yaml"
    control_plane.kubectl("apply", "-f", priority)
    yield control_plane
    control_plane.kubectl("delete", "-f", priority)


@pytest.mark.parametrize("folder", FOLDERS)
def test_api_server_takes_everything(
    ready: Cluster, built: dict[str, list[dict[str, Any]]], folder: str
) -> None:
    """Every field is one that it knows; nothing is stored."""
    own = [d for d in built[folder] if FOREIGN not in d["apiVersion"]]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": own})
    flags = ("--dry-run=server", "--validate=strict", "-f", "-")
    taken = ready.kubectl("apply", *flags, stdin=text)

    assert len(own) == len(taken.splitlines())


@pytest.mark.parametrize("folder", FOLDERS)
def test_pods_keep_to_the_restricted_standard(
    ready: Cluster, built: dict[str, list[dict[str, Any]]], folder: str
) -> None:
    """Made as pods in our namespace, which enforces it; nothing may be written."""
    for workload in _workloads(built[folder]):
        template = workload["spec"]["template"]
        name = workload["metadata"]["name"]
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]}
        pod["metadata"] = {"name": name, "namespace": accounts.NAMESPACE}
        flags = ("--dry-run=server", "-f", "-")
        taken = ready.kubectl("create", *flags, stdin=json.dumps(pod))

        assert f"pod/{name} created" in taken
        for container in template["spec"]["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"], name
            assert {"cpu", "memory"} <= set(container["resources"]["requests"]), name


def test_restricted_standard_is_enforced(ready: Cluster) -> None:
    """A pod that may become root is refused: the test above can fail."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "rooted", "namespace": accounts.NAMESPACE},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }
    with pytest.raises(KubectlError, match="violates PodSecurity"):
        ready.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


def test_images_are_those_that_we_make(built: dict[str, list[dict[str, Any]]]) -> None:
    """Name and version, of the driver, too."""
    known = {image.reference for image in IMAGES.values()}
    used = _images(built["overlays/release"])

    assert used
    assert used <= known


@pytest.mark.parametrize("beside", [(), ("drivers/haproxy-token",)], ids="".join)
def test_overlay_of_the_docs_says_where_every_image_is(
    control_plane: Cluster, tmp_path: Path, beside: tuple[str, ...]
) -> None:
    """As docs/install.md has it, without and with the Job that makes the token."""
    page = (ROOT / "docs" / "install.md").read_text()
    (overlay,) = (
        found
        for found in shown(page)
        if isinstance(found, dict) and found.get("kind") == "Kustomization"
    )
    overlay["resources"] += [f"../lbcf/manifests/{folder}" for folder in beside]
    (tmp_path / "lbcf").symlink_to(ROOT)
    own = tmp_path / "own"
    own.mkdir()
    (own / "Kustomization").write_text(yaml.safe_dump(overlay))
    built = list(yaml.safe_load_all(control_plane.kubectl("kustomize", own)))

    used = _images(built)
    assert used
    assert all(image.startswith("REGISTRY/") for image in used), used


@pytest.mark.parametrize("folder", FOLDERS)
def test_everything_that_guards_a_deployment_finds_its_pods(
    built: dict[str, list[dict[str, Any]]], folder: str
) -> None:
    """Each has a disruption budget and a network policy, and their labels fit."""
    documents = built[folder]
    deployments = [d for d in documents if d["kind"] == DEPLOYMENT]
    assert deployments
    for workload in deployments:
        labels = workload["spec"]["template"]["metadata"]["labels"].items()
        guards = {
            d["kind"]
            for d in documents
            if d["kind"] in {BUDGET, "NetworkPolicy"} and _selector(d).items() <= labels
        }
        assert {BUDGET, "NetworkPolicy"} == guards


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_budget_holds_up_a_node_for_ever(
    built: dict[str, list[dict[str, Any]]], folder: str
) -> None:
    """One pod of each may always go, also where there is but one."""
    budgets = [d["spec"] for d in built[folder] if d["kind"] == BUDGET]

    assert budgets
    assert all(1 == one.get("maxUnavailable") for one in budgets)


@pytest.mark.parametrize("folder", GUARDED)
def test_pods_that_are_not_ready_hold_up_no_node(
    ready: Cluster, built: dict[str, list[dict[str, Any]]], folder: str
) -> None:
    """None of them is: the API server evicts each all the same."""
    found = [d for d in built[folder] if d["kind"] in {DEPLOYMENT, BUDGET}]
    with _applied(ready, found):
        for budget in (d for d in found if d["kind"] == BUDGET):
            name, pods = budget["metadata"]["name"], _unready_pods(ready, budget)
            await_answer(lambda: _counted(ready, name) == len(pods))  # noqa: B023
            for pod in pods:
                assert "Success" in _evicted(ready, pod), name


@contextmanager
def _applied(cluster: Cluster, found: list[dict[str, Any]]) -> Iterator[None]:
    """What is given is there for a block, with the pods that come of it."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": found})
    cluster.kubectl("apply", "-f", "-", stdin=text)
    try:
        yield
    finally:
        cluster.kubectl("delete", "--cascade=foreground", "-f", "-", stdin=text)


def _unready_pods(cluster: Cluster, budget: dict[str, Any]) -> list[str]:
    """Have the pods of a budget run without ever getting ready, as on a node."""
    name = budget["metadata"]["name"]
    wanted = int(_asked(cluster, f"deployment/{name}", "{.spec.replicas}"))
    labels = ",".join(f"{key}={value}" for key, value in _selector(budget).items())
    listed = partial(_asked, cluster, "pods", "{.items[*].metadata.name}", "-l", labels)
    await_answer(lambda: len(listed().split()) == wanted)
    pods = listed().split()
    runs = ("--subresource=status", "-p", json.dumps({"status": {"phase": "Running"}}))
    for pod in pods:
        cluster.kubectl("patch", f"pod/{pod}", *INSIDE, *runs)
    return pods


def _counted(cluster: Cluster, budget: str) -> int:
    """How many pods a budget is told to be about."""
    return int(_asked(cluster, f"pdb/{budget}", "{.status.expectedPods}") or 0)


def _asked(cluster: Cluster, what: str, path: str, *flags: str) -> str:
    """Read something of our namespace."""
    return cluster.kubectl("get", what, *INSIDE, *flags, "-o", f"jsonpath={path}")


def _evicted(cluster: Cluster, pod: str) -> str:
    """Ask for a pod's eviction, as `kubectl drain` does; it stays."""
    where = f"/api/v1/namespaces/{accounts.NAMESPACE}/pods/{pod}/eviction?dryRun=All"
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod},
    }
    return cluster.kubectl(
        "create", "--raw", where, "-f", "-", stdin=json.dumps(eviction)
    )


@pytest.mark.parametrize("folder", FOLDERS)
def test_everything_can_be_found_and_taken_away(
    built: dict[str, list[dict[str, Any]]], folder: str
) -> None:
    """By the label that the uninstaller goes by."""
    key, _, part = OURS.partition("=")
    for document in built[folder]:
        labels = document["metadata"].get("labels", {})
        assert part == labels.get(key), document["metadata"]["name"]


def _selector(document: dict[str, Any]) -> dict[str, str]:
    """Which pods a document is about."""
    spec = document["spec"]
    found: dict[str, str] = spec.get("selector", spec.get("podSelector"))["matchLabels"]
    return found


def _workloads(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What makes pods."""
    return [d for d in documents if d["kind"] in WORKLOADS]


def _images(documents: list[dict[str, Any]]) -> set[str]:
    """What pods are made of."""
    return {
        container["image"]
        for workload in _workloads(documents)
        for container in workload["spec"]["template"]["spec"]["containers"]
    }
