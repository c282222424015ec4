"""The command line: reads flags, builds a process, runs it.

A flag or a file that cannot be used ends it with one line on standard error and exit
status 2, before anything has been asked of the cluster.
"""

import argparse
import sys

from collections.abc import Coroutine, Sequence
from datetime import timedelta
from functools import partial

from lbcf import __version__
from lbcf.admission import flags as admission_flags
from lbcf.core.errors import LbcfError
from lbcf.kube.leader_election import LeadershipLostError
from lbcf.process import Build, Losses, StandBy, idle, run_process
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.flags import WRONG_USAGE, OneLineParser
from lbcf.runtime.health import CannotListen
from lbcf.runtime.shutdown import note_signals
from lbcf.settings import Settings, SettingsError, add_flags, read_settings


_DESCRIPTIONS = {
    "controller": "Decide which backends belong to which load balancer, and register them.",
    "admission": "Let drivers see LoadBalancers and BackendGroups before they are stored.",
    "deregistrar": "Drain and deregister backends whose BackendRecord is deleted.",
}
_ADMISSION = "admission"
_CONFORMANCE = "conformance"
_CTL = "ctl"
_DRIVER = "driver"
_NEW = "new"
_PROJECT = "Write the project of a driver; the same as `kubectl lbcf new driver/NAME`."
_PLUGIN = "Say what lbcf does, and why; the same as `kubectl lbcf`."
_TOKEN = "driver-token"  # noqa: S105 - the name of a command
_TOKENS = "Give the Secrets of a driver and of its callers one bearer token."
_KIT = "Find out over HTTP whether a driver keeps to the driver protocol."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    given = sys.argv[1:] if argv is None else list(argv)
    if given[:1] == [_CONFORMANCE]:
        return _examine(given[1:])
    if given[:1] == [_CTL]:
        return _explain(given[1:])
    if given[:1] == [_TOKEN]:
        return _fill_tokens(given[1:])
    if given[:1] == [_DRIVER]:
        return _write_driver(given[1:])
    parser = _parser()
    flags = parser.parse_args(given)
    try:
        settings = read_settings(flags.process, flags)
        return _run_again_and_again(settings, *_builder(settings, flags))
    except (LbcfError, CannotListen, ValueError) as error:
        print(f"lbcf {flags.process}: {error}", file=sys.stderr)  # noqa: T201
        return WRONG_USAGE
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = OneLineParser(
        prog="lbcf",
        description="Keeps load balancers and the backends of a Kubernetes cluster "
        "in step, without a failing request.",
    )
    parser.add_argument("--version", action="version", version=f"lbcf {__version__}")
    processes = parser.add_subparsers(dest="process", required=True, metavar="PROCESS")
    for name, description in _DESCRIPTIONS.items():
        one = processes.add_parser(name, help=description, description=description)
        add_flags(one, name)
        if name == _ADMISSION:
            admission_flags.add_flags(one)
    processes.add_parser(_CONFORMANCE, help=_KIT)
    processes.add_parser(_CTL, help=_PLUGIN)
    processes.add_parser(_TOKEN, help=_TOKENS)
    processes.add_parser(_DRIVER, help=f"`{_DRIVER} {_NEW} NAME`: {_PROJECT}")
    return parser


def _examine(argv: Sequence[str]) -> int:
    """Examine a driver; needs no cluster, hence none of what the processes are made of."""
    from lbcf.conformance import command  # noqa: PLC0415

    parser = OneLineParser(prog=f"lbcf {_CONFORMANCE}", description=_KIT)
    command.add_flags(parser)
    return command.run(parser.parse_args(argv))


def _explain(argv: Sequence[str]) -> int:
    from lbcf.ctl import command  # noqa: PLC0415

    return command.run(f"lbcf {_CTL}", argv)


def _fill_tokens(argv: Sequence[str]) -> int:
    from lbcf import driver_token  # noqa: PLC0415

    parser = OneLineParser(prog=f"lbcf {_TOKEN}", description=_TOKENS)
    driver_token.add_flags(parser)
    return driver_token.run(parser.parse_args(argv))


def _write_driver(argv: Sequence[str]) -> int:
    """Write a driver's project, by the words that come to mind first."""
    parser = OneLineParser(
        prog=f"lbcf {_DRIVER}",
        usage=f"lbcf {_DRIVER} {_NEW} NAME [flags of `lbcf {_CTL} {_NEW}`]",
        description=_PROJECT,
        epilog=f"Of a driver that is there tells `lbcf {_CTL} why driver/NAME`.",
    )
    parser.add_argument(_NEW, choices=(_NEW,))
    parser.parse_args(argv[:1])
    # Behind a kind without a name argparse sees no --help.
    named = [] if {"-h", "--help"} & set(argv) else [_DRIVER]
    return _explain([_NEW, *named, *argv[1:]])


def _run_again_and_again(settings: Settings, build: Build, stand_by: StandBy) -> int:
    """Run a process to its end; from nothing each time that it has lost its Lease."""
    losses, pause = Losses(SystemClock()), timedelta(0)
    with note_signals() as request:
        while True:
            try:
                return _run(run_process(settings, build, request, stand_by, pause))
            except LeadershipLostError:
                # Told in the log already. In a pod, exits that repeat are answered by
                # pauses of up to five minutes (CrashLoopBackOff).
                pause = losses.pause_after()


def _run(process: Coroutine[None, None, int]) -> int:
    """Run a process to its end, by uvloop.

    Measured beside asyncio's own loop: a storm of 2,000 pods costs it a tenth less CPU,
    and 100 TLS connections neither 25 MiB nor 0.4 s at the moment that they are needed.

    Raises:
        SettingsError: there is no uvloop for this system.
    """
    try:
        import uvloop  # noqa: PLC0415
    except ModuleNotFoundError as error:
        process.close()
        raise SettingsError(f"{error}: the processes run on Linux and macOS") from error
    return uvloop.run(process)


def _builder(settings: Settings, flags: argparse.Namespace) -> tuple[Build, StandBy]:
    """Return the program of a process; imported late, so that each loads only its own."""
    if settings.process == "controller":
        from lbcf.controller.app import Controller  # noqa: PLC0415

        return Controller, idle
    if settings.process == _ADMISSION:
        try:
            from lbcf.admission.app import Admission  # noqa: PLC0415
        except ModuleNotFoundError as error:
            lacking = f"{error}: lbcf is installed without its extra `admission`"
            raise SettingsError(f"{lacking} (docs/api.md#lbcf-admission)") from error

        return partial(Admission, webhook=admission_flags.read_flags(flags)), idle
    from lbcf.deregistrar.app import DeregistrarProgram, stand_by  # noqa: PLC0415

    return DeregistrarProgram, stand_by
