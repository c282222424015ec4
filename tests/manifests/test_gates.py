"""What pods get that are to wait, on a real API server, and what others do not."""

import json

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from images.waiter import REFERENCE
from tests.lab.cluster import Cluster
from tests.manifests.documents import ROOT
from tests.manifests.fixtures import await_answer


pytestmark = pytest.mark.cluster

GATES = ROOT / "manifests" / "drain-gate"
LABEL = "lbcf.tkestack.io/drain-gate"
WAITS = "lbcf.tkestack.io/drain-gate-seconds"
OWN = "lbcf.tkestack.io/own-pre-stop"
LOCAL = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
HOOK = {"exec": {"command": ["/lbcf-gate/busybox", "sh", "/lbcf-gate/wait"]}}
MOUNT = {"name": "lbcf-gate", "mountPath": "/lbcf-gate", "readOnly": True}
SLEEP = {"sleep": {"seconds": 3}}

Pod = dict[str, Any]


@pytest.fixture(scope="module", name="policy")
def _policy(control_plane: Cluster) -> Iterator[Cluster]:
    """The policy is in force."""
    path = GATES / "policy.yaml"
    control_plane.kubectl("apply", "--server-side", "-f", path)
    with control_plane.namespace("ready") as name:
        await_policy(control_plane, name, pod(enabled=True))
    yield control_plane
    control_plane.kubectl("delete", "-f", path)


def await_policy(cluster: Cluster, namespace: str, asked: Pod) -> None:
    """Wait until a pod gets the waiter: what was just written is soon known."""
    await_answer(lambda: WAITS in annotations(made(cluster, namespace, asked)))


@pytest.fixture(name="shop")
def _shop(policy: Cluster, namespace: str) -> str:
    """A namespace without the label."""
    _ = policy
    return namespace


def pod(*containers: Pod, enabled: bool | None = None, **spec: object) -> Pod:
    """Make a pod, for which the label says so."""
    labels = {} if enabled is None else {LABEL: "enabled" if enabled else "disabled"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        # A controller's pods have no name yet when policies see them.
        "metadata": {"generateName": "web-", "labels": labels},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": containers or (container(),),
            **spec,
        },
    }


def container(name: str = "web", **more: object) -> Pod:
    """Make a container."""
    return {"name": name, "image": "app", **more}


def made(cluster: Cluster, namespace: str, asked: Pod) -> Pod:
    """What becomes of a pod."""
    flags = ("create", "-n", namespace, "--dry-run=server", "-ojson", "-f", "-")
    found: Pod = json.loads(cluster.kubectl(*flags, stdin=json.dumps(asked)))
    return found


def annotations(found: Pod) -> dict[str, str]:
    """Its annotations."""
    said: dict[str, str] = found["metadata"].get("annotations", {})
    return said


def hooks(found: Pod) -> dict[str, object]:
    """Each container's preStop."""
    return {
        one["name"]: one.get("lifecycle", {}).get("preStop")
        for one in found["spec"]["containers"]
    }


def test_pod_gets_the_waiter_and_the_hook(policy: Cluster, shop: str) -> None:
    """Whatever it has itself stays; containers have the mount and the hook."""
    asked = pod(
        container("plain"),
        container("data", volumeMounts=[{"name": "data", "mountPath": "/data"}]),
        container("started", lifecycle={"postStart": SLEEP}),
        container("own", lifecycle={"preStop": SLEEP}),
        enabled=True,
        volumes=[{"name": "data", "emptyDir": {}}],
        initContainers=[container("mesh", restartPolicy="Always")],
        terminationGracePeriodSeconds=60,
    )
    found = made(policy, shop, asked)
    spec = found["spec"]

    assert {"plain": HOOK, "data": HOOK, "started": HOOK, "own": SLEEP} == hooks(found)
    assert SLEEP == spec["containers"][2]["lifecycle"]["postStart"]
    assert all(MOUNT in one["volumeMounts"] for one in spec["containers"])
    assert ["lbcf-gate", "mesh"] == [one["name"] for one in spec["initContainers"]]
    assert ["data", "lbcf-gate"] == [one["name"] for one in spec["volumes"]]
    assert {WAITS: "55", OWN: "own", LOCAL: "lbcf-gate"} == annotations(found)
    env = {one["name"]: one.get("value") for one in spec["initContainers"][0]["env"]}
    assert "55" == env["GATE_SECONDS"]
    assert REFERENCE == spec["initContainers"][0]["image"]
    assert "lifecycle" not in spec["initContainers"][1]


@pytest.mark.parametrize(
    ("of_namespace", "of_pod", "waits"),
    [
        (False, None, False),
        (False, True, True),
        (True, None, True),
        (True, False, False),
    ],
)
def test_label_of_the_pod_goes_before_that_of_the_namespace(
    policy: Cluster, of_namespace: bool, of_pod: bool | None, waits: bool
) -> None:
    """Nobody gets anything who did not ask for it."""
    labels = {LABEL: "enabled"} if of_namespace else {}
    with policy.namespace("labelled", labels) as namespace:
        if of_namespace:
            await_policy(policy, namespace, pod())
        found = made(policy, namespace, pod(enabled=of_pod))

    assert waits == (WAITS in annotations(found))
    assert waits == ("initContainers" in found["spec"])


@pytest.mark.parametrize(
    ("grace", "shutdown", "seconds"),
    [
        (30, None, "25"),
        (60, "20", "40"),
        (60, "soon", "55"),
        (5, None, "1"),
        (0, None, "1"),
    ],
)
def test_app_has_a_rest_of_the_grace_period(
    policy: Cluster, shop: str, grace: int, shutdown: str | None, seconds: str
) -> None:
    """As long as it says, else five seconds."""
    asked = pod(enabled=True, terminationGracePeriodSeconds=grace)
    if shutdown is not None:
        said = {"lbcf.tkestack.io/shutdown-seconds": shutdown}
        asked["metadata"]["annotations"] = said

    assert seconds == annotations(made(policy, shop, asked))[WAITS]


def test_volumes_that_may_be_lost_are_named_beside_others(
    policy: Cluster, shop: str
) -> None:
    """What the pod says itself to Cluster Autoscaler stays."""
    asked = pod(enabled=True)
    asked["metadata"]["annotations"] = {LOCAL: "cache"}

    assert "cache,lbcf-gate" == annotations(made(policy, shop, asked))[LOCAL]


def test_guaranteed_pod_stays_one_and_restricted_ones_are_let_in(
    policy: Cluster,
) -> None:
    """The init container asks for as much as it is limited to, and for no right."""
    sizes = {"cpu": "1", "memory": "64Mi"}
    secure = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    app = container(
        resources={"requests": sizes, "limits": sizes}, securityContext=secure
    )
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    with policy.namespace("strict", labels) as namespace:
        found = made(policy, namespace, pod(app, enabled=True))

    assert WAITS in annotations(found)
    assert "Guaranteed" == found["status"]["qosClass"]


@pytest.mark.parametrize(("user", "own"), [(0, 65532), (1000, None), (None, None)])
def test_waiter_is_not_root_where_the_pod_is(
    policy: Cluster, shop: str, user: int | None, own: int | None
) -> None:
    """The kubelet starts no container that must not be root and is said to be."""
    said = {} if user is None else {"securityContext": {"runAsUser": user}}
    found = made(policy, shop, pod(enabled=True, **said))
    secure = found["spec"]["initContainers"][0]["securityContext"]

    assert secure["runAsNonRoot"]
    assert own == secure.get("runAsUser")


def test_pods_of_windows_and_of_the_system_are_left_alone(
    policy: Cluster, shop: str
) -> None:
    """The waiter is a program of Linux; and nothing of the system waits for us."""
    windows = made(policy, shop, pod(enabled=True, os={"name": "windows"}))
    system = made(policy, "kube-system", pod(enabled=True))

    assert WAITS not in annotations(windows)
    assert WAITS not in annotations(system)


def test_component_gives_the_same_to_workloads(
    control_plane: Cluster, tmp_path: Path
) -> None:
    """Init container and volume are those of the policy; others are as they were."""
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": []}}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    kinds = ("Deployment", "StatefulSet", "DaemonSet")
    workloads = [
        {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "labels": {LABEL: name}},
            "spec": spec,
        }
        for kind in kinds
        for name in ("enabled", "disabled")
    ]
    (tmp_path / "app.yaml").write_text(yaml.safe_dump_all(workloads))
    whole = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["app.yaml"],
        "components": [relative(GATES / "component", tmp_path)],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(whole))
    built = list(yaml.safe_load_all(control_plane.kubectl("kustomize", tmp_path)))

    for one in built:
        inside = one["spec"]["template"]["spec"]
        if one["metadata"]["name"] == "disabled":
            assert template["spec"] == inside
            continue
        (init,) = inside["initContainers"]
        assert REFERENCE == init["image"]
        assert [{"name": "lbcf-gate", "mountPath": "/lbcf-gate"}] == init[
            "volumeMounts"
        ]
        assert "lbcf-gate" == inside["volumes"][0]["name"]
        said = one["spec"]["template"]["metadata"]["annotations"]
        env = {e["name"]: e.get("value") for e in init["env"]}
        assert said[WAITS] == env["GATE_SECONDS"]
    assert len(workloads) == len(built)


def relative(path: Path, folder: Path) -> str:
    """A path as seen from a folder: kustomize takes no other."""
    return "/".join([".."] * (len(folder.parts) - 1)) + str(path)
