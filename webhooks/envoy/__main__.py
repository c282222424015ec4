"""Starts the Envoy driver: `python -m webhooks.envoy`."""

import argparse

from datetime import timedelta
from pathlib import Path

from lbcf import sdk
from lbcf.runtime.flags import BindAddress, parse_bind_address
from webhooks.envoy.driver import ANY_LISTENER, EnvoyDriver
from webhooks.envoy.errors import InvalidInput
from webhooks.envoy.keeper import Keeper
from webhooks.envoy.management import Files
from webhooks.envoy.store import Store
from webhooks.shared import reach


DEFAULT_PORT = 9006
XDS_PORT = 18000
_TLS = ("--xds-cert-file", "--xds-key-file", "--xds-client-ca-file")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the driver's own flags."""
    parser.add_argument(
        "--state-directory",
        type=Path,
        default=Path("/var/lib/lbcf-envoy"),
        metavar="DIRECTORY",
        help="where load balancers and members are kept; it must outlive the process, "
        "and one process at a time works with it (default: %(default)s)",
    )
    parser.add_argument(
        "--xds-address",
        default=f"127.0.0.1:{XDS_PORT}",
        metavar="HOST:PORT",
        help="where Envoys connect to; :PORT is every interface (default: %(default)s)",
    )
    for flag, text in zip(
        _TLS,
        (
            "serve Envoys with TLS, with this PEM certificate and its chain",
            "its key",
            "serve only Envoys with certificates of these (PEM)",
        ),
        strict=True,
    ):
        parser.add_argument(flag, type=Path, metavar="FILE", help=text)
    parser.add_argument(
        "--xds-insecure",
        action="store_true",
        help="serve any Envoy that reaches --xds-address, beyond loopback as well",
    )
    parser.add_argument(
        "--allow-listeners",
        action="append",
        metavar="GLOB[=NAMESPACE,...]",
        help="FLEET/IP:PORT that load balancers may listen on, for TCP and UDP, with * for "
        "what varies; with = and namespaces for load balancers of these alone; may be repeated "
        f"(default: {' '.join(ANY_LISTENER)})",
    )
    parser.add_argument(
        "--forget-envoys-after",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="when an Envoy that is not connected any more is taken for gone; until then "
        "it may be serving, and is waited for (default: %(default)s)",
    )
    reach.add_flag(parser)


def make_driver(chosen: argparse.Namespace) -> EnvoyDriver:
    """Return the driver that the flags describe.

    Raises:
        InvalidInput: a flag that cannot be used.
    """
    seconds: float = chosen.forget_envoys_after
    if not 1 <= seconds <= 86400:  # noqa: PLR2004  (said in the message)
        raise InvalidInput(
            f"--forget-envoys-after {seconds:g} is not 1 to 86400 seconds"
        )
    keeper = Keeper(
        Store(chosen.state_directory),
        _xds_address(chosen.xds_address),
        _files(chosen),
        timedelta(seconds=seconds),
    )
    return EnvoyDriver(
        keeper, chosen.allow_listeners or ANY_LISTENER, reach.read_flag(chosen)
    )


def _xds_address(text: str) -> BindAddress:
    """Read where Envoys connect to.

    Raises:
        InvalidInput: nowhere.
    """
    try:
        address = parse_bind_address(text)
    except ValueError as error:
        raise InvalidInput(f"--xds-address {text!r:.80}: {error}") from error
    if address is None:
        raise InvalidInput(
            "--xds-address: Envoys must connect somewhere: write HOST:PORT"
        )
    return address


def _files(chosen: argparse.Namespace) -> Files | None:
    """Return the files for TLS; None: there is to be none.

    Raises:
        InvalidInput: some are missing, or all and others could connect.
    """
    paths = [chosen.xds_cert_file, chosen.xds_key_file, chosen.xds_client_ca_file]
    if all(paths):
        return Files(*paths)
    if any(paths):
        raise InvalidInput(f"{', '.join(_TLS)} belong together: say all three")
    if not _xds_address(chosen.xds_address).is_loopback and not chosen.xds_insecure:
        raise InvalidInput(
            f"--xds-address {chosen.xds_address} is reached from other machines, and who "
            f"connects learns of all members: say {', '.join(_TLS)}, or --xds-insecure to "
            "serve anybody"
        )
    return None


if __name__ == "__main__":
    sdk.run(make_driver, default_port=DEFAULT_PORT, flags=add_flags)
