"""The flags that every driver has; `lbcf.sdk.run` reads them."""

import argparse
import sys

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from lbcf.runtime import logs
from lbcf.runtime.flags import BindAddress, OneLineParser, parse_bind_address
from lbcf.sdk.credentials import CredentialFiles, CredentialsUnusable


def driver_parser(driver: object, default_port: int) -> argparse.ArgumentParser:
    """Return the flags that every driver has."""
    summary = getattr(driver, "summary", None)
    parser = OneLineParser(prog=_program(), description=summary)
    _add_serving(parser, default_port)
    _add_security(parser)
    parser.add_argument(
        "--print-manifest",
        metavar="URL",
        help="print a LoadBalancerDriver for this driver at this URL, and end",
    )
    return parser


def check_exposed(chosen: argparse.Namespace, files: CredentialFiles) -> None:
    """Let a driver listen where only who may call it can reach it, or has to show it.

    Raises:
        CredentialsUnusable: anybody who reaches the address could call it.
    """
    known = files.tokens is not None or files.clients is not None
    if known or chosen.bind_address.is_loopback or chosen.insecure_no_credentials:
        return
    loopback = BindAddress("127.0.0.1", chosen.bind_address.port)
    raise CredentialsUnusable(
        f"--bind-address {chosen.bind_address} is reached from other machines, and "
        "whoever calls a driver can take all backends out of its load balancers: say "
        "--token-file (or --client-ca-file) to know callers, or --bind-address "
        f"{loopback}; --insecure-no-credentials serves everybody all the same"
    )


def credential_files(chosen: argparse.Namespace) -> CredentialFiles:
    """Return the files that the flags name.

    Raises:
        CredentialsUnusable: a flag needs another one.
    """
    files = CredentialFiles(
        certificate=chosen.tls_cert_file,
        key=chosen.tls_key_file,
        clients=chosen.client_ca_file,
        tokens=chosen.token_file,
    )
    files.check()
    return files


def _add_security(parser: argparse.ArgumentParser) -> None:
    """Describe who is served, and how; the files are read again when they change."""
    for flag, text in (
        ("--tls-cert-file", "serve https with this PEM certificate and its chain"),
        ("--tls-key-file", "its key (default: in the same file)"),
        ("--client-ca-file", "serve only callers with certificates of these (PEM)"),
        (
            "--token-file",
            "serve only callers with one of these bearer tokens, a line each",
        ),
        ("--ca-file", "who signed the certificate, for --print-manifest (PEM)"),
    ):
        parser.add_argument(flag, type=Path, metavar="FILE", help=text)
    parser.add_argument(
        "--insecure-no-credentials",
        action="store_true",
        help="serve everybody who reaches --bind-address, beyond loopback as well, "
        "without a token or a client certificate",
    )


def _add_serving(parser: argparse.ArgumentParser, default_port: int) -> None:
    """Describe where it is served, and what it logs."""
    parser.add_argument(
        "--bind-address",
        type=_told(_address),
        default=BindAddress(None, default_port),
        metavar="HOST:PORT",
        help="where to listen; :PORT is every interface (default: %(default)s)",
    )
    parser.add_argument(
        "--log-level",
        type=_told(_level),
        default="info",
        help=f"one of {', '.join(logs.LEVELS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--log-format",
        type=_told(logs.parse_format),
        default="json",
        help="json or console (default: %(default)s)",
    )
    parser.add_argument(
        "--grace-period",
        type=_told(_period),
        default=timedelta(seconds=20),
        metavar="SECONDS",
        help="for operations under way after SIGTERM (default: 20)",
    )


def _program() -> str:
    """Return the name of the module that was started."""
    path = Path(sys.argv[0])
    return path.parent.name if path.stem == "__main__" else path.stem


def _told(parse: Callable[[str], object]) -> Callable[[str], object]:
    """Return the same parser; argparse shows the text of this error alone."""

    def parse_or_tell(text: str) -> object:
        """Parse, and say what was wrong."""
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse_or_tell


def _address(text: str) -> BindAddress:
    """Read an address; a driver that does not listen is none."""
    address = parse_bind_address(text)
    if address is None:
        raise ValueError("a driver must listen somewhere: write HOST:PORT")
    return address


def _level(text: str) -> str:
    """Check the name of a log level."""
    logs.parse_level(text)
    return text


def _period(text: str) -> timedelta:
    """Read seconds, from 0 to a day."""
    try:
        seconds = float(text)
        if 0 <= seconds <= timedelta(days=1).total_seconds():
            return timedelta(seconds=seconds)
    except ValueError:
        pass  # told below, with what was expected
    raise ValueError(f"{text!r} is not a number of seconds from 0 to 86400")
