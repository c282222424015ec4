"""What manifests/monitoring gives to the Prometheus operator and to Grafana."""

import json

from typing import Any

import pytest
import yaml

from tests.lab.cluster import Cluster
from tests.manifests.documents import ROOT, read_all
from tests.monitoring import dashboard
from tests.monitoring.registries import all_families


MANIFESTS = ROOT / "manifests"
GIVEN_BY_OPERATOR = {"namespace", "pod", "container", "endpoint", "job", "instance"}
"""Labels of a pod's series (prometheus-operator, PodMonitor): ours of such names would be
called `exported_...`."""
SERVED = (
    "deploy/controller.yaml",
    "deploy/deregistrar.yaml",
    "webhook/deployment.yaml",
)


def monitor() -> dict[str, Any]:
    """The PodMonitor's spec."""
    [found] = read_all(MANIFESTS / "monitoring" / "podmonitor.yaml")
    spec: dict[str, Any] = found["spec"]
    return spec


def templates(path: str) -> list[dict[str, Any]]:
    """The pods of the Deployments in a file."""
    documents = read_all(MANIFESTS / path)
    return [d["spec"]["template"] for d in documents if d["kind"] == "Deployment"]


@pytest.mark.parametrize("path", SERVED)
def test_pods_are_found_and_asked_where_they_serve(path: str) -> None:
    """By their labels, at the port that has the name; all under the job's own name."""
    [template] = templates(path)
    labels = template["metadata"]["labels"]
    ports = [port for c in template["spec"]["containers"] for port in c["ports"]]

    assert monitor()["selector"]["matchLabels"].items() <= labels.items()
    assert "lbcf" == labels[monitor()["jobLabel"]]
    [endpoint] = monitor()["podMetricsEndpoints"]
    assert 1 == len([port for port in ports if port["name"] == endpoint["port"]])


async def test_labels_of_our_own_are_kept() -> None:
    """The operator calls the pod's namespace so; a held removal is in another one."""
    own = {label for family in await all_families() for label in family.labels}
    [endpoint] = monitor()["podMetricsEndpoints"]

    assert {"namespace"} == own & GIVEN_BY_OPERATOR
    assert endpoint["honorLabels"]


def test_drivers_are_left_alone() -> None:
    """Whoever reaches a driver's port can change its load balancers."""
    for path in sorted((MANIFESTS / "drivers").rglob("*.yaml")):
        for template in templates(str(path.relative_to(MANIFESTS))):
            wanted = monitor()["selector"]["matchLabels"]
            assert not wanted.items() <= template["metadata"]["labels"].items()


@pytest.mark.cluster
def test_kustomize_puts_it_together(control_plane: Cluster) -> None:
    """One monitor, one set of rules, and the dashboard as Grafana's sidecar reads it."""
    text = control_plane.kubectl("kustomize", MANIFESTS / "monitoring")
    built = {document["kind"]: document for document in yaml.safe_load_all(text)}

    assert {"PodMonitor", "PrometheusRule", "ConfigMap"} == built.keys()
    assert {"lbcf-system"} == {d["metadata"]["namespace"] for d in built.values()}
    kept = built["ConfigMap"]
    assert "1" == kept["metadata"]["labels"]["grafana_dashboard"]
    assert json.loads(dashboard.rendered()) == json.loads(
        kept["data"]["dashboard.json"]
    )
