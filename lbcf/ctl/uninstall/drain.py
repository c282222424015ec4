"""The way `drain`: our processes take everything out of all load balancers.

After it, `removal` finds nothing that has a finalizer.
"""

import argparse
import time

from collections.abc import Sequence
from typing import Final

from lbcf.ctl.uninstall.kubectl import (
    GROUP,
    KINDS,
    UninstallError,
    everywhere,
    full,
    items,
    known,
    kubectl,
    name_of,
    say,
)
from lbcf.ctl.uninstall.services import let_go_of_services
from lbcf.ctl.uninstall.waiting import PAUSE, until_gone


PROTECTED: Final = f"{GROUP}/do-not-delete"


def drain(flags: argparse.Namespace) -> None:
    """Let our processes take everything out of all load balancers.

    Raises:
        UninstallError: something is protected, or does not go in time.
    """
    classes, groups, binds, records, balancers, drivers = (
        [kind] if kind in known() else [] for kind in KINDS
    )
    _refuse_protected([*groups, *binds, *balancers])
    delete(classes)
    if classes:
        # What Services are derived into is not made anew once the controller has heard.
        time.sleep(PAUSE)
    delete([*groups, *binds])
    until_gone(groups, flags)
    # Nobody makes new ones any more; these have an end even where no owner is told.
    delete(records)
    # A Bind waits for its own records and load balancers.
    until_gone([*records, *binds], flags)
    delete(balancers)
    until_gone(balancers, flags)
    let_go_of_services(empty=True)
    if drivers:
        _delete_drivers(flags)


def _refuse_protected(kinds: Sequence[str]) -> None:
    """See that everything may be deleted, before anything is.

    Raises:
        UninstallError: something is not to be deleted.
    """
    protected = [
        name_of(one)
        for one in everywhere(kinds)
        if PROTECTED in one["metadata"].get("labels", {})
    ]
    if protected:
        listed = "\n  ".join(protected)
        raise UninstallError(
            f"nothing was deleted, as the label {PROTECTED} forbids it on\n  {listed}\n"
            f"Take it off first: kubectl label {protected[0]} {PROTECTED}-"
        )


def _delete_drivers(flags: argparse.Namespace) -> None:
    """Take the drivers away: nothing needs them any more."""
    drivers = full("loadbalancerdrivers")
    mark = (f"{GROUP}/driver-draining=true", "--overwrite")
    if items(drivers, "-A"):
        kubectl("label", drivers, "--all", "--all-namespaces", *mark)
    delete(["loadbalancerdrivers"])
    until_gone(["loadbalancerdrivers"], flags)


def delete(kinds: Sequence[str]) -> None:
    """Order the end of all objects of these kinds, without waiting."""
    for kind in kinds:
        say(f"deleting {kind}")
        kubectl("delete", full(kind), "--all", "--all-namespaces", "--wait=false")
