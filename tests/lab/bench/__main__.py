"""`python -m tests.lab.bench`: from the command line to figures.

Exit code 0 if everything could be measured, whatever the figures say; 1 if not.
"""

import asyncio
import shutil
import signal
import sys
import tempfile

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tests.lab.bench import memory, report
from tests.lab.bench.ground import prepared
from tests.lab.bench.nightly import measure_large
from tests.lab.bench.options import Options, parse
from tests.lab.bench.outcome import Outcome
from tests.lab.bench.storm import Storm
from tests.lab.bench.variants import Batched, Variants
from tests.lab.bench.verdict import Line, judge


VARIANT_SIZE = 300
BATCHES_SIZE = 2_000
"""Pods with batches and without, unless other sizes are asked for."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit code."""
    options = parse(arguments)
    # Asked to end, it stops the cluster all the same.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    folder = Path(tempfile.mkdtemp(prefix="lbcf-bench-"))
    console = Console(soft_wrap=True, width=150)
    try:
        outcomes, lines = asyncio.run(run(options, folder, console))
    finally:
        if options.keep:
            print(f"logs: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    report.show_verdict(console, lines)
    if options.json is not None:
        report.save(options.json, outcomes=outcomes, limits=lines)
    return 0


async def run(
    options: Options, folder: Path, console: Console
) -> tuple[list[Outcome], list[Line]]:
    """Measure all that was asked for, and print each scenario as it ends."""
    if options.profile is not None:
        options.profile.mkdir(parents=True, exist_ok=True)
    if options.nightly:
        return await measure_large(folder, options, console)
    outcomes: list[Outcome] = []
    lines: list[Line] = []
    if "memory" in options.scenarios:
        lines += memory.judge()
    for size in options.sizes if "storm" in options.scenarios else ():
        async with prepared(folder / str(size), options.profile) as ground:
            found = await Storm(ground, size).run(quick=options.quick)
        report.show(console, found, f"{size} pods")
        outcomes += found
    lines += judge(outcomes)
    for variant in ("slow", "failing"):
        if variant in options.scenarios:
            async with prepared(folder / variant, options.profile) as ground:
                found = await Variants(ground, VARIANT_SIZE).run(variant)
            report.show(console, found, f"{VARIANT_SIZE} pods, {variant} driver")
            outcomes += found
    if "batches" in options.scenarios:
        outcomes += await compare_batches(folder, options, console)
    return outcomes, lines


async def compare_batches(
    folder: Path, options: Options, console: Console
) -> list[Outcome]:
    """Measure the same with a driver that declares no batches, and with one that does."""
    size = BATCHES_SIZE if BATCHES_SIZE in options.sizes else options.sizes[-1]
    found: dict[bool, list[Outcome]] = {}
    for batched in (False, True):
        place = folder / f"batches-{batched}"
        async with prepared(place, options.profile) as ground:
            found[batched] = await Batched(ground, size).run(batched=batched)
        how = "in batches" if batched else "singly"
        report.show(console, found[batched], f"{size} pods, {how}")
    report.show_batches(console, found[False], found[True])
    return [*found[False], *found[True]]


if __name__ == "__main__":
    sys.exit(main())
