"""What happens to the nodes, one thing after the other, and what is to come of it."""

import asyncio

from collections.abc import Awaitable, Callable

from lbcf.core.model.names import ANNOTATION_TRAFFIC_POLICY
from lbcf.core.model.nodes import EXCLUDE_LABEL
from lbcf.core.reasons import Reason
from tests.lab.nodes.bench import Bench
from tests.lab.nodes.records import NODES


Act = Callable[[Bench], Awaitable[None]]
HOSTS = frozenset({"n1", "n2"})
TAINT = "ToBeDeletedByClusterAutoscaler"
LIMIT = "--timeout=120s"
RULES = 5.0
"""Seconds in which kube-proxy has written its rules on every node, and to spare."""


async def cordon_all(bench: Bench) -> None:
    """Cordon every node, as an upgrade of a cluster does, and give them back."""
    nodes = HOSTS if bench.local else NODES
    async with bench.event("all nodes cordoned", nodes=nodes):
        await bench.kubectl("cordon", *sorted(NODES))
        await asyncio.sleep(2)  # a while in which nothing is to happen
    async with bench.event("all nodes uncordoned", nodes=nodes):
        await bench.kubectl("uncordon", *sorted(NODES))


async def drain(bench: Bench) -> None:
    """Evict a node's pods under their disruption budget, and let them come back."""
    nodes = HOSTS if bench.local else NODES
    reasons = (("n1", Reason.NO_READY_LOCAL_ENDPOINT),) if bench.local else ()
    left = nodes - {"n1"} if bench.local else nodes
    async with bench.event(
        "n1 drained (`kubectl drain`, under a PodDisruptionBudget)",
        *reasons,
        nodes=left,
    ):
        words = ("--ignore-daemonsets", "--pod-selector=app=web", "--timeout=300s")
        await bench.kubectl("drain", "n1", *words)
        await settled_pods(bench)
    async with bench.event("n1 uncordoned, pods spread again", nodes=nodes):
        await bench.kubectl("uncordon", "n1")
        await bench.kubectl("rollout", "restart", "deployment/web")
        await settled_pods(bench)


async def settled_pods(bench: Bench) -> None:
    """Wait until the app has all of its pods, and no others."""
    await bench.kubectl("rollout", "status", "deployment/web", LIMIT)
    words = ("--for=jsonpath={.status.terminatingReplicas}=0", LIMIT)
    await bench.kubectl("wait", "deployment/web", *words)


async def taint_bystander(bench: Bench) -> None:
    """Let an autoscaler announce the end of a node without pods, and change its mind."""
    async with bench.event(
        f"n3 tainted `{TAINT}`", ("n3", Reason.NODE_LEAVING), nodes=NODES - {"n3"}
    ):
        await bench.kubectl("taint", "node", "n3", f"{TAINT}=1:NoSchedule")
    async with bench.event("taint taken from n3"):
        await bench.kubectl("taint", "node", "n3", f"{TAINT}-")


async def taint_host(bench: Bench) -> None:
    """Let an autoscaler announce the end of a node whose pods serve under Local."""
    async with bench.event(f"n2 tainted `{TAINT}`, its pods serve", nodes=HOSTS):
        await bench.kubectl("taint", "node", "n2", f"{TAINT}=1:NoSchedule")
        await asyncio.sleep(2)  # a while in which nothing is to happen
    async with bench.event("taint taken from n2", nodes=HOSTS):
        await bench.kubectl("taint", "node", "n2", f"{TAINT}-")


async def exclude(bench: Bench) -> None:
    """Take a node out by its label, and put it back."""
    nodes = HOSTS if bench.local else NODES
    async with bench.event(
        "n2 labelled to be excluded", ("n2", Reason.NODE_EXCLUDED), nodes=nodes - {"n2"}
    ):
        await bench.kubectl("label", "node", "n2", f"{EXCLUDE_LABEL}=")
    async with bench.event("label taken from n2", nodes=nodes):
        await bench.kubectl("label", "node", "n2", f"{EXCLUDE_LABEL}-")


async def silence(bench: Bench) -> None:
    """Stop a node's kubelet until the node is NotReady, and start it again."""
    nodes = HOSTS if bench.local else NODES
    reasons = (("n2", Reason.NO_READY_LOCAL_ENDPOINT),) if bench.local else ()
    left = nodes - {"n2"} if bench.local else nodes
    unready = "n2" if bench.local else ""
    async with bench.event(
        "kubelet of n2 stopped, NotReady", *reasons, nodes=left, unready=unready
    ):
        await asyncio.to_thread(bench.node("n2").hold, "kubelet")
        await until_ready(bench, "n2", "Unknown")
    async with bench.event("kubelet of n2 started, Ready", nodes=nodes):
        bench.node("n2").release("kubelet")
        await until_ready(bench, "n2", "True")


async def cut(bench: Bench) -> None:
    """Pull a node's cable until it is NotReady, and put it in again."""
    async with bench.event("network of n3 cut, NotReady", dead="n3"):
        await asyncio.to_thread(bench.node("n3").cut)
        await until_ready(bench, "n3", "Unknown")
    async with bench.event("network of n3 mended, Ready", dead="n3"):
        await asyncio.to_thread(bench.node("n3").join)
        await until_ready(bench, "n3", "True")


async def until_ready(bench: Bench, node: str, word: str) -> None:
    """Wait until a node's Ready condition has this status."""
    await bench.kubectl("wait", f"--for=condition=Ready={word}", f"node/{node}", LIMIT)


async def to_local(bench: Bench) -> None:
    """Announce Local, so that nodes without pods leave, and then switch to it."""
    bench.local = True
    async with bench.event(
        "switch to Local announced on the Service",
        ("n3", Reason.NO_READY_LOCAL_ENDPOINT),
        nodes=HOSTS,
    ):
        await announce(bench, "Local")
    async with bench.event("Service switched to Local", nodes=HOSTS):
        await policy(bench, "Local")
        await asyncio.sleep(RULES)
    async with bench.event("announcement taken off", nodes=HOSTS):
        await announce(bench, None)


async def to_cluster(bench: Bench) -> None:
    """Switch to Cluster while Local is announced, until every node answers."""
    async with bench.event("Local announced on the Service", nodes=HOSTS):
        await announce(bench, "Local")
    async with bench.event("Service switched to Cluster", nodes=HOSTS):
        await policy(bench, "Cluster")
        await asyncio.sleep(RULES)
    bench.local = False
    async with bench.event("announcement taken off"):
        await announce(bench, None)


async def announce(bench: Bench, word: str | None) -> None:
    """Say on the Service that it is about to be, or to have been, Local."""
    mark = f"{ANNOTATION_TRAFFIC_POLICY}-" if word is None else None
    told = mark or f"{ANNOTATION_TRAFFIC_POLICY}={word}"
    await bench.kubectl("annotate", "service", "web", told)


async def policy(bench: Bench, word: str) -> None:
    """Give the Service another externalTrafficPolicy."""
    body = f'{{"spec":{{"externalTrafficPolicy":"{word}"}}}}'
    await bench.kubectl("patch", "service", "web", "-p", body)


async def power_off(bench: Bench) -> None:
    """Take a node's power, and then its object, as a cloud provider does."""
    async with bench.event("n3 powered off, NotReady", dead="n3"):
        await asyncio.to_thread(bench.node("n3").power_off)
        await until_ready(bench, "n3", "Unknown")
    async with bench.event(
        "object of n3 deleted",
        ("n3", Reason.NODE_GONE),
        nodes=NODES - {"n3"},
        dead="n3",
    ):
        await bench.kubectl("delete", "node", "n3")


WHOLE: tuple[Act, ...] = (
    *(cordon_all, drain, taint_bystander, exclude, silence, cut),
    *(to_local, cordon_all, drain, taint_host, exclude, silence),
    *(to_cluster, power_off),
)
SAMPLE: tuple[Act, ...] = (cordon_all, taint_bystander)


async def play(bench: Bench, acts: tuple[Act, ...]) -> None:
    """Let it all happen.

    Raises:
        DemoError: something does not come about.
    """
    for act in acts:
        await act(bench)
