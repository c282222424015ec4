"""Real kubelets and a real Deployment: a rollout goes on as its new pods are registered."""

import json
import subprocess
import sys
import time

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lbcf.core.model.names import READINESS_GATE
from tests.drivers.servers import ALLOW_BESIDE_US
from tests.e2e import objects
from tests.lab.cluster import Cluster
from tests.lab.cluster.fixtures import running
from tests.lab.cluster.ports import free_ports
from tests.manifests.documents import CRDS, ROOT
from tests.patience import PATIENCE


pytestmark = pytest.mark.nodes

POLICY = ROOT / "manifests" / "readiness-gate" / "policy.yaml"
REPLICAS = 2
LATENCY = 1.0
"""Seconds that the driver takes to register a pod."""
PAUSE = 6.0
"""Seconds for which the controller stays away while pods are replaced."""
PORTS = {"ports": [{"port": 8080}], "byLabel": {"selector": {"app": "web"}}}


class Bench:
    """A cluster of one node with our processes beside it."""

    def __init__(self, cluster: Cluster, folder: Path, pieces: ExitStack) -> None:
        self.cluster = cluster
        self._folder = folder
        self._pieces = pieces

    def start(self, name: str, *argv: str) -> "subprocess.Popen[bytes]":
        """Start a program in the cluster's network; it ends with the test."""
        return self._pieces.enter_context(self._running(name, *argv))

    @contextmanager
    def _running(self, name: str, *argv: str) -> Iterator["subprocess.Popen[bytes]"]:
        with (self._folder / f"{name}.log").open("ab") as log:
            command = self.cluster.command(sys.executable, "-m", *argv)
            child = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
            try:
                yield child
            finally:
                child.terminate()
                child.wait(PATIENCE)

    def start_controller(self) -> "subprocess.Popen[bytes]":
        """Start the controller."""
        return self._start_ours("controller")

    def _start_ours(self, name: str) -> "subprocess.Popen[bytes]":
        login = str(self.cluster.kubeconfig_for(name))
        probes, metrics = (f"127.0.0.1:{port}" for port in free_ports(2))
        return self.start(
            name,
            *("lbcf", name, "--kubeconfig", login, "--namespace", "default"),
            *("--health-probe-bind-address", probes, "--no-leader-elect"),
            *("--metrics-bind-address", metrics, *ALLOW_BESIDE_US),
        )

    def put_up(self) -> None:
        """Start everything; a pod's registration takes a while."""
        kubectl = self.cluster.kubectl
        kubectl("apply", "-f", CRDS)
        kubectl(
            "wait",
            "--for=condition=Established",
            f"--timeout={PATIENCE:.0f}s",
            "-f",
            CRDS,
        )
        kubectl("apply", "-f", POLICY)
        kubectl("label", "namespace", "default", "lbcf.tkestack.io/readiness-gate=true")
        url = f"127.0.0.1:{free_ports(1)[0]}"
        memory = ("webhooks.memory", "--bind-address", url, "--member-key", "Record")
        self.start("driver", *memory)
        self.until("the driver answers", lambda: self._ask(f"http://{url}/healthz"))
        how = {"operation": "ensureBackend", "mode": "late", "seconds": LATENCY}
        self._ask(f"http://{url}/control/behave", json.dumps({**how, "times": 1000}))
        group = objects.a_group(pods=PORTS)
        for body, kind in (
            (objects.a_driver(f"http://{url}"), "LoadBalancerDriver"),
            (objects.a_load_balancer(), "LoadBalancer"),
            (group, "BackendGroup"),
        ):
            whole = {"apiVersion": "lbcf.tkestack.io/v1beta1", "kind": kind, **body}
            kubectl("apply", "-f", "-", stdin=json.dumps(whole))
        self._start_ours("deregistrar")

    def _ask(self, url: str, body: str = "") -> bool:
        """Ask the driver; tell whether it answered."""
        code = (
            "import sys, urllib.request as u;"
            "u.urlopen(sys.argv[1], sys.argv[2].encode() or None, timeout=5)"
        )
        argv = self.cluster.command(sys.executable, "-c", code, url, body)
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0

    def deploy(self, version: str) -> None:
        """Apply a version of the web app."""
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(_deployment(version)))

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods that are not being deleted."""
        text = self.cluster.kubectl("get", "pods", "-l", "app=web", "-o", "json")
        found = json.loads(text)["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def until(self, what: str, check: Callable[[], bool]) -> None:
        """Wait until something is so.

        Raises:
            TimeoutError: it is not.
        """
        end = time.monotonic() + PATIENCE
        while not check():
            if time.monotonic() > end:
                raise TimeoutError(f"not within {PATIENCE:.0f} s: {what}")
            time.sleep(0.2)


def _deployment(version: str) -> dict[str, Any]:
    """An app that is ready at once; old pods go only as new ones are Ready."""
    container = {
        "name": "web",
        "image": "lbcf.local/web:1",
        "imagePullPolicy": "Never",
        "env": [{"name": "VERSION", "value": version}],
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": 8080},
            "periodSeconds": 1,
        },
    }
    pods = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [container]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
            },
            "template": pods,
        },
    }


def said(pod: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return a condition of a pod, empty where it has none."""
    found = pod.get("status", {}).get("conditions", [])
    return next((c for c in found if c["type"] == kind), {})


def is_so(pod: dict[str, Any], kind: str) -> bool:
    """Tell whether a condition of a pod is True."""
    return said(pod, kind).get("status") == "True"


def version_of(pod: dict[str, Any]) -> str:
    """Return which version of the app a pod is of."""
    return str(pod["spec"]["containers"][0]["env"][0]["value"])


@pytest.fixture(name="bench", scope="module")
def _bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The app's first version runs."""
    with running(1) as cluster, ExitStack() as pieces:
        bench = Bench(cluster, tmp_path_factory.mktemp("gated"), pieces)
        bench.put_up()
        yield bench


def test_rollout_waits_for_registration_and_for_the_controller(bench: Bench) -> None:
    """Pods become Ready by registration; without a controller the old ones go on serving."""
    controller = bench.start_controller()
    bench.deploy("1")
    status = ("rollout", "status", "deployment/web", f"--timeout={PATIENCE:.0f}s")
    bench.cluster.kubectl(*status)
    for pod in bench.pods():
        assert "AllRegistered" == said(pod, READINESS_GATE)["reason"]

    controller.kill()
    controller.wait()
    bench.deploy("2")

    def waits() -> bool:
        new = [pod for pod in bench.pods() if version_of(pod) == "2"]
        return bool(new) and all(is_so(pod, "ContainersReady") for pod in new)

    bench.until("the containers of a new pod are ready", waits)
    end = time.monotonic() + PAUSE
    while time.monotonic() < end:
        pods = bench.pods()
        old = [pod for pod in pods if version_of(pod) == "1" and is_so(pod, "Ready")]
        assert REPLICAS == len(old)
        assert not any(is_so(pod, "Ready") for pod in pods if version_of(pod) == "2")
        time.sleep(0.5)
    (new,) = (pod for pod in bench.pods() if version_of(pod) == "2")
    # Eligibility goes by this reason of the kubelet's.
    assert "ReadinessGatesNotReady" == said(new, "Ready")["reason"]

    bench.start_controller()
    bench.cluster.kubectl(*status)
    pods = bench.pods()
    assert ["2"] * REPLICAS == [version_of(pod) for pod in pods]
    assert all(is_so(pod, READINESS_GATE) for pod in pods)
