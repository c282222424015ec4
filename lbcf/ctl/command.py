"""`kubectl lbcf`: from words to an answer and an exit status.

Before it: the shell, or `lbcf.cli`. After it: `reading` asks the API server, the module
of the sub-command makes a report, `output` writes it.
"""

import argparse
import asyncio
import os
import sys

from collections.abc import Sequence
from datetime import timedelta

from lbcf.core.errors import LbcfError
from lbcf.ctl.answers import Question, answer
from lbcf.ctl.errors import CtlError
from lbcf.ctl.flags import parser_for
from lbcf.ctl.output import printer
from lbcf.kube.client import connected
from lbcf.kube.connection import connect
from lbcf.kube.errors import Unauthorized, Unavailable
from lbcf.runtime import logs
from lbcf.runtime.clock import SystemClock
from lbcf.wire.plain import plain


FAILED = 2
"""Exit status where nothing could be answered, as after wrong usage."""

_INTERRUPTED = 130
_CALL_LIMIT = timedelta(seconds=10)
_NAME = "kubectl-lbcf"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line as kubectl's plugin; returns the exit status."""
    given = sys.argv[1:] if argv is None else list(argv)
    return run("kubectl lbcf", given)


def run(program: str, argv: Sequence[str]) -> int:
    """Run the command line under a name; returns the exit status."""
    flags = parser_for(program).parse_args(argv)
    # What a store or an informer logs is told in the report.
    logs.configure("error", "console")
    try:
        status = asyncio.run(_answered(flags))
        # What is written at the interpreter's end fails where nobody can tell of it.
        sys.stdout.flush()
    except LbcfError as error:
        return _failed(program, _one_line(error))
    except BrokenPipeError:
        _write_no_more()
        return 0
    except OSError as error:
        _write_no_more()
        return _failed(program, f"the answer cannot be written: {error}")
    except KeyboardInterrupt:
        return _INTERRUPTED
    return status


def _failed(program: str, told: str) -> int:
    """Say in a line why there is no answer; returns the exit status."""
    print(f"{program}: {plain(told)}", file=sys.stderr)  # noqa: T201
    return FAILED


def _write_no_more() -> None:
    """Have the interpreter write nothing at its end: who reads has seen enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _one_line(error: LbcfError) -> str:
    """Say what went wrong so that the reader knows where to look."""
    text = " ".join(str(error).split())
    if isinstance(error, Unauthorized):
        return f"the API server does not believe who we are: {text}"
    if isinstance(error, Unavailable):
        return f"the API server cannot be asked: {text}"
    return text


async def _answered(flags: argparse.Namespace) -> int:
    """Connect, and answer."""
    if flags.namespace and flags.all_namespaces:
        raise CtlError("-n and -A were both given: which of them is meant?")
    write = printer(flags.output, watching=getattr(flags, "watch", False))
    connection = await connect(flags.kubeconfig, flags.context)
    namespace = flags.namespace or connection.namespace
    clock = SystemClock()
    async with connected(
        connection, clock, user_agent=_NAME, field_manager=_NAME, limit=_CALL_LIMIT
    ) as client:
        question = Question(
            client, clock, namespace, everywhere=flags.all_namespaces, flags=flags
        )
        return await answer(question, write)
