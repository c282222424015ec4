"""The way `retain`: load balancers keep what they have, no driver is called.

Our processes are stopped first: they would deregister what is let go of here, and put
finalizers back. After it, `removal` finds nothing that has a finalizer.
"""

import argparse
import json
import time

from typing import Final

from lbcf.ctl.uninstall.kubectl import (
    GROUP,
    LEADER_LEASES,
    Item,
    UninstallError,
    everywhere,
    items,
    known,
    kubectl,
    plural,
    say,
)
from lbcf.ctl.uninstall.removal import remove_gates
from lbcf.ctl.uninstall.services import let_go_of_services
from lbcf.ctl.uninstall.waiting import PAUSE, until_no_pods


HELD: Final = {
    "backendrecords": f"{GROUP}/deregister-backend",
    "binds": f"{GROUP}/delete-load-loadbalancer",
    "loadbalancers": f"{GROUP}/delete-load-loadbalancer",
    "loadbalancerdrivers": f"{GROUP}/driver-in-use",
}
"""Our finalizers, by the kind that has them."""
GUARD: Final = f"backendrecords.{GROUP}"
"""Keeps everybody but the deregistrar from taking the finalizer off records."""
TRIES: Final = 20


def retain(flags: argparse.Namespace) -> None:
    """Stop our processes, then let go of everything without calling any driver.

    Raises:
        UninstallError: one of our processes works on, or finalizers come back.
    """
    _stop(flags)
    say(
        f"deleting the policy's binding {GUARD}: it keeps finalizers from being taken off"
    )
    binding = ("validatingadmissionpolicybindings", GUARD)
    kubectl("delete", *binding, "--ignore-not-found")
    let_go_of_services(empty=False)
    held = [kind for kind in known() if kind in HELD]
    for _ in range(TRIES):
        tied = [one for one in everywhere(held) if HELD[plural(one)] in finalizers(one)]
        if not tied:
            return
        say(f"taking our finalizers off {len(tied)} objects")
        for one in tied:
            left = [name for name in finalizers(one) if name != HELD[plural(one)]]
            one["metadata"]["finalizers"] = left
        whole = {"apiVersion": "v1", "kind": "List", "items": tied}
        try:
            kubectl("replace", "-f", "-", stdin=json.dumps(whole))
        except UninstallError as error:
            # One has changed meanwhile, or the API server still goes by the policy.
            say(str(error))
            time.sleep(PAUSE)
    raise UninstallError(
        "our finalizers come back: a controller works outside of this cluster or of "
        f"namespace {flags.namespace}; stop it and run this again"
    )


def finalizers(item: Item) -> list[str]:
    """The finalizers of an object."""
    found: list[str] = item["metadata"].get("finalizers", [])
    return found


def _stop(flags: argparse.Namespace) -> None:
    """Stop our processes and see that they have stopped; pods get no gates any more.

    Raises:
        UninstallError: somebody still renews a Lease.
    """
    remove_gates()
    say("stopping controller, deregistrar and admission")
    inside, ours = ("-n", flags.namespace), ("-l", "app.kubernetes.io/name=lbcf")
    if items("deployments", *inside, *ours):
        kubectl("scale", "deployments", *inside, *ours, "--replicas=0")
    until_no_pods(flags)
    before = _renewals(flags)
    if before:
        say(f"waiting whether {', '.join(before)} still work")
    for _ in range(TRIES):
        if not before:
            return
        time.sleep(PAUSE)
        now = _renewals(flags)
        for name in [n for n, moment in now.items() if before.get(n, moment) != moment]:
            raise UninstallError(
                f"{name} still works, in a process that no Deployment in namespace "
                f"{flags.namespace} has: stop it and run this again"
            )


def _renewals(flags: argparse.Namespace) -> dict[str, str]:
    """When each Lease that somebody holds was renewed last, by holder."""
    return {
        f"{name} ({lease['spec']['holderIdentity']})": str(
            lease["spec"].get("renewTime")
        )
        for lease in items("leases", "-n", flags.namespace)
        if LEADER_LEASES.fullmatch(name := lease["metadata"]["name"])
        and lease["spec"].get("holderIdentity")
    }
