"""Pods on a real node get SIGTERM when no record names them, and in any case in time."""

import json
import subprocess
import sys
import time

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from images.waiter import build_waiter
from tests.lab.cluster import Cluster
from tests.lab.cluster.fixtures import running
from tests.patience import PATIENCE


pytestmark = pytest.mark.nodes

ROOT: Final = Path(__file__).parents[2]
GATE: Final = "198.18.0.1"
"""The cluster's own side, where the deregistrar of these tests runs."""
LONG: Final = 4 * round(PATIENCE)
"""A grace period: longer than any test waits."""
POLICY: Final = "mutatingadmissionpolicy/drain-gate.lbcf.tkestack.io"
SERVICE: Final[list[Mapping[str, Any]]] = [
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "lbcf-gate", "namespace": "lbcf-system"},
        "spec": {"clusterIP": "None", "ports": [{"name": "gate", "port": 11037}]},
    },
    {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "lbcf-gate",
            "namespace": "lbcf-system",
            "labels": {"kubernetes.io/service-name": "lbcf-gate"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [GATE]}],
        "ports": [{"name": "gate", "port": 11037}],
    },
]


@attrs.frozen
class Shop:
    """A cluster with the policy, a namespace of its own for pods, and perhaps a gate."""

    cluster: Cluster
    folder: Path

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.cluster.kubectl("apply", "-f", "-", stdin=text)

    def start(
        self,
        name: str,
        grace: int,
        *,
        rest: int = 5,
        user: int | None = None,
        cpu: str = "0",
    ) -> str:
        """Start a pod that waits; return its uid once it is ready.

        One container has a shell, one has no other file than its program, one ends after
        both. The first and the last are root, by their images.

        Args:
            name: of the pod.
            grace: its terminationGracePeriodSeconds.
            rest: seconds of these that its app has for itself.
            user: that its securityContext names.
            cpu: that it requests of its node.
        """
        web = {
            "name": "web",
            "image": "lbcf.local/web:1",
            "imagePullPolicy": "Never",
            "readinessProbe": {
                "httpGet": {"path": "/readyz", "port": 8080},
                "periodSeconds": 1,
            },
        }
        plain = {
            "name": "plain",
            "image": "lbcf.local/pause:1",
            "imagePullPolicy": "Never",
            "securityContext": {"runAsUser": 12345, "readOnlyRootFilesystem": True},
            "resources": {"requests": {"cpu": cpu}},
        }
        beside = {
            "name": "beside",
            "image": "lbcf.local/busybox:1",
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"],
            "restartPolicy": "Always",
        }
        spec = {
            "terminationGracePeriodSeconds": grace,
            "containers": [web, plain],
            "initContainers": [beside],
            "securityContext": {} if user is None else {"runAsUser": user},
        }
        labels = {"lbcf.tkestack.io/drain-gate": "enabled"}
        said = {"lbcf.tkestack.io/shutdown-seconds": f"{rest}"}
        meta = {"name": name, "labels": labels, "annotations": said}
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        wait = (
            "wait",
            "--for=condition=Ready",
            f"pod/{name}",
            f"--timeout={PATIENCE:.0f}s",
        )
        self.cluster.kubectl(*wait)
        return self.cluster.kubectl(
            "get", f"pod/{name}", "--output=jsonpath={.metadata.uid}"
        )

    def record(self, pod: str, uid: str) -> None:
        """Have a record name a pod; only a person's order ends it: it has no driver."""
        port = {"portNumber": 8080, "protocol": "TCP"}
        meta = {
            "name": pod,
            "labels": {"lbcf.tkestack.io/backend-pod-uid": uid},
            "finalizers": ["lbcf.tkestack.io/deregister-backend"],
        }
        spec = {
            "lbName": "front",
            "lbDriver": "nobody",
            "lbInfo": {},
            "podBackend": {"name": pod, "uid": uid, "port": port},
            "backendAddr": "10.0.0.1:8080",
        }
        version = "lbcf.tkestack.io/v1beta1"
        kind = {"apiVersion": version, "kind": "BackendRecord"}
        self.apply({**kind, "metadata": meta, "spec": spec})

    def end_record(self, name: str) -> None:
        """Delete a record, and have it let go."""
        why = "lbcf.tkestack.io/abandon=test"
        self.cluster.kubectl("annotate", f"br/{name}", why)
        self.cluster.kubectl("delete", f"br/{name}", f"--timeout={PATIENCE:.0f}s")

    def preempt(self, cpu: str) -> None:
        """Ask for more than is left on the node, for a pod that comes before all others."""
        meta = {"name": "first"}
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        self.apply({**kind, "metadata": meta, "value": 1000})
        pause = {
            "name": "pause",
            "image": "lbcf.local/pause:1",
            "imagePullPolicy": "Never",
            "resources": {"requests": {"cpu": cpu}},
        }
        spec = {"priorityClassName": "first", "containers": [pause]}
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def most_cpu(self) -> str:
        """More than half of what the node has to give."""
        path = "--output=jsonpath={.items[0].status.allocatable.cpu}"
        return f"{int(self.cluster.kubectl('get', 'nodes', path)) * 600}m"

    @contextmanager
    def deleting(
        self, name: str, begin: Callable[[], object] | None = None
    ) -> Iterator[None]:
        """Delete a pod; at the end it is gone, and the app was told to end before.

        Args:
            name: of the pod.
            begin: has it deleted, if that is not `kubectl delete`.
        """
        words = (self.cluster.plan.binary("kubectl"), "logs", "-f", name, "-c", "web")
        path = self.folder / f"{name}.log"
        with path.open("wb") as log:
            following = subprocess.Popen(
                self.cluster.command(*words),
                env=self.cluster.environment(),
                stdout=log,
                stderr=subprocess.DEVNULL,
            )
        try:
            # Else a pod that ends at once may be gone before anybody follows its log.
            until(lambda: "listening on" in path.read_text())
            if begin is None:
                self.cluster.kubectl("delete", f"pod/{name}", "--wait=false")
            else:
                begin()
                until(lambda: self.is_ending(name))
            yield
            wait = ("wait", "--for=delete", f"pod/{name}")
            self.cluster.kubectl(*wait, f"--timeout={PATIENCE:.0f}s")
            following.wait(PATIENCE)
        finally:
            following.kill()
            following.wait()
        assert "got terminated" in path.read_text()

    def is_ending(self, name: str) -> bool:
        """Whether the pod has a deletionTimestamp."""
        path = "--output=jsonpath={.metadata.deletionTimestamp}"
        return bool(self.cluster.kubectl("get", f"pod/{name}", path))

    def serves(self, name: str) -> bool:
        """Whether the app still answers."""
        words = ("exec", name, "-c", "web", "--", "webserver", "get")
        found = self.cluster.kubectl(*words, "http://127.0.0.1:8080/readyz")
        return found.startswith("200")

    @contextmanager
    def gate(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a deregistrar."""
        argv = (
            *(sys.executable, "-m", "lbcf", "deregistrar", "--no-leader-elect"),
            *("--kubeconfig", self.cluster.kubeconfig, "--namespace", "lbcf-system"),
            *("--metrics-bind-address", "0", "--health-probe-bind-address", "0"),
            *("--drain-gate-bind-address", f"{GATE}:11037"),
        )
        with (self.folder / "deregistrar.log").open("ab") as log:
            before = log_of(self.folder).count("gate.serving")
            process = subprocess.Popen(
                self.cluster.command(*argv), cwd=ROOT, stdout=log, stderr=log
            )
        try:
            until(lambda: log_of(self.folder).count("gate.serving") > before)
            yield process
        finally:
            process.kill()
            process.wait()


def log_of(folder: Path) -> str:
    """What the deregistrar has said."""
    return (folder / "deregistrar.log").read_text()


def until(happened: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.fixture(scope="module", name="shop")
def _shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """One node, the policy, and the Service by which pods find replicas."""
    folder = tmp_path_factory.mktemp("gates")
    with running(1) as cluster:
        cluster.load(build_waiter(folder))
        cluster.kubectl("apply", "--server-side", "-k", ROOT / "manifests" / "crds")
        cluster.kubectl("create", "namespace", "lbcf-system")
        policy = ROOT / "manifests" / "drain-gate" / "policy.yaml"
        cluster.kubectl("apply", "--server-side", "-f", policy)
        shop = Shop(cluster, folder)
        shop.apply(*SERVICE)
        yield shop


@pytest.fixture(autouse=True)
def _patient(shop: Shop) -> None:
    set_fallback(shop, LONG)


def set_fallback(shop: Shop, seconds: int) -> None:
    """Say for how long pods made from now on wait while nobody answers."""
    path = {"op": "replace", "path": "/spec/variables/1/expression"}
    patch = json.dumps([{**path, "value": f"'{seconds}'"}])
    shop.cluster.kubectl("patch", POLICY, "--type=json", "-p", patch)
    probe = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "probe",
            "labels": {"lbcf.tkestack.io/drain-gate": "enabled"},
        },
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }

    def told() -> bool:
        flags = ("create", "--dry-run=server", "-f", "-", "-ojson")
        made = json.loads(shop.cluster.kubectl(*flags, stdin=json.dumps(probe)))
        inits = made["spec"].get("initContainers", [])
        env = {e["name"]: e.get("value") for c in inits for e in c["env"]}
        return env.get("GATE_FALLBACK_SECONDS") == str(seconds)

    until(told)


def test_pod_without_records_ends_at_once(shop: Shop) -> None:
    """Nothing is waited for."""
    with shop.gate():
        shop.start("free", LONG)
        with shop.deleting("free"):
            pass


def test_pod_is_told_to_end_when_its_record_is_gone(shop: Shop) -> None:
    """Until then it serves, and all of its containers live; it says that it is root."""
    with shop.gate():
        shop.record("held", shop.start("held", LONG, user=0))
        with shop.deleting("held"):
            time.sleep(5)
            assert shop.serves("held")
            shop.end_record("held")


def test_preempted_pod_is_told_to_end_when_its_record_is_gone(shop: Shop) -> None:
    """Who takes its place waits for that, too."""
    cpu = shop.most_cpu()
    with shop.gate():
        shop.record("lesser", shop.start("lesser", LONG, cpu=cpu))
        with shop.deleting("lesser", lambda: shop.preempt(cpu)):
            time.sleep(5)
            assert shop.serves("lesser")
            shop.end_record("lesser")
        wait = (
            "wait",
            "--for=condition=Ready",
            "pod/first",
            f"--timeout={PATIENCE:.0f}s",
        )
        shop.cluster.kubectl(*wait)
        shop.cluster.kubectl("delete", "pod/first", "--now")


def test_replica_that_comes_back_is_asked_again(shop: Shop) -> None:
    """Killed and started anew, it answers who has asked before."""
    with ExitStack() as later, shop.gate() as first:
        shop.record("asking", shop.start("asking", LONG))
        with shop.deleting("asking"):
            time.sleep(3)
            first.kill()
            first.wait()
            time.sleep(3)
            assert shop.serves("asking")
            # It stays until the pod is gone: the pod asks it again in its own time.
            later.enter_context(shop.gate())
            shop.end_record("asking")


def test_pod_ends_by_the_fallback_where_nobody_answers(shop: Shop) -> None:
    """All of ours is down, or was uninstalled: the app is told to end all the same."""
    set_fallback(shop, 3)
    shop.start("alone", LONG)
    with shop.deleting("alone"):
        pass


def test_hook_leaves_the_app_a_rest_of_its_grace_period(shop: Shop) -> None:
    """A record that never goes holds the pod for less, though somebody answers.

    All of the period would be longer than the test waits.
    """
    with shop.gate():
        shop.record("stuck", shop.start("stuck", LONG, rest=LONG - 5))
        with shop.deleting("stuck"):
            pass
        shop.end_record("stuck")
