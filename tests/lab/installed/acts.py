"""What happens to an installed lbcf while requests flow, one thing after the other.

Each act takes a `Scene`, returns when all is well again, and raises KubectlError when it
does not get well. Nothing happens to node n1, where HAProxy is.
"""

import json
import time

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from tests.lab.cluster import Cluster
from tests.lab.cluster.errors import ClusterError, KubectlError
from tests.lab.installed import install, traces
from tests.lab.installed.images import NEXT
from tests.lab.installed.install import SYSTEM, WAIT
from tests.lab.installed.verdict import Outage


SAFE = "n1"
"""The node of HAProxy."""
SHOP = ("-n", "shop")
PATIENCE = 240.0
PAUSE = 0.5


@attrs.define
class Scene:
    """Where the acts take place.

    Attributes:
        cluster: three nodes.
        folder: of the run.
        outages: nodes that lost their power, and for how long that excuses failures.
    """

    cluster: Cluster
    folder: Path
    outages: list[Outage] = attrs.field(factory=list)

    def kubectl(self, *words: str | Path) -> str:
        """Run kubectl; return what it printed."""
        return self.cluster.kubectl(*words)


def until(told: str, check: Callable[[], bool]) -> None:
    """Wait until something has come about.

    Raises:
        KubectlError: it has not.
    """
    end = time.monotonic() + PATIENCE
    while not check():
        if time.monotonic() > end:
            raise KubectlError(f"not within {PATIENCE:.0f} s: {told}")
        time.sleep(PAUSE)


def roll_web(scene: Scene) -> None:
    """Replace all pods of the web app."""
    scene.kubectl(*SHOP, "rollout", "restart", "deployment/web")
    scene.kubectl(*SHOP, "rollout", "status", "deployment/web", WAIT)


def slip(scene: Scene) -> None:
    """Edit a record as administrators should not: the API server tells them so.

    Raises:
        ClusterError: it does not.
    """
    until("nothing drains", lambda: len(records(scene)) == len(live_members(scene)))
    name = f"backendrecord/{_records(scene)[0]['metadata']['name']}"
    for change in (
        {"metadata": {"finalizers": None}},
        {"spec": {"parameters": {"by": "hand"}}},
    ):
        words = (*SHOP, "patch", name, "--type=merge", "-p", json.dumps(change))
        try:
            scene.kubectl(*words)
        except KubectlError as error:
            if "deregistrar" not in str(error):
                raise
        else:
            raise ClusterError(f"{name} could be changed by hand: {change}")


def kill_leaders(scene: Scene) -> None:
    """Kill both leaders, and roll the web app at the same moment."""
    leaders = [leader(scene, name) for name in ("controller", "deregistrar")]
    force = ("--force", "--grace-period=0", "--wait=false")
    scene.kubectl(*SYSTEM, "delete", "pods", *leaders, *force)
    roll_web(scene)


def drain_leader(scene: Scene) -> None:
    """Drain the node of the controller's leader."""
    node = node_of(scene, lead_elsewhere(scene))
    scene.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", WAIT)
    scene.kubectl("uncordon", node)
    install.await_rollout(scene.cluster)


def upgrade(scene: Scene) -> None:
    """Go to the next version, kinds included; live records stay what they are.

    Raises:
        ClusterError: they do not, or it is not the next version that runs.
    """
    until("nothing drains", lambda: len(records(scene)) == len(live_members(scene)))
    before, ready = live_members(scene), ready_since(scene)
    install.install(
        scene.cluster, traces.write_overlay(scene.folder / "next", tag=NEXT)
    )
    # A pod that was unready meanwhile, as on a busy machine, may have another record.
    steady = {
        pod for pod, since in ready_since(scene).items() if ready.get(pod) == since
    }
    gone = {before[member] for member in before.keys() - live_members(scene).keys()}
    if replaced := gone & steady:
        raise ClusterError(f"the upgrade has replaced the live records of {replaced}")
    image = "jsonpath={.items[*].spec.containers[*].image}"
    ours = ("-l", "app.kubernetes.io/part-of=lbcf")
    until(
        "every pod of ours has the next version's image",
        lambda: (
            {NEXT}
            == {
                name.rpartition(":")[2]
                for name in scene.kubectl(
                    *SYSTEM, "get", "pods", *ours, "-o", image
                ).split()
            }
        ),
    )
    # The next version's kinds: a field that the former ones knew nothing of.
    where = ("backendgroup/web", "--type=merge", "-p", '{"spec":{"added":"yes"}}')
    scene.kubectl(*SHOP, "patch", *where)
    roll_web(scene)


def roll_ours(scene: Scene) -> None:
    """Replace all pods of ours, and the web app's at the same time."""
    names = [f"deployment/lbcf-{n}" for n in install.OURS]
    scene.kubectl(*SYSTEM, "rollout", "restart", *names)
    roll_web(scene)
    install.await_rollout(scene.cluster)


def power_off_leader(scene: Scene) -> None:
    """Cut the power of the leader's node; its pods are replaced, then it comes back.

    What was with one of its pods fails until the pod's record is gone: nobody can help
    that. Nothing else may fail.
    """
    until("nothing drains", lambda: len(records(scene)) == len(live_members(scene)))
    node = node_of(scene, lead_elsewhere(scene))
    machine = scene.cluster.node(int(node.removeprefix("n")))
    members = {m for m, pod in live_members(scene).items() if on(scene, pod, node)}
    began = time.monotonic()
    machine.power_off()
    until("its members are gone", lambda: not members & records(scene))
    scene.outages.append(Outage(node, began, time.monotonic(), frozenset(members)))
    until("six are registered", lambda: len(live_members(scene)) == 6)
    machine.power_on()
    scene.kubectl("wait", "--for=condition=Ready", f"node/{node}", WAIT)
    install.await_rollout(scene.cluster)
    until("no pod waits for its end", lambda: not _ending(scene))


def _ending(scene: Scene) -> bool:
    """Whether a pod of the web app is being deleted."""
    stamp = "jsonpath={.items[*].metadata.deletionTimestamp}"
    return bool(scene.kubectl(*SHOP, "get", "pods", "-o", stamp))


def records(scene: Scene) -> set[str]:
    """HAProxy's names of all members that have a record."""
    return {f"lbcf-{one['metadata']['uid']}" for one in _records(scene)}


def live_members(scene: Scene) -> dict[str, str]:
    """Pods by HAProxy's name of the member, of those that stay registered."""
    return {
        f"lbcf-{one['metadata']['uid']}": one["spec"]["podBackend"]["name"]
        for one in _records(scene)
        if "deletionTimestamp" not in one["metadata"]
        and any(
            (c["type"], c["status"]) == ("Registered", "True")
            for c in one.get("status", {}).get("conditions", [])
        )
    }


def ready_since(scene: Scene) -> dict[str, str]:
    """When each pod of the web app became ready, of those that are."""
    listed = json.loads(scene.kubectl(*SHOP, "get", "pods", "-o", "json"))
    return {
        pod["metadata"]["name"]: condition["lastTransitionTime"]
        for pod in listed["items"]
        for condition in pod["status"].get("conditions", [])
        if (condition["type"], condition["status"]) == ("Ready", "True")
    }


def _records(scene: Scene) -> list[dict[str, Any]]:
    """The records of the web app."""
    listed = scene.kubectl(*SHOP, "get", "backendrecords", "-o", "json")
    found: list[dict[str, Any]] = json.loads(listed)["items"]
    return found


def on(scene: Scene, pod: str, node: str) -> bool:
    """Whether a pod of the web app is on a node."""
    where = "jsonpath={.spec.nodeName}"
    return node == scene.kubectl(*SHOP, "get", "pod", pod, "-o", where)


def leader(scene: Scene, process: str) -> str:
    """Name the pod that leads; empty while nobody does."""
    where = "jsonpath={.spec.holderIdentity}"
    lease = scene.kubectl(*SYSTEM, "get", "lease", f"lbcf-{process}", "-o", where)
    return lease.partition("_")[0]


def node_of(scene: Scene, pod: str) -> str:
    """Name the node of a pod of ours, empty for none."""
    where = ("-o", "jsonpath={.spec.nodeName}", "--ignore-not-found")
    return scene.kubectl(*SYSTEM, "get", "pod", pod, *where) if pod else ""


def lead_elsewhere(scene: Scene) -> str:
    """See that the controller's leader is not on HAProxy's node; name the leader."""

    def elsewhere() -> bool:
        """Whether it is; else the one that leads is asked to end."""
        found = node_of(scene, leader(scene, "controller"))
        if found == SAFE:
            pod = leader(scene, "controller")
            scene.kubectl(*SYSTEM, "delete", "pod", pod, "--ignore-not-found")
        return found not in {"", SAFE}

    if not elsewhere():
        scene.kubectl("cordon", SAFE)
        until("the leader is on another node than HAProxy", elsewhere)
        scene.kubectl("uncordon", SAFE)
        install.await_rollout(scene.cluster)
    return leader(scene, "controller")


ALL: tuple[Callable[[Scene], None], ...] = (
    roll_web,
    slip,
    kill_leaders,
    drain_leader,
    upgrade,
    power_off_leader,
    roll_ours,
    roll_web,
)
