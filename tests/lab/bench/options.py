"""The benchmark's command line: how many pods, which scenarios, where to write."""

import argparse

from collections.abc import Sequence
from pathlib import Path

import attrs


DESCRIPTION = """\
Pods as API objects on a real control plane without nodes, a driver in memory, our two
processes: registration, idling, single deletions, a rolling replacement, a start with
everything there, a mass deletion, a restart in the middle; registration and mass deletion
with a driver that takes batches and with one that does not; and the same writes by a bare
client loop, so that every time is a ratio to the least that it can be."""

SCENARIOS = ("storm", "slow", "failing", "batches", "memory")


@attrs.frozen
class Options:
    """What was asked for.

    Attributes:
        sizes: numbers of pods, one storm each.
        scenarios: which of `SCENARIOS`.
        quick: registration and deregistration alone.
        nightly: measure at 50,000 records instead.
        large: records of the nightly run.
        json: where to write all figures, None for nowhere.
        profile: folder for profiles of our processes, None for no profiling.
        keep: keep the folder with logs and audit log.
    """

    sizes: tuple[int, ...] = (200, 2_000, 10_000)
    scenarios: tuple[str, ...] = SCENARIOS
    quick: bool = False
    nightly: bool = False
    large: int = 50_000
    json: Path | None = None
    profile: Path | None = None
    keep: bool = False


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line; ends the program with a line that says what is wrong."""
    parser = argparse.ArgumentParser(
        "python -m tests.lab.bench", description=DESCRIPTION
    )
    add = parser.add_argument
    default = Options()
    add(
        "--sizes",
        default=",".join(map(str, default.sizes)),
        help="numbers of pods, one run each (default: %(default)s)",
    )
    add(
        "--only",
        action="append",
        choices=SCENARIOS,
        help="a scenario; may be repeated (default: all)",
    )
    add("--quick", action="store_true", help="the two storms alone")
    add("--nightly", action="store_true", help="cost per change among 50,000 records")
    add("--large", type=int, default=default.large, help="records of the nightly run")
    add("--json", type=Path, help="write all figures to this file")
    add("--profile", type=Path, help="folder for samples of our processes' stacks")
    add("--keep", action="store_true", help="keep logs and audit log")
    found = parser.parse_args(arguments)
    try:
        sizes = tuple(int(size) for size in found.sizes.split(","))
    except ValueError:
        parser.error("--sizes must be numbers with commas between them")
    if not all(10 <= size <= 20_000 for size in sizes):
        parser.error("--sizes must be from 10 to 20000")
    if not 1_000 <= found.large <= 100_000:
        parser.error("--large must be from 1000 to 100000")
    return Options(
        sizes=sizes,
        scenarios=tuple(found.only or SCENARIOS),
        quick=found.quick,
        nightly=found.nightly,
        large=found.large,
        json=found.json,
        profile=found.profile,
        keep=found.keep,
    )
