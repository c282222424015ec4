"""Starts the ELBv2 driver: `python -m webhooks.elbv2`."""

import argparse

from pathlib import Path

from lbcf import sdk
from webhooks.elbv2.balancer import LoadBalancers
from webhooks.elbv2.claims import IN_MEMORY, Claims
from webhooks.elbv2.credentials import ACCESS_KEY, SECRET_KEY, SESSION_TOKEN
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.elbv2.errors import InvalidInput
from webhooks.elbv2.load_balancers import AllowedGroups
from webhooks.elbv2.regions import Aws, Settings
from webhooks.shared import reach


DEFAULT_PORT = 9005


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the driver's own flags."""
    parser.add_argument(
        "--region",
        default="",
        metavar="NAME",
        help="of target groups that are named without one (default: as AWS' own "
        "configuration says); an ARN says its region itself",
    )
    parser.add_argument(
        "--endpoint-url",
        default="",
        metavar="URL",
        help="in place of AWS' own endpoints, such as an emulator's",
    )
    parser.add_argument(
        "--credentials-dir",
        type=Path,
        metavar="DIR",
        help=f"a mounted Secret with the files {ACCESS_KEY}, {SECRET_KEY} and, for "
        f"temporary ones, {SESSION_TOKEN}; read at each call (default: AWS' chain: "
        "environment, shared files, web identity, container, instance)",
    )
    parser.add_argument(
        "--claims-file",
        default=IN_MEMORY,
        metavar="PATH",
        help="where is written down which targets are this driver's, on a volume that "
        "outlives the process; in memory alone where unsaid",
    )
    parser.add_argument(
        "--allow-target-groups",
        action="append",
        metavar="GLOB[=NAMESPACE,...]",
        help="names or ARNs that load balancers may name; with = and namespaces for "
        "load balancers of these alone; may be repeated "
        f"(default: {' '.join(AllowedGroups().patterns)}, what the credentials allow)",
    )
    reach.add_flag(parser)


def make_driver(chosen: argparse.Namespace) -> Elbv2Driver:
    """Return the driver that the flags describe.

    Raises:
        InvalidInput: a flag that cannot be used.
    """
    folder: Path | None = chosen.credentials_dir
    if folder is not None and not folder.is_dir():
        raise InvalidInput(f"--credentials-dir {folder} is no folder")
    url: str = chosen.endpoint_url
    if url and not url.startswith(("http://", "https://")):
        raise InvalidInput(f"--endpoint-url {url!r:.120} is no http or https URL")
    try:
        claims = Claims(chosen.claims_file)
    except OSError as error:
        raise InvalidInput(f"--claims-file: {error}") from error
    settings = Settings(endpoint_url=url, region=chosen.region, credentials=folder)
    allowed = AllowedGroups(chosen.allow_target_groups or AllowedGroups().patterns)
    addresses = reach.read_flag(chosen)
    balancers = LoadBalancers(Aws(settings), claims, allowed, addresses=addresses)
    return Elbv2Driver(balancers)


if __name__ == "__main__":
    sdk.run(make_driver, default_port=DEFAULT_PORT, flags=add_flags)
