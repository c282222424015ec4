"""Runs a driver that notes in a file what reaches it, as `calls` does for one in our process.

    python -m tests.lab.traced.recording FILE MODULE [FLAG...]

A call is a line of JSON when it arrives, and one more when it is answered: what was asked of
a driver that is killed is there, without an answer. Runs of a driver may share a file. Where
that is `-`, the lines are among those that the driver writes to its standard output.
"""

import json
import os
import runpy
import sys

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs

from aiohttp import web

from lbcf.sdk.server import Service
from tests.lab.traced.calls import Call, Calls


STDOUT = "-"
_MARK = "["


def recorded(path: Path) -> Iterator[Call]:
    """Read the calls that runs of a driver have noted in a file."""
    return noted(path.read_text().splitlines() if path.exists() else [])


def noted(lines: Iterable[str]) -> Iterator[Call]:
    """Read the calls that runs of a driver have noted; the last line of each counts.

    Args:
        lines: whole ones; those of the driver's own log may be among them.
    """
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for run, number, call in (json.loads(x) for x in lines if x.startswith(_MARK)):
        found[run, number] = call
    return (Call(**call) for call in found.values())


def record(path: str) -> None:
    """Have the services of this process note their calls in a file."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    file = sys.stdout.fileno() if path == STDOUT else os.open(path, flags, 0o644)
    serve = Service.application

    def tell(number: int, call: Call) -> None:
        line = json.dumps([os.getpid(), number, attrs.asdict(call)])
        os.write(file, f"{line}\n".encode())

    def application(service: Service) -> web.Application:
        served = serve(service)
        served.middlewares.append(Calls(tell).note)
        return served

    Service.application = application  # type: ignore[assignment,method-assign]


def main() -> None:
    """Run a driver's module as if it had been started itself."""
    _, path, module, *flags = sys.argv
    record(path)
    sys.argv = [module, *flags]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
