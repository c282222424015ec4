"""The policy that gives pods our readiness gate, on the real API server."""

from collections.abc import Iterator

import pytest

from lbcf.core.model.names import READINESS_GATE
from tests.lab.cluster import Cluster
from tests.manifests.api import TRIAL, Api
from tests.manifests.documents import ROOT, Document
from tests.manifests.fixtures import await_answer


pytestmark = pytest.mark.cluster

POLICY = ROOT / "manifests" / "readiness-gate" / "policy.yaml"
LABEL = "lbcf.tkestack.io/readiness-gate"
ASKS, REFUSES = {LABEL: "true"}, {LABEL: "false"}
OTHERS = [{"conditionType": "example.com/other"}]
OURS = [{"conditionType": READINESS_GATE}]


def pod(labels: Document | None = None, **spec: object) -> Document:
    """Make a pod as a controller of workloads does, without a name of its own."""
    containers = [{"name": "web", "image": "example.com/web"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "web-", "labels": labels or {}},
        "spec": {"containers": containers, **spec},
    }


@pytest.fixture(name="asking", scope="module")
def _asking(control_plane: Cluster) -> Iterator[str]:
    """A namespace all of whose pods ask for the gate; the policy is in force."""
    kubectl = control_plane.kubectl
    kubectl("create", "namespace", "gated")
    kubectl("label", "namespace", "gated", f"{LABEL}=true")
    kubectl("apply", "-f", POLICY)
    try:
        await_answer(lambda: gates_of(control_plane, "default", pod(ASKS)) == OURS)
        await_answer(lambda: gates_of(control_plane, "gated", pod()) == OURS)
        yield "gated"
    finally:
        kubectl("delete", "-f", POLICY)
        kubectl("delete", "namespace", "gated", "--wait=false")


def gates_of(cluster: Cluster, namespace: str, body: Document) -> object:
    """Return the readiness gates with which a pod would be stored."""
    with Api.connect(cluster.kubeconfig, namespace) as api:
        path = f"/api/v1/namespaces/{namespace}/pods?{TRIAL}"
        answer = api.send("POST", path, body)
    assert answer.accepted, answer.message
    spec = answer.body["spec"]
    assert isinstance(spec, dict)
    return spec.get("readinessGates")


def test_nothing_is_done_to_pods_that_do_not_ask(
    control_plane: Cluster, asking: str
) -> None:
    """Neither by their own label nor by their namespace's."""
    assert asking == "gated"
    assert gates_of(control_plane, "default", pod()) is None


@pytest.mark.parametrize("restart", ["OnFailure", "Never"])
def test_pods_that_end_get_no_gate(
    control_plane: Cluster, asking: str, restart: str
) -> None:
    """A Job's pods need no load balancer."""
    body = pod(ASKS, restartPolicy=restart)

    assert gates_of(control_plane, asking, body) is None


def test_gates_of_others_are_kept(control_plane: Cluster, asking: str) -> None:
    """The list is added to, not replaced."""
    body = pod(ASKS, readinessGates=OTHERS)

    assert [*OTHERS, *OURS] == gates_of(control_plane, asking, body)


def test_pod_that_asks_twice_gets_one_gate(control_plane: Cluster, asking: str) -> None:
    """By its label and by its namespace's, or in its own template."""
    assert OURS == gates_of(control_plane, asking, pod(ASKS))
    assert OURS == gates_of(control_plane, asking, pod(readinessGates=OURS))


def test_pod_may_refuse(control_plane: Cluster, asking: str) -> None:
    """In a namespace whose pods have it."""
    assert gates_of(control_plane, asking, pod(REFUSES)) is None
