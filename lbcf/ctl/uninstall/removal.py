"""Takes away what was installed, once nothing needs it: found by our label.

After `drain` or `retain`; it works for kustomize and Helm alike. `retain` leaves what load
balancers in the cluster run on: Envoys with their driver, and namespaces where something runs.
"""

import argparse
import json

from collections.abc import Mapping
from typing import Final

from lbcf.ctl.uninstall.kubectl import LEADER_LEASES, full, items, known, kubectl, say
from lbcf.ctl.uninstall.waiting import until_no_pods


OURS: Final = "app.kubernetes.io/part-of=lbcf"
INSIDE: Final = (
    "services,serviceaccounts,poddisruptionbudgets,networkpolicies,rolebindings,"
    "roles,secrets,configmaps"
)
GRANTED: Final = "rolebindings,roles,secrets"
SHARED: Final = ("-n", "kube-system")
"""Where drivers that ship have their token, and we the right to read it."""
ADMISSION: Final = "admissionregistration.k8s.io"
OUTSIDE: Final = (
    "validatingwebhookconfigurations",
    "validatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "clusterrolebindings",
    "clusterroles",
)
ENVOY: Final = "lbcf-envoy"
"""So begin the names of all that Envoys and their driver have. An Envoy keeps what it serves in
memory: one that starts anew gets it from the driver alone."""
MUTATING: Final = ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies")
"""What gives new pods our two gates; Kubernetes before 1.36 may not have these kinds."""
LOCK: Final = "addr-"
"""Names of the Leases that lock addresses begin so."""


def remove(flags: argparse.Namespace, spared: tuple[str, ...]) -> None:
    """Delete what was installed: first what runs, last the kinds and our namespaces.

    Args:
        flags: `namespace`, and those of `add_flags`.
        spared: names that begin so stay, and then namespaces where something runs do, too.
    """
    inside = ("-n", flags.namespace)
    say(f"deleting what is labelled {OURS}")
    remove_gates()
    _delete("deployments,jobs", *inside, spared=spared)
    until_no_pods(flags)
    _delete(",".join(OUTSIDE))
    _delete(INSIDE, *inside, spared=spared)
    _delete(GRANTED, *SHARED, spared=spared)
    leases = [one["metadata"]["name"] for one in items("leases", *inside)]
    if ours := [n for n in leases if LEADER_LEASES.fullmatch(n) or n.startswith(LOCK)]:
        kubectl("delete", "leases", *inside, *ours, "--ignore-not-found")
    say("deleting the kinds")
    if kinds := known():
        kubectl("delete", "customresourcedefinitions", *(full(kind) for kind in kinds))
    names = [one["metadata"]["name"] for one in items("ns", "-l", OURS)]
    found = {name: _running(name) for name in names if spared}
    busy = {name: workloads for name, workloads in found.items() if workloads}
    for name in (one for one in names if one not in busy):
        say(f"deleting namespace {name}")
        kubectl("delete", "namespace", name)
    if busy:
        # Pods that are made there later are refused without our priority class.
        _tell_left(flags, busy)
    else:
        _delete("priorityclasses")


def _delete(kinds: str, *where: str, spared: tuple[str, ...] = ()) -> None:
    """Delete what has our label, but for names that begin with what is spared."""
    found = kubectl("get", kinds, *where, "-l", OURS, "-o", "name").split()
    gone = [one for one in found if not one.partition("/")[2].startswith(spared)]
    if gone:
        kubectl("delete", *where, *gone, "--ignore-not-found")


def _running(namespace: str) -> list[str]:
    """Return what makes pods in a namespace."""
    workloads = "deployments,statefulsets,daemonsets"
    return kubectl("get", workloads, "-n", namespace, "-o", "name").split()


def _tell_left(flags: argparse.Namespace, busy: Mapping[str, list[str]]) -> None:
    """Say what runs on in which namespace, and how it is taken away."""
    for name, workloads in busy.items():
        say(f"leaving namespace {name}, for {', '.join(workloads)}")
    say(
        "load balancers there keep the members that they have. Once nobody needs them: "
        f"kubectl lbcf uninstall drain --namespace {flags.namespace}\n"
        "(helm uninstall, where Helm installed them, takes them away at once)"
    )


def remove_gates() -> None:
    """Have pods that are made from now on get no gates of ours.

    Before the controller stops: nobody would open those gates afterwards.
    """
    served = _served(ADMISSION)
    for kind in (one for one in MUTATING if one in served):
        kubectl("delete", f"{kind}.{ADMISSION}", "-l", OURS, "--ignore-not-found")


def _served(group: str) -> set[str]:
    """Return the kinds of a group that the API server has, in any version.

    `kubectl api-resources` would ask about all groups, and fail where any aggregated API
    is down.
    """
    versions = json.loads(kubectl("get", "--raw", f"/apis/{group}"))["versions"]
    paths = [f"/apis/{one['groupVersion']}" for one in versions]
    lists = [json.loads(kubectl("get", "--raw", path)) for path in paths]
    return {kind["name"] for one in lists for kind in one["resources"]}
