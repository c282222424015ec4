"""Takes away what was installed, once nothing needs it: found by our label.

After `drain` or `retain`; it works for kustomize and Helm alike.
"""

import argparse

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
    "priorityclasses",
)
MUTATING: Final = ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies")
"""What gives new pods our two gates; Kubernetes before 1.36 may not have these kinds."""
LOCK: Final = "addr-"
"""Names of the Leases that lock addresses begin so."""


def remove(flags: argparse.Namespace) -> None:
    """Delete what was installed: first what runs, last the kinds and our namespaces."""
    inside = ("-n", flags.namespace)
    say(f"deleting what is labelled {OURS}")
    remove_gates()
    kubectl("delete", "deployments,jobs", *inside, "-l", OURS, "--ignore-not-found")
    until_no_pods(flags)
    kubectl("delete", ",".join(OUTSIDE), "-l", OURS, "--ignore-not-found")
    kubectl("delete", INSIDE, *inside, "-l", OURS, "--ignore-not-found")
    kubectl("delete", GRANTED, *SHARED, "-l", OURS, "--ignore-not-found")
    leases = [one["metadata"]["name"] for one in items("leases", *inside)]
    if ours := [n for n in leases if LEADER_LEASES.fullmatch(n) or n.startswith(LOCK)]:
        kubectl("delete", "leases", *inside, *ours, "--ignore-not-found")
    say("deleting the kinds")
    if kinds := known():
        kubectl("delete", "customresourcedefinitions", *(full(kind) for kind in kinds))
    for name in [one["metadata"]["name"] for one in items("ns", "-l", OURS)]:
        say(f"deleting namespace {name}")  # also that of Envoys
        kubectl("delete", "namespace", name)


def remove_gates() -> None:
    """Have pods that are made from now on get no gates of ours.

    Before the controller stops: nobody would open those gates afterwards.
    """
    served = kubectl("api-resources", "--api-group", ADMISSION, "-o", "name")
    if kinds := [kind for kind in MUTATING if f"{kind}.{ADMISSION}" in served]:
        kubectl("delete", ",".join(kinds), "-l", OURS, "--ignore-not-found")
