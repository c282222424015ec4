"""`python3 -m lbcf.ctl.uninstall`: without any library, from the repository."""

import argparse
import sys

from lbcf.ctl.uninstall import __doc__ as doc
from lbcf.ctl.uninstall.run import NAMESPACE, WAYS, WHAT_WAYS_DO, add_flags, run


def main() -> int:
    """Read the command line and take everything away; 1 where it could not be done."""
    parser = argparse.ArgumentParser(
        prog="python3 -m lbcf.ctl.uninstall",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("way", choices=WAYS, help=WHAT_WAYS_DO)
    parser.add_argument(
        "--namespace", default=NAMESPACE, help="of our processes and their Leases"
    )
    add_flags(parser)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
