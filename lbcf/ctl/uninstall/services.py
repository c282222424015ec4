"""Services of type LoadBalancer that we have taken up: our mark and the finalizer come off.

Services are other people's: they are let go of, never deleted.
"""

import json

from typing import Final

from lbcf.ctl.uninstall.kubectl import GROUP, Item, items, kubectl, say


MARK: Final = f"{GROUP}/load-balancer-class"
FINALIZER: Final = "service.kubernetes.io/load-balancer-cleanup"
CONDITION: Final = "LoadBalancerReady"


def let_go_of_services(*, empty: bool) -> None:
    """Take our mark and the finalizer off all Services.

    Args:
        empty: nothing is behind their addresses any more: these go, too.
    """
    for one in items("services", "-A"):
        if MARK in one["metadata"].get("annotations", {}):
            _let_go(one, empty=empty)


def _let_go(service: Item, *, empty: bool) -> None:
    meta = service["metadata"]
    where = ("services", meta["name"], "-n", meta["namespace"], "--type=merge")
    say(f"letting go of services/{meta['name']} -n {meta['namespace']}")
    if empty:
        found = service.get("status", {}).get("conditions", [])
        left = [c for c in found if c["type"] != CONDITION]
        status = {"status": {"loadBalancer": None, "conditions": left}}
        kubectl("patch", *where, "--subresource=status", "-p", json.dumps(status))
    finalizers = [name for name in meta.get("finalizers", []) if name != FINALIZER]
    unmarked = {"finalizers": finalizers, "annotations": {MARK: None}}
    kubectl("patch", *where, "-p", json.dumps({"metadata": unmarked}))
