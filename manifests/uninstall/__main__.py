"""The command line: one of the two ways, then the removal."""

import argparse
import sys

import manifests.uninstall

from manifests.uninstall.drain import drain
from manifests.uninstall.kubectl import UninstallError, say
from manifests.uninstall.removal import remove
from manifests.uninstall.retain import retain


def main() -> int:
    """Read the command line and take everything away; 1 where it could not be done."""
    parser = argparse.ArgumentParser(
        prog="python3 -m manifests.uninstall",
        description=manifests.uninstall.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ways = {"drain": drain, "retain": retain}
    parser.add_argument("way", choices=ways, help="what becomes of the backends")
    add = parser.add_argument
    add("--namespace", default="lbcf-system", help="of our processes and their Leases")
    add("--timeout", type=float, default=600, help="seconds for each kind to go")
    add("--abandon", metavar="WHY", help="after the timeout: let go without drivers")
    add("--objects-only", action="store_true", help="leave Deployments and CRDs there")
    flags = parser.parse_args()
    try:
        ways[flags.way](flags)
        if not flags.objects_only:
            remove(flags)
    except UninstallError as error:
        print(f"uninstall: {error}", file=sys.stderr)
        return 1
    say("done")
    return 0


sys.exit(main())
