"""Runs a driver as a process: flags, logs, signals, and an orderly end.

Sits above `lbcf.sdk.server`; the last line of an author's module calls `run`.
"""

import argparse
import asyncio

from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog

from aiohttp import web

from lbcf.runtime import logs
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.flags import BindAddress
from lbcf.runtime.shutdown import stop_on_signals
from lbcf.sdk.credentials import CredentialFiles, CredentialsUnusable
from lbcf.sdk.driver import Driver
from lbcf.sdk.flags import check_exposed, credential_files, driver_parser
from lbcf.sdk.guard import Guard
from lbcf.sdk.listening import Listener
from lbcf.sdk.manifest import Shown, as_yaml, manifest
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
    parser = driver_parser(driver, default_port)
    if flags is not None:
        flags(parser)
    chosen = parser.parse_args(argv)
    try:
        files = credential_files(chosen)
        made = driver() if isinstance(driver, type) else driver(chosen)
        if chosen.print_manifest is not None:
            shown = Shown(parser.prog, chosen.print_manifest, files, chosen.ca_file)
            print(as_yaml(manifest(made, shown)), end="")  # noqa: T201
            return
        check_exposed(chosen, files)
    except ValueError as error:
        parser.error(str(error))
    logs.configure(chosen.log_level, chosen.log_format)
    try:
        asyncio.run(serve(made, chosen.bind_address, chosen.grace_period, files))
    except CredentialsUnusable as error:
        parser.error(str(error))
    except OSError as error:
        reason = f"cannot serve on {chosen.bind_address}: {error}"
        parser.exit(CANNOT_START, f"{parser.prog}: {reason}\n")


async def serve(
    driver: Driver,
    address: BindAddress,
    grace: timedelta,
    files: CredentialFiles | None = None,
) -> None:
    """Serve until a signal, then finish what has begun within the grace period.

    Raises:
        OSError: the address cannot be listened on, or the driver's `start` said so.
        CredentialsUnusable: the files cannot be used.
    """
    clock, guard = SystemClock(), Guard()
    service = Service(driver, clock, guard)
    runner = web.AppRunner(
        service.application(), access_log=None, shutdown_timeout=_CLOSING
    )
    with stop_on_signals() as stopped:
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


async def _follow_until(stopped: asyncio.Event, listener: Listener) -> None:
    """Keep the credentials fresh until the event is set."""
    following = asyncio.create_task(listener.follow())
    try:
        await stopped.wait()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
