"""What is waited for and why, told by the objects themselves.

`drain` calls it after each order to delete something.
"""

import argparse
import time

from collections.abc import Sequence
from typing import Final

from lbcf.ctl.uninstall.kubectl import (
    GROUP,
    Item,
    UninstallError,
    everywhere,
    full,
    items,
    kubectl,
    name_of,
    plural,
    say,
)


SHOWN: Final = 10
"""So many objects are shown; of the others the number."""
PAUSE: Final = 1.0
"""Seconds between two looks."""


def until_gone(kinds: Sequence[str], flags: argparse.Namespace) -> None:
    """Wait until no object of these kinds is left, and tell what is waited for.

    Raises:
        UninstallError: some are left after `--timeout` (twice, with `--abandon`).
    """
    began, told, abandoned = time.monotonic(), "", not flags.abandon
    while left := everywhere(kinds):
        text = describe(left)
        if text != told:
            say(
                f"waiting for {len(left)}, after {time.monotonic() - began:.0f} s:\n{text}"
            )
            told = text
        if time.monotonic() > began + flags.timeout:
            if abandoned:
                raise UninstallError(
                    f"after {flags.timeout:.0f} s these are still there:\n"
                    f"{text}\n{way_on(left)}"
                )
            abandon(left, flags.abandon)
            began, abandoned = time.monotonic(), True
        time.sleep(PAUSE)


def describe(left: Sequence[Item]) -> str:
    """Say what is still there and what it waits for, a line each."""
    lines = [f"  {name_of(one)}\n      {wait_of(one)}" for one in left]
    more = [f"  ... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return "\n".join([*lines[:SHOWN], *more])


def wait_of(item: Item) -> str:
    """Say what an object that should go waits for, by its own conditions."""
    if "deletionTimestamp" not in item["metadata"]:
        return "nobody has deleted it yet: does the controller run?"
    status = item.get("status", {})
    told = list(status.get("conditions", []))
    for balancer in status.get("loadBalancerStatuses", []):
        told += balancer.get("conditions", [])
    told = [c for c in told if c["status"] != "True" or c["reason"] == "InUse"]
    if not told:
        return "nothing is told: do controller and deregistrar run?"
    last = max(told, key=lambda c: str(c.get("lastTransitionTime", "")))
    driver = item.get("spec", {}).get("lbDriver", "")
    by = f" (driver {driver})" if driver else ""
    return f"{last['reason']}{by}: {last.get('message', '')}".strip()


def way_on(left: Sequence[Item]) -> str:
    """Say how to go on when waiting has led to nothing."""
    return (
        "Our processes run on and go on trying; nothing they need has been taken away. "
        "Then either\n"
        "  mend what is told above and run this again; or\n"
        "  let go without the driver, which leaves the member or load balancer where it "
        "is, to be\n  taken out by hand:\n"
        f'      kubectl annotate {name_of(left[0])} {GROUP}/abandon="why"\n'
        '    or all of them: run this again with --abandon "why"; or,\n'
        "  where controller and deregistrar do not run any more: uninstall retain"
    )


def abandon(left: Sequence[Item], why: str) -> None:
    """Order our processes to let objects go without their driver."""
    say(f"abandoning {len(left)}: what their load balancers have stays there")
    for one in left:
        meta = one["metadata"]
        where = (full(plural(one)), meta["name"], "-n", meta["namespace"])
        try:
            kubectl("annotate", "--overwrite", *where, f"{GROUP}/abandon={why}")
        except UninstallError as error:
            say(str(error))  # gone meanwhile; the next look tells


def until_no_pods(flags: argparse.Namespace) -> None:
    """Wait until no pod of a process of ours is left.

    Raises:
        UninstallError: one is left after `--timeout`.
    """
    began = time.monotonic()
    where = ("-n", flags.namespace, "-l", "app.kubernetes.io/name=lbcf")
    while left := items("pods", *where):
        if time.monotonic() > began + flags.timeout:
            names = " ".join(one["metadata"]["name"] for one in left)
            raise UninstallError(
                f"pods {names} do not end. If their node is gone for good: kubectl "
                f"delete pods -n {flags.namespace} --force {names}"
            )
        time.sleep(PAUSE)
