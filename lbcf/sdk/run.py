"""Runs a driver as a process: flags, logs, signals, and an orderly end.

Sits above `lbcf.sdk.server`; the last line of an author's module calls `run`.
"""

import argparse
import asyncio
import sys

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import structlog

from aiohttp import web

from lbcf.runtime import logs
from lbcf.runtime.address import BindAddress, parse_bind_address
from lbcf.runtime.flags import OneLineParser
from lbcf.runtime.shutdown import stop_on_signals
from lbcf.sdk.driver import Driver
from lbcf.sdk.server import Service


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
    """
    parser = _parser(driver, default_port)
    if flags is not None:
        flags(parser)
    chosen = parser.parse_args(argv)
    try:
        made = driver() if isinstance(driver, type) else driver(chosen)
    except ValueError as error:
        parser.error(str(error))
    logs.configure(chosen.log_level, chosen.log_format)
    try:
        asyncio.run(serve(made, chosen.bind_address, chosen.grace_period))
    except OSError as error:
        reason = f"cannot serve on {chosen.bind_address}: {error}"
        parser.exit(CANNOT_START, f"{parser.prog}: {reason}\n")


async def serve(driver: Driver, address: BindAddress, grace: timedelta) -> None:
    """Serve until a signal, then finish what has begun within the grace period.

    Raises:
        OSError: the address cannot be listened on, or the driver's `start` said so.
    """
    service = Service(driver)
    runner = web.AppRunner(
        service.application(), access_log=None, shutdown_timeout=_CLOSING
    )
    with stop_on_signals() as stopped:
        try:
            await runner.setup()
            site = web.TCPSite(runner, address.host, address.port)
            await site.start()
            _log.info("driver.serving", addresses=_listening(runner))
            await stopped.wait()
            await site.stop()
            await service.drain(grace)
        finally:
            await runner.cleanup()
    _log.info("driver.stopped")


def _listening(runner: web.AppRunner) -> list[str]:
    """Return the addresses in fact, the system's choice in place of port 0."""
    return [str(BindAddress(name[0], name[1])) for name in runner.addresses]


def _parser(driver: object, default_port: int) -> argparse.ArgumentParser:
    """Return the flags that every driver has."""
    summary = getattr(driver, "summary", None)
    parser = OneLineParser(prog=_program(), description=summary)
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
    return parser


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
