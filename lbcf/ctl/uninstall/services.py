"""Services of type LoadBalancer that we have taken up: our mark and the finalizer come off.

Services are other people's: they are let go of, never deleted.
"""

import json

from typing import Final

from lbcf.ctl.uninstall.kubectl import (
    GROUP,
    Item,
    UninstallError,
    items,
    kubectl,
    say,
)


MARK: Final = f"{GROUP}/load-balancer-class"
FINALIZER: Final = "service.kubernetes.io/load-balancer-cleanup"
CONDITION: Final = "LoadBalancerReady"


TRIES: Final = 20


def let_go_of_services(*, empty: bool) -> None:
    """Take our mark and the finalizer off all Services.

    Args:
        empty: nothing is behind their addresses any more: these go, too.

    Raises:
        UninstallError: one cannot be changed.
    """
    for one in filter(_is_taken_up, items("services", "-A")):
        _let_go(one, empty=empty)


def _is_taken_up(service: Item) -> bool:
    return MARK in service["metadata"].get("annotations", {})


def _let_go(service: Item, *, empty: bool) -> None:
    """Let go of a Service, read anew for as long as somebody else changes it."""
    name, namespace = (service["metadata"][part] for part in ("name", "namespace"))
    say(f"letting go of services/{name} -n {namespace}")
    one = ("-n", namespace, "--field-selector", f"metadata.name={name}")
    found = [service]
    for _ in range(TRIES):
        if not found:
            return
        try:
            _write(found[0], empty=empty)
        except UninstallError as error:
            if not any(f"({why})" in str(error) for why in ("Conflict", "NotFound")):
                raise
        else:
            return
        found = list(filter(_is_taken_up, items("services", *one)))
    raise UninstallError(
        f"services/{name} -n {namespace} changes all the time: run this again"
    )


def _write(service: Item, *, empty: bool) -> None:
    """Write a Service as it was read: lists are replaced, with what others put there."""
    meta = service["metadata"]
    version = meta["resourceVersion"]
    where = ("services", meta["name"], "-n", meta["namespace"], "--type=merge")
    if empty:
        found = service.get("status", {}).get("conditions", [])
        left = [c for c in found if c["type"] != CONDITION]
        status = {"loadBalancer": None, "conditions": left}
        whole = {"metadata": {"resourceVersion": version}, "status": status}
        told = ("--subresource=status", "-o", "json", "-p", json.dumps(whole))
        version = json.loads(kubectl("patch", *where, *told))["metadata"][
            "resourceVersion"
        ]
    finalizers = [name for name in meta.get("finalizers", []) if name != FINALIZER]
    unmarked = {
        "resourceVersion": version,
        "finalizers": finalizers,
        "annotations": {MARK: None},
    }
    kubectl("patch", *where, "-p", json.dumps({"metadata": unmarked}))
