"""Says what a phase's CPU went into: samples of stacks, sorted by part of the program.

`python -m tests.lab.bench --profile FOLDER` leaves a file of samples for each phase and
program; `python -m tests.lab.bench.stacks FOLDER` prints the table of docs/performance.md.
A sample belongs to the innermost of its frames that lies in one of ours: what a library
does counts for whoever called it.
"""

import sys

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table


_PARTS: Final = (
    ("lbcf/drivers/", "driver calls"),
    ("lbcf/kube/informer.py", "watches, stores"),
    ("lbcf/kube/list_watch.py", "watches, stores"),
    ("lbcf/kube/store.py", "watches, stores"),
    ("lbcf/kube/store.py", "watches, stores"),
    ("lbcf/kube/leader_election", "leases"),
    ("lbcf/kube/events.py", "events"),
    ("lbcf/kube/", "API requests"),
    ("lbcf/wire/", "decoding, encoding"),
    ("lbcf/core/", "decisions"),
    ("lbcf/executor/", "turns"),
    ("lbcf/controller/", "turns"),
    ("lbcf/deregistrar/", "turns"),
    ("lbcf/runtime/logs.py", "logs"),
    ("lbcf/runtime/metrics.py", "metrics"),
    ("lbcf/process/", ""),
    ("lbcf/cli.py", ""),
    ("lbcf/__main__.py", ""),
    ("lbcf/", "queues, workers"),
    ("structlog/", "logs"),
    ("prometheus_client/", "metrics"),
)
_LOOP: Final = "event loop, sockets, TLS"
"""What no frame of ours is under: reading sockets, above all."""
_WAITING: Final = ".select ("


def part_of(stack: Sequence[str]) -> str:
    """Say which part of the program a stack belongs to; its frames from the outermost."""
    for frame in reversed(stack):
        for place, part in _PARTS:
            if place in frame:
                return part or _LOOP
    return _LOOP


def samples(lines: Iterable[str]) -> Iterator[tuple[list[str], int]]:
    """Read stacks and how often each was met, those that wait for something left out."""
    for line in lines:
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if _WAITING not in frames[-1]:
            yield frames, int(count)


def shares(path: Path) -> dict[str, float]:
    """Say which share of a program's CPU each part had, in percent, the largest first."""
    found: Counter[str] = Counter()
    for stack, count in samples(path.read_text().splitlines()):
        found[part_of(stack)] += count
    whole = max(found.total(), 1)
    return {part: 100 * count / whole for part, count in found.most_common()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of all files of a folder."""
    (folder,) = sys.argv[1:] if arguments is None else arguments
    table = Table("phase, program", "share of its CPU")
    for path in sorted(Path(folder).glob("*.txt"), key=lambda p: p.stat().st_mtime):
        listed = (f"{part} {share:.0f} %" for part, share in shares(path).items())
        table.add_row(path.stem, ", ".join(listed))
    Console(soft_wrap=True, width=150).print(table)


if __name__ == "__main__":
    main()
