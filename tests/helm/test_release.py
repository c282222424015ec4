"""A release on a real API server: installed, upgraded with live objects, taken away."""

import subprocess
import sys

from collections.abc import Iterator

import pytest

from tests.helm.conftest import Helm
from tests.lab.cluster import Cluster
from tests.lab.cluster.fixtures import running
from tests.lab.cluster.kinds import operator_kinds
from tests.manifests.documents import ROOT


pytestmark = [pytest.mark.helm, pytest.mark.timeout(3600)]

RELEASE = ("lbcf", "--namespace", "default")
DRIVER = "loadbalancerdrivers/lbcf-haproxy"
IN_SYSTEM = ("-n", "kube-system")
OURS = ("-n", "lbcf-system", "-o", "jsonpath={.items[*].spec.template.spec..image}")


@pytest.fixture(scope="module", name="own")
def _own() -> Iterator[Cluster]:
    """A control plane that nobody else has kinds of ours in."""
    with running(0) as cluster:
        yield cluster


def test_release_lives_and_ends(helm: Helm, own: Cluster) -> None:
    """Kinds come with it and outlive it; the uninstaller takes what Helm keeps."""
    login = {"KUBECONFIG": str(own.kubeconfig)}
    values = ("--set", "drivers.haproxy.enabled=true")
    said = helm("install", *RELEASE[:1], helm.chart, *RELEASE[1:], *values, **login)
    assert "LoadBalancerDriver of each driver is still missing" in said

    said = helm("upgrade", *RELEASE[:1], helm.chart, *RELEASE[1:], *values, **login)
    assert "still missing" not in said
    live = own.kubectl("get", DRIVER, *IN_SYSTEM, "-o", "jsonpath={.metadata.uid}")

    tag = ("--reuse-values", "--set", "image.tag=next")
    helm("upgrade", *RELEASE[:1], helm.chart, *RELEASE[1:], *tag, **login)
    assert "lbcf.local/lbcf:next" in own.kubectl("get", "deployments", *OURS)
    after = own.kubectl("get", DRIVER, *IN_SYSTEM, "-o", "jsonpath={.metadata.uid}")
    assert live == after

    program = (sys.executable, "-m", "lbcf.ctl.uninstall", "retain")
    subprocess.run(program, cwd=ROOT, env=own.environment(), check=True)
    helm("uninstall", *RELEASE, **login)
    kinds = "customresourcedefinitions,clusterroles,namespaces,secrets"
    left = own.kubectl("get", kinds, "-A", "-o", "name").splitlines()
    assert [] == [name for name in left if "lbcf" in name]


def test_monitoring_comes_and_goes(helm: Helm, own: Cluster) -> None:
    """Where the operator's kinds are, the notes say what can be had, then who reads it."""
    kinds = operator_kinds(print)
    own.kubectl("apply", "--server-side", "-f", kinds)
    wait = ("wait", "--for=condition=Established", "--timeout=60s", "-f")
    own.kubectl(*wait, kinds)
    login = {"KUBECONFIG": str(own.kubeconfig)}
    release = (RELEASE[0], helm.chart, *RELEASE[1:])
    values = ("--set", "admission.enabled=false")
    assert "monitoring.enabled=true brings" in helm(
        "upgrade", "--install", *release, *values, **login
    )

    more = ("--set", "monitoring.enabled=true,monitoring.labels.release=stack")
    said = helm("upgrade", *release, *values, *more, **login)
    assert "Grafana's sidecar takes" in said
    look = ("get", "podmonitors,prometheusrules", "-A", "-l", "release=stack")
    assert 2 == len(own.kubectl(*look, "-o", "name").splitlines())
    helm("upgrade", *release, *values, **login)
    assert "" == own.kubectl("get", "podmonitors,prometheusrules", "-A", "-o", "name")
    helm("uninstall", *RELEASE, "--wait", **login)


def test_helm_alone_leaves_kinds_and_objects(helm: Helm, own: Cluster) -> None:
    """Who uninstalls too early loses no record: they go on where they stopped."""
    login = {"KUBECONFIG": str(own.kubeconfig)}
    values = ("--set", "admission.enabled=false")
    helm("install", *RELEASE[:1], helm.chart, *RELEASE[1:], *values, **login)
    established = ("wait", "--for=condition=Established", "--timeout=60s", "crd")
    own.kubectl(*established, "backendgroups.lbcf.tkestack.io")
    examples = ROOT / "manifests" / "examples"
    own.kubectl("apply", "-f", examples / "group-static.yaml")

    helm("uninstall", *RELEASE, "--wait", **login)
    assert own.kubectl("get", "backendgroups", "-A", "-o", "name").strip()
    helm("install", *RELEASE[:1], helm.chart, *RELEASE[1:], *values, **login)
