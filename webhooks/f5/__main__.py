"""Starts the F5 driver: `python -m webhooks.f5`."""

import argparse

from lbcf import sdk
from webhooks.device import flags
from webhooks.f5.driver import F5Driver
from webhooks.f5.load_balancers import LoadBalancers
from webhooks.f5.names import DEFAULT_MARK, Mark
from webhooks.f5.units import Units, connect


DEFAULT_PORT = 9003


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the driver's own flags."""
    flags.add_flags(parser)
    parser.add_argument(
        "--mark",
        default=DEFAULT_MARK,
        metavar="TEXT",
        help="descriptions of its objects begin with TEXT and `:`, and all others are "
        "left alone; never change it while there are any (default: %(default)s)",
    )


def make_driver(chosen: argparse.Namespace) -> F5Driver:
    """Return the driver that the flags describe.

    Raises:
        InvalidInput: a flag that cannot be used.
    """
    clock = sdk.SystemClock()
    ground = flags.read_flags(chosen)
    units = Units(lambda device: connect(device, ground, clock))
    found = LoadBalancers(ground.allowed, units, clock, Mark(chosen.mark))
    return F5Driver(found, clock)


if __name__ == "__main__":
    sdk.run(make_driver, default_port=DEFAULT_PORT, flags=add_flags)
