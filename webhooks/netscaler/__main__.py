"""Starts the Citrix ADC driver: `python -m webhooks.netscaler`."""

import argparse

from lbcf import sdk
from webhooks.device import flags
from webhooks.netscaler.driver import NetscalerDriver
from webhooks.netscaler.members import DEFAULT_PREFIX


DEFAULT_PORT = 9004


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the driver's own flags."""
    flags.add_flags(parser)
    parser.add_argument(
        "--name-prefix",
        default=DEFAULT_PREFIX,
        metavar="TEXT",
        help="its members have TEXT-<record id> as customserverid, and all others are "
        "left alone; never change it while there are any (default: %(default)s)",
    )


def make_driver(chosen: argparse.Namespace) -> NetscalerDriver:
    """Return the driver that the flags describe.

    Raises:
        InvalidInput: a flag that cannot be used.
    """
    return NetscalerDriver(flags.read_flags(chosen), chosen.name_prefix)


if __name__ == "__main__":
    sdk.run(make_driver, default_port=DEFAULT_PORT, flags=add_flags)
