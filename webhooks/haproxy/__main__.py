"""Starts the HAProxy driver: `python -m webhooks.haproxy`."""

import argparse

from datetime import timedelta

from lbcf import sdk
from webhooks.haproxy.connection import Limits
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.endpoints import AllowedEndpoints
from webhooks.haproxy.errors import InvalidInput
from webhooks.haproxy.load_balancers import LoadBalancers
from webhooks.haproxy.members import DEFAULT_PREFIX
from webhooks.haproxy.slot_driver import SlotDriver
from webhooks.shared import reach


DEFAULT_PORT = 9002


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the driver's own flags."""
    parser.add_argument(
        "--name-prefix",
        default=DEFAULT_PREFIX,
        metavar="TEXT",
        help="its servers are called TEXT-<record id>, its slots TEXT.<number>, and "
        "all others are left alone; never change it while there are any (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--slots",
        action="store_true",
        help="give members the servers that a `server-template TEXT.` has made, in "
        "place of adding servers, which backends with a static algorithm refuse",
    )
    parser.add_argument(
        "--allow-sockets",
        action="append",
        metavar="GLOB[=NAMESPACE,...]",
        help="a runtime API that load balancers may name: a path, or IP:port, with * "
        "for what varies within one part of it, or a host name and port in full; with "
        "= and namespaces for load balancers of these alone; may "
        f"be repeated (default: {' '.join(AllowedEndpoints().patterns)})",
    )
    parser.add_argument(
        "--restore",
        action="store_true",
        help="put members back by itself, at once, after a reload or a restart of "
        "HAProxy; only where no other process of this driver works with the same HAProxys",
    )
    reach.add_flag(parser)
    parser.add_argument(
        "--command-timeout",
        type=float,
        default=Limits().patience.total_seconds(),
        metavar="SECONDS",
        help="how long HAProxy may take to answer one command (default: %(default)s)",
    )


def make_driver(chosen: argparse.Namespace) -> HaproxyDriver:
    """Return the driver that the flags describe.

    Raises:
        InvalidInput: a flag that cannot be used.
    """
    seconds: float = chosen.command_timeout
    if not 0.1 <= seconds <= 60:  # noqa: PLR2004  (said in the message)
        raise InvalidInput(f"--command-timeout {seconds:g} is not 0.1 to 60 seconds")
    allowed = AllowedEndpoints(chosen.allow_sockets or AllowedEndpoints().patterns)
    limits = Limits(patience=timedelta(seconds=seconds))
    kind = SlotDriver if chosen.slots else HaproxyDriver
    balancers = LoadBalancers(
        allowed, limits, chosen.restore, addresses=reach.read_flag(chosen)
    )
    return kind(balancers, chosen.name_prefix)


if __name__ == "__main__":
    sdk.run(make_driver, default_port=DEFAULT_PORT, flags=add_flags)
