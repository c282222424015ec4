"""`python -m tests.lab.nodes`: the whole script, and a verdict."""

import argparse
import asyncio
import sys
import tempfile

from functools import partial
from pathlib import Path

from tests.lab.cluster.fixtures import QUICK_FAILURES, running
from tests.lab.demo.errors import DemoError
from tests.lab.nodes import page
from tests.lab.nodes.bench import Bench, put_up
from tests.lab.nodes.events import Damage
from tests.lab.nodes.race import race
from tests.lab.nodes.script import SAMPLE, WHOLE, Act, play


SHOWN = 10


async def run(
    acts: tuple[Act, ...], folder: Path, *, naive: bool = False
) -> tuple[Bench, list[Damage]]:
    """Run a script on a new cluster.

    Raises:
        DemoError: it cannot be run to its end.
    """
    with running(3, QUICK_FAILURES) as cluster:
        async with put_up(cluster, folder, naive=naive) as (bench, traffic):
            await play(bench, acts)
        return bench, bench.damage(traffic)


def main() -> int:
    """Read the command line, run, and judge; 0 where all is as it should be."""
    parser = argparse.ArgumentParser(prog="tests.lab.nodes", description=__doc__)
    add = parser.add_argument
    add("--naive", action="store_true", help="with a controller as it should not be")
    add("--short", action="store_true", help="a sample of the script")
    add("--race", type=int, default=0, help="so many switches to Local, unannounced")
    add("--page", type=Path, help="put the table into this page")
    flags = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lbcf-nodes-", dir="/tmp"))
    acts = SAMPLE if flags.short else WHOLE
    if flags.race:
        acts = (partial(race, times=flags.race),)
    try:
        bench, damage = asyncio.run(run(acts, folder, naive=flags.naive))
    except (DemoError, ExceptionGroup) as error:
        print(repr(error), f"see {folder}", sep="\n", file=sys.stderr)
        return 1
    table = page.table(bench.events, damage)
    print(table)
    for hurt in damage:
        for failure in hurt.failed[:SHOWN]:
            print(failure)
    failed = sum(len(hurt.failed) for hurt in damage)
    if flags.naive:
        print(f"{failed} requests failed: the script sees an outage where there is one")
        return 0 if failed else 1
    print(*bench.troubles, sep="\n")
    print(f"{failed} requests failed; logs in {folder}")
    if flags.page is not None and not failed and not bench.troubles:
        page.put(flags.page, table)
    return int(bool((failed and not flags.race) or bench.troubles))


if __name__ == "__main__":
    sys.exit(main())
