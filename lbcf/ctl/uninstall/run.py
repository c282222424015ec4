"""One of the two ways, then the removal."""

import argparse
import sys

from collections.abc import Callable, Mapping
from typing import Final

from lbcf.ctl.uninstall.drain import drain
from lbcf.ctl.uninstall.kubectl import UninstallError, say
from lbcf.ctl.uninstall.removal import ENVOY, remove
from lbcf.ctl.uninstall.retain import retain


NAMESPACE: Final = "lbcf-system"
WAYS: Final[Mapping[str, Callable[[argparse.Namespace], None]]] = {
    "drain": drain,
    "retain": retain,
}
"""What may become of the backends."""
SPARED: Final[Mapping[str, tuple[str, ...]]] = {"retain": (ENVOY,)}
"""How names begin of what stays after a way."""
WHAT_WAYS_DO: Final = "drain: load balancers let go of everything; retain: they keep it"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add what both ways can be told."""
    add = parser.add_argument
    add(
        "--timeout",
        type=float,
        default=600,
        metavar="SECONDS",
        help="for each kind to go (default: %(default)s)",
    )
    add("--abandon", metavar="WHY", help="after the timeout: let go without drivers")
    add("--objects-only", action="store_true", help="leave Deployments and CRDs there")


def run(flags: argparse.Namespace) -> int:
    """Take everything away; returns 1 where it could not be done.

    Args:
        flags: `way`, `namespace`, and those of `add_flags`.
    """
    try:
        WAYS[flags.way](flags)
        if not flags.objects_only:
            remove(flags, SPARED.get(flags.way, ()))
    except UninstallError as error:
        print(f"uninstall: {error}", file=sys.stderr)
        return 1
    say("done")
    return 0
