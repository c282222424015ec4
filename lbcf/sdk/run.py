"""Runs a driver as a process: flags, logs, signals, and an orderly end.

The last line of an author's module calls `run`.
"""

import argparse
import asyncio
import inspect
import sys

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import structlog

from aiohttp import web

from lbcf.runtime import logs, open_files
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.flags import BindAddress, OneLineParser, parse_bind_address
from lbcf.runtime.idle import IDLE
from lbcf.runtime.shutdown import note_signals, stop_on_signals
from lbcf.runtime.tasks import end_tasks
from lbcf.sdk.credentials import CredentialFiles, CredentialsUnusable, Guard
from lbcf.sdk.driver import Driver
from lbcf.sdk.listener import Listener
from lbcf.sdk.manifest import Shown, as_yaml, manifest
from lbcf.sdk.server import Service


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
    """Refuse to listen beyond loopback without credentials of callers.

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
        type=_argument(_address),
        default=BindAddress(None, default_port),
        metavar="HOST:PORT",
        help="where to listen; :PORT is every interface (default: %(default)s)",
    )
    parser.add_argument(
        "--log-level",
        type=_argument(_level),
        default="info",
        help=f"one of {', '.join(logs.LEVELS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--log-format",
        type=_argument(logs.parse_format),
        default="json",
        help="json or console (default: %(default)s)",
    )
    parser.add_argument(
        "--grace-period",
        type=_argument(_period),
        default=timedelta(seconds=20),
        metavar="SECONDS",
        help="for operations under way after SIGTERM (default: 20)",
    )


def _program() -> str:
    path = Path(sys.argv[0])
    return path.parent.name if path.stem == "__main__" else path.stem


def _argument(parse: Callable[[str], object]) -> Callable[[str], object]:
    # Of a ValueError argparse does not show the text.

    def parse_or_tell(text: str) -> object:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse_or_tell


def _address(text: str) -> BindAddress:
    address = parse_bind_address(text)
    if address is None:
        raise ValueError("a driver must listen somewhere: write HOST:PORT")
    return address


def _level(text: str) -> str:
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


CANNOT_START = 1
"""Exit status when the address is taken or the driver's `start` failed."""

_CLOSING = 2.0
"""Seconds for writing the last answers, once their operations have ended."""

_log = structlog.get_logger(__name__)


def run(
    driver: type[Driver] | Callable[[argparse.Namespace], Driver],
    *,
    default_port: int,
    flags: Callable[[argparse.ArgumentParser], None] | None = None,
    argv: Sequence[str] | None = None,
) -> None:
    """Serve a driver until SIGTERM or SIGINT; a second one ends it at once.

    Args:
        driver: a driver class without arguments, or what makes a driver of the flags;
            a ValueError of it is shown as a wrong flag.
        default_port: where to listen if `--bind-address` does not say.
        flags: adds the driver's own flags.
        argv: the arguments; those of the process where None.

    Raises:
        SystemExit: a wrong flag, an address in use, a driver that cannot start.
        TypeError: `driver` is none of the two; the text says what to write.
    """
    _check_maker(driver)
    parser = driver_parser(driver, default_port)
    if flags is not None:
        flags(parser)
    chosen = parser.parse_args(argv)
    try:
        files = credential_files(chosen)
        made = driver() if isinstance(driver, type) else driver(chosen)
        _check_made(made)
        if chosen.print_manifest is not None:
            shown = Shown(parser.prog, chosen.print_manifest, files, chosen.ca_file)
            print(as_yaml(manifest(made, shown)), end="")  # noqa: T201
            return
        check_exposed(chosen, files)
    except ValueError as error:
        parser.error(str(error))
    open_files.raise_limit()
    logs.configure(chosen.log_level, chosen.log_format)
    try:
        asyncio.run(serve(made, chosen.bind_address, chosen.grace_period, files))
    except CredentialsUnusable as error:
        parser.error(str(error))
    except OSError as error:
        reason = f"cannot serve on {chosen.bind_address}: {error}"
        parser.exit(CANNOT_START, f"{parser.prog}: {reason}\n")


def _check_maker(driver: object) -> None:
    """Refuse what cannot be called as `run` calls it."""
    name = getattr(driver, "__name__", type(driver).__name__)
    if isinstance(driver, Driver):
        raise TypeError(f"run takes the class: write run({name}, ...), not {name}()")
    if not callable(driver):
        raise TypeError(f"run takes a driver class, not {driver!r:.80}")
    is_class = isinstance(driver, type)
    try:
        inspect.signature(driver).bind(*(() if is_class else ("flags",)))
    except TypeError as error:
        wanted = (
            f"a class is made without arguments: write run(lambda flags: {name}(...), ...)"
            if is_class
            else "it is called with the flags alone: write `def make(flags)`"
        )
        raise TypeError(f"run cannot call {name}: {error}; {wanted}") from None


def _check_made(made: object) -> None:
    if not isinstance(made, Driver):
        raise TypeError(
            f"run was given a maker of {made!r:.80}, which is no sdk.Driver"
        )


async def serve(
    driver: Driver,
    address: BindAddress,
    grace: timedelta,
    files: CredentialFiles | None = None,
) -> None:
    """Serve until a signal, then finish what has begun within the grace period.

    For who reads flags and sets up logs otherwise than `run` does.

    Args:
        driver: serves the calls.
        address: where to listen.
        grace: how long calls under way may take after the signal; then they are cut.
        files: with what TLS and callers are known; None: plain HTTP for everybody.

    Raises:
        OSError: the address cannot be listened on, or the driver's `start` said so.
        CredentialsUnusable: the files cannot be used.
    """
    clock, guard = SystemClock(), Guard()
    service = Service(driver, clock, guard)
    runner = runner_of(service)
    with note_signals() as request, stop_on_signals(request) as stopped:
        try:
            await runner.setup()
            assert runner.server is not None  # noqa: S101 - setup has made it
            listener = Listener(runner.server, guard, files or CredentialFiles(), clock)
            await listener.open(address)
            _log.info("driver.serving", addresses=listener.addresses)
            await _follow_until(stopped, listener)
            listener.close()
            await service.drain(grace)
        finally:
            await runner.cleanup()
    _log.info("driver.stopped")


def runner_of(service: Service, idle: timedelta = IDLE) -> web.AppRunner:
    """Return what serves a driver.

    Args:
        service: of the driver.
        idle: how long a connection may ask nothing: nobody has shown a token by then.
    """
    return web.AppRunner(
        service.application(),
        access_log=None,
        keepalive_timeout=idle.total_seconds(),
        shutdown_timeout=_CLOSING,
    )


async def _follow_until(stopped: asyncio.Event, listener: Listener) -> None:
    """Keep the credentials fresh until the event is set."""
    following = asyncio.create_task(listener.follow())
    try:
        await stopped.wait()
    finally:
        await end_tasks([following])
