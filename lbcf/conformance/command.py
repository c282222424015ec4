"""`lbcf conformance URL`: runs the kit, prints what it finds, writes the reports.

Exit status 0: no rule failed; 1: one did, or load did; 2: a flag cannot be used, or
nobody answers at the URL.
"""

import argparse
import asyncio
import sys

from collections.abc import Sequence
from pathlib import Path

from lbcf.conformance.flags import WrongFlag, add_flags, read_target
from lbcf.conformance.kit import CATALOGUE, Result, Unreachable, examine, identity
from lbcf.conformance.load import Step, borne, put_under_load
from lbcf.conformance.report import as_json, as_junit, failed, lines_of, summary
from lbcf.conformance.rules import Rule
from lbcf.conformance.target import Target
from lbcf.runtime.clock import Clock, SystemClock
from lbcf.runtime.flags import WRONG_USAGE


__all__ = ["FAILED", "add_flags", "run"]

FAILED = 1
"""Exit status when the driver does not keep to the protocol."""


def run(chosen: argparse.Namespace) -> int:
    """Do what the flags say; return the exit status."""
    try:
        target = read_target(chosen)
        rules = chosen_rules(chosen.rule)
        clock = SystemClock()
        results = asyncio.run(examine(target, clock, rules, _tell))
        _say(summary(results))
        if chosen.json:
            Path(chosen.json).write_bytes(as_json(target, results))
        if chosen.junit:
            Path(chosen.junit).write_bytes(as_junit(results))
        fine = asyncio.run(_borne(target, chosen.load, clock)) if chosen.load else True
    except (WrongFlag, Unreachable, OSError) as error:
        print(f"lbcf conformance: {error}", file=sys.stderr)  # noqa: T201
        return WRONG_USAGE
    except KeyboardInterrupt:
        return 130
    return 0 if fine and not failed(results) else FAILED


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


async def _borne(target: Target, lifecycles: int, clock: Clock) -> bool:
    """Run the load; tell whether nothing failed."""
    lb_info = await identity(target, clock)
    steps = await put_under_load(target, clock, lb_info, lifecycles, _tell_step)
    _say(f"load  seed {target.seed}: bore {borne(steps)} lifecycles at a time")
    return not any(step.failures for step in steps)


def _tell(result: Result) -> None:
    """Print one rule's end."""
    _say("\n".join(lines_of(result)))


def _tell_step(step: Step) -> None:
    """Print one step of the load."""
    _say("\n".join(step.lines()))


def _say(text: str) -> None:
    """Print for people, at once."""
    print(text, flush=True)  # noqa: T201
