"""Real nodes: pods run and serve, machines lose power and network and come back."""

import os
import re
import time

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster_tests.calls import call
from tests.lab.cluster import Cluster, KubectlError
from tests.lab.cluster.commands import run
from tests.lab.cluster.fixtures import QUICK_FAILURES, running
from tests.lab.cluster.nodes import group_name
from tests.patience import PATIENCE


pytestmark = pytest.mark.nodes
WAIT = f"--timeout={PATIENCE:.0f}s"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: lbcf.local/web:1
    imagePullPolicy: Never
    env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
    readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One node, which counts as lost after 8 s."""
    with running(1, QUICK_FAILURES) as started:
        yield started


def start_pod(cluster: Cluster) -> str:
    """Start the web pod and return its address once it is ready."""
    cluster.kubectl("apply", "-f", "-", stdin=POD)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/web", WAIT)
    return cluster.kubectl("get", "pod/web", "--output=jsonpath={.status.podIP}")


def await_ready(cluster: Cluster, word: str) -> None:
    """Wait until the node's Ready condition has this status."""
    condition = f"--for=condition=Ready={word}"
    cluster.kubectl("wait", condition, "node/n1", WAIT)


def ask(cluster: Cluster, url: str) -> str:
    """What a web server answers to the cluster's own side."""
    code = (
        "import sys, urllib.request as u;"
        f"print(u.urlopen(sys.argv[1], timeout={PATIENCE}).read().decode(), end='')"
    )
    return run(*cluster.command("python3", "-c", code, url))


def get_from_pod(cluster: Cluster, url: str) -> str:
    """What the web pod is answered, once DNS and kube-proxy know the way."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return cluster.kubectl("exec", "web", "--", "webserver", "get", url)
        except KubectlError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def test_pod_runs_and_serves(cluster: Cluster) -> None:
    """A pod is reached at its own address, and by its Service's name from a pod."""
    address = start_pod(cluster)
    assert "pod=web node=n1 version=1" in ask(cluster, f"http://{address}:8080/")
    cluster.kubectl("expose", "pod/web", "--port=80", "--target-port=8080")
    url = "http://web.default.svc.cluster.local/"
    assert get_from_pod(cluster, url).startswith("200 pod=web")


def test_node_without_power_is_lost_and_comes_back_empty(cluster: Cluster) -> None:
    """Power off: NotReady, and no process left. Power on: Ready, and pods start."""
    root = cluster.layout.root
    assert 0 == call("power-off", "--dir", root, "1").returncode
    assert {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} == (
        set(cluster.services())
    )
    await_ready(cluster, "Unknown")
    cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    assert 0 == call("power-on", "--dir", root, "1").returncode
    await_ready(cluster, "True")
    assert "node=n1" in ask(cluster, f"http://{start_pod(cluster)}:8080/")


def test_pods_outlive_a_cut_and_a_held_kubelet(cluster: Cluster) -> None:
    """A node without network, or without kubelet, is NotReady; its pods live on."""
    address = start_pod(cluster)
    node = cluster.node(1)
    node.cut()
    await_ready(cluster, "Unknown")
    node.join()
    await_ready(cluster, "True")
    node.hold("kubelet")
    assert "kubelet-n1" not in cluster.services()
    assert "pod=web" in ask(cluster, f"http://{address}:8080/")
    node.release("kubelet")
    await_ready(cluster, "True")
    restarts = "--output=jsonpath={.status.containerStatuses[0].restartCount}"
    assert "0" == cluster.kubectl("get", "pod/web", restarts)


def test_machine_is_left_as_it_was() -> None:
    """A cluster that is gone has left no mount, link, namespace or control group."""
    before = footprint()
    with running(1) as other:
        assert "n1\n" == other.node(1).run("hostname")
        mark = group_name(other.layout, 1)
        assert groups(mark)
    assert [] == groups(mark)
    assert before == footprint()


def groups(name: str) -> list[Path]:
    """The control groups of this name on the machine."""
    # Path.rglob fails where a group of another cluster vanishes meanwhile.
    walk = os.walk("/sys/fs/cgroup")
    return [Path(folder, name) for folder, below, _ in walk if name in below]


def footprint() -> tuple[str, str, str]:
    """Mounts, links and named network namespaces of the machine."""
    links = re.sub(r"\d+", "", run("ip", "-brief", "link"))
    return Path("/proc/self/mounts").read_text(), links, run("ip", "netns")
