"""The flags that drivers of appliances share, read into values.

A driver's `__main__` adds them to its own; wrong ones end the process with one line.
"""

import argparse

from datetime import timedelta
from pathlib import Path

import attrs

from webhooks.device.connection import Limits
from webhooks.device.devices import AllowedDevices, parse_device
from webhooks.device.errors import InvalidInput
from webhooks.device.saving import PERIOD
from webhooks.device.secrets import Secrets
from webhooks.device.trust import Trust, read_trust
from webhooks.shared import reach
from webhooks.shared.rules import parse_rule


@attrs.frozen
class Ground:
    """What the flags say.

    Attributes:
        allowed: which devices load balancers may name, and addresses members have.
        secrets: what the driver shows to them.
        tls: how they are verified.
        limits: of each answer.
        save_period: between two saves of one device.
    """

    allowed: AllowedDevices
    secrets: Secrets
    tls: Trust
    limits: Limits = attrs.field(factory=Limits)
    save_period: timedelta = PERIOD


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Describe the flags."""
    add = parser.add_argument
    add(
        "--allow-devices",
        action="append",
        required=True,
        metavar="GLOB[=NAMESPACE,...]",
        help="a device that load balancers may name, as https://HOST or "
        "https://HOST:PORT; * stands for what varies in an IP address; with = and "
        "namespaces for load balancers of these alone; may be repeated",
    )
    reach.add_flag(parser)
    add(
        "--credentials",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="a mounted Secret with the files username and password; a folder in it "
        "that is called like a device's host counts for that device",
    )
    add(
        "--device-ca-file",
        type=Path,
        metavar="FILE",
        help="authorities of devices, as PEM; read anew when it changes",
    )
    add(
        "--insecure",
        action="store_true",
        help="verify no certificate: whoever answers gets the password",
    )
    add(
        "--answer-timeout",
        type=float,
        default=Limits().patience.total_seconds(),
        metavar="SECONDS",
        help="how long a device may take to answer one request (default: %(default)g)",
    )
    add(
        "--save-period",
        type=float,
        default=PERIOD.total_seconds(),
        metavar="SECONDS",
        help="changes are written to a device's disk at most so often, and always "
        "after the last (default: %(default)g)",
    )


def read_flags(chosen: argparse.Namespace) -> Ground:
    """Return what the flags say.

    Raises:
        InvalidInput: one of them cannot be used.
    """
    for pattern in chosen.allow_devices:
        parse_device(_sample(parse_rule(pattern).pattern))
    if not chosen.credentials.is_dir():
        raise InvalidInput(f"--credentials {chosen.credentials} is not a folder")
    return Ground(
        allowed=AllowedDevices(tuple(chosen.allow_devices), reach.read_flag(chosen)),
        secrets=Secrets(chosen.credentials),
        tls=read_trust(chosen.device_ca_file, insecure=chosen.insecure),
        limits=Limits(
            patience=read_seconds("--answer-timeout", chosen.answer_timeout, 60)
        ),
        save_period=read_seconds("--save-period", chosen.save_period, 3600),
    )


def _sample(pattern: str) -> str:
    return pattern.replace("*", "1").replace("?", "1")


def read_seconds(flag: str, seconds: float, most: int) -> timedelta:
    """Return a time from 0.1 seconds to the most.

    Raises:
        InvalidInput: it is not in between.
    """
    if not 0.1 <= seconds <= most:  # noqa: PLR2004  (said in the message)
        raise InvalidInput(f"{flag} {seconds:g} is not 0.1 to {most} seconds")
    return timedelta(seconds=seconds)
