"""`lbcf conformance URL`: runs the kit, prints what it finds, writes the reports.

Exit status 0: no rule failed; 1: one did, or load did; 2: a flag cannot be used, or
nobody answers at the URL.
"""

import argparse
import asyncio
import os
import shutil
import sys

from collections.abc import Sequence
from pathlib import Path

from lbcf.conformance.bench import Rule
from lbcf.conformance.flags import WrongFlag, add_flags, read_target
from lbcf.conformance.kit import (
    CATALOGUE,
    Result,
    Unreachable,
    examine,
    load_balancer_identity,
)
from lbcf.conformance.load import Step, highest_concurrency, run_load
from lbcf.conformance.report import (
    as_json,
    as_junit,
    failed,
    for_terminal,
    lines_of,
    summary,
)
from lbcf.conformance.target import Target
from lbcf.runtime.clock import Clock, SystemClock
from lbcf.runtime.flags import WRONG_USAGE


__all__ = ["FAILED", "add_flags", "run"]

FAILED = 1
"""Exit status when the driver does not keep to the protocol."""


def run(chosen: argparse.Namespace) -> int:
    """Examine the driver as the flags say; return the exit status."""
    try:
        target = read_target(chosen)
        rules = chosen_rules(chosen.rule)
        clock = SystemClock()
        results = asyncio.run(examine(target, clock, rules, _say_result))
        _say(summary(results))
        if chosen.json:
            Path(chosen.json).write_bytes(as_json(target, results))
        if chosen.junit:
            Path(chosen.junit).write_bytes(as_junit(results))
        is_loadable = not chosen.load or asyncio.run(
            _load_succeeds(target, chosen.load, clock)
        )
    except BrokenPipeError:
        # Whoever reads has seen enough. The interpreter flushes at its end, and would
        # complain of the pipe once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (WrongFlag, Unreachable, OSError) as error:
        print(f"lbcf conformance: {error}", file=sys.stderr)  # noqa: T201
        return WRONG_USAGE
    except KeyboardInterrupt:
        return 130
    return 0 if is_loadable and not failed(results) else FAILED


def chosen_rules(names: Sequence[str]) -> Sequence[Rule]:
    """Return the rules of these ids; all of them where there are none.

    Raises:
        WrongFlag: there is no such rule.
    """
    known = {rule.name: rule for rule in CATALOGUE}
    for name in names:
        if name not in known:
            raise WrongFlag(f"--rule {name!r:.60}: write one of {', '.join(known)}")
    return [rule for rule in CATALOGUE if not names or rule.name in names]


async def _load_succeeds(target: Target, lifecycles: int, clock: Clock) -> bool:
    lb_info = await load_balancer_identity(target, clock)
    steps = await run_load(target, clock, lb_info, lifecycles, _say_step)
    most = highest_concurrency(steps)
    _say(f"load  seed {target.seed}: bore {most} lifecycles at a time")
    return not any(step.failures for step in steps)


def _say_result(result: Result) -> None:
    lines = lines_of(result)
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        coloured = not os.environ.get("NO_COLOR")
        lines = for_terminal(result, width, coloured=coloured)
    _say("\n".join(lines))


def _say_step(step: Step) -> None:
    _say("\n".join(step.lines()))


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201
