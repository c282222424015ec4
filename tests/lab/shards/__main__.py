"""Measures shards: what each holds and reads, and how soon a killed one's work goes on."""

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import tempfile

from pathlib import Path

import attrs

from images.table import ALLOCATOR
from tests.lab.cluster import Cluster
from tests.lab.cluster.fixtures import running
from tests.lab.quiet import log_warnings_only
from tests.lab.shards.ground import Ground, put_up
from tests.lab.shards.meters import MIB, Division, Load
from tests.lab.shards.replicas import Replicas


ROLES = ("controller", "deregistrar")
TOUCHED = 0.2
MOST = 0.30
"""Of the memory, and of the bytes, of one process with everything."""
WITHIN = 8.0
"""Seconds from the kill of a leader to the first call for an address of its that goes."""
_SETTLED = 5.0


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


def tell(division: Division) -> None:
    """Print what each holds and has read."""
    whole, parts = division.whole, division.parts
    say(f"  one process {_told(whole)}")
    for number, part in enumerate(parts):
        say(f"  shard {number}: {_told(part)}")
    say(
        f"  most: {division.most_memory:.1%} of the memory, {division.most_read:.1%} of the bytes"
    )


def _load() -> str:
    return Path("/proc/loadavg").read_text().split()[0]


def _told(one: Load) -> str:
    return f"{one.resident / MIB:.1f} MiB, {one.read / MIB:.1f} MiB read"


async def _fill(ground: Ground, count: int) -> dict[str, Load]:
    """Have all records there, as shards leave them when they are registered.

    Returns:
        What a leader of each role bears that has next to nothing to do.
    """
    replicas = [Replicas(ground, role, count) for role in ROLES]
    for one in replicas:
        await one.start()
    await ground.make_sample()
    await ground.until_quiet()
    idle = {one.role: min(one.loads(), key=_resident) for one in replicas}
    for one in replicas:
        await one.end()
    await ground.fill()
    say(f"{ground.count} records in {len(ground.namespaces)} namespaces")
    return idle


def _resident(one: Load) -> int:
    return one.resident


@attrs.frozen
class Borne:
    """What the leaders of a role bear, in the order of their shards.

    Attributes:
        started: when they have read everything.
        changes: more, for the changes of a part of all records.
    """

    started: tuple[Load, ...]
    changes: tuple[Load, ...]


async def _borne(ground: Ground, count: int) -> dict[str, Borne]:
    """Measure both roles with so many shards."""
    replicas = [Replicas(ground, role, count) for role in ROLES]
    for one in replicas:
        await one.start()
    await asyncio.sleep(_SETTLED)
    started = {one.role: one.loads() for one in replicas}
    await ground.touch(TOUCHED)
    await asyncio.sleep(_SETTLED)
    found = {}
    for one in replicas:
        paired = zip(one.loads(), started[one.role], strict=True)
        changes = tuple(now.beyond(before) for now, before in paired)
        found[one.role] = Borne(started[one.role], changes)
    for one in replicas:
        await one.end()
    return found


async def sizes(ground: Ground, count: int, idle: dict[str, Load]) -> bool:
    """Measure what shards hold and read; return whether it is little enough."""
    divided, whole = await _borne(ground, count), await _borne(ground, 1)
    is_well = True
    for role, base in idle.items():
        say(f"{role}: with nothing to do {_told(base)}, left out of what follows")
        parts = tuple(part.beyond(base) for part in divided[role].started)
        started = Division(whole[role].started[0].beyond(base), parts)
        changes = Division(whole[role].changes[0], divided[role].changes)
        tell(started)
        say(
            f"  changes of {TOUCHED:.0%} of all records: "
            f"{_told(changes.whole)}, most {changes.most_read:.1%} of the bytes"
        )
        most = (started.most_memory, started.most_read, changes.most_read)
        is_well &= max(most) <= MOST
    return is_well


async def ends(ground: Ground, count: int, times: int) -> bool:
    """Measure kills and quiet hand-overs; return whether all is well."""
    is_well = True
    replicas = [Replicas(ground, role, count) for role in ROLES]
    for one in replicas:
        await one.start()
    await ground.until_quiet()
    before = ground.driver.calls
    for one in replicas:
        for shard in range(count):
            await one.hand_over(shard)
    await ground.until_quiet()
    twice = ground.driver.calls - before
    say(f"each leader ended by SIGTERM, nothing to do: {twice} calls")
    for one in replicas:
        took = [await one.kill(number % count) for number in range(times)]
        say(
            f"{one.role} killed {times} times: first call after p50 {statistics.median(took):.2f} s, "
            f"most {max(took):.2f} s (load {_load()})"
        )
        is_well &= max(took) <= WITHIN
    return is_well and not twice


async def measure(cluster: Cluster, folder: Path, flags: argparse.Namespace) -> bool:
    """Measure all; return whether all is well."""
    async with put_up(cluster, folder, flags.records, flags.namespaces) as ground:
        idle = await _fill(ground, flags.shards)
        is_well = await sizes(ground, flags.shards, idle)
        if flags.kills:
            is_well &= await ends(ground, flags.shards, flags.kills)
        return is_well


def main() -> int:
    """Read the command line and run; 0 where all is well."""
    parser = argparse.ArgumentParser(prog="tests.lab.shards", description=__doc__)
    add = parser.add_argument
    add("--records", type=int, default=50_000)
    add("--namespaces", type=int, default=200)
    add("--shards", type=int, default=4)
    add("--kills", type=int, default=8, help="of leaders of each role; 0: sizes alone")
    flags = parser.parse_args()
    log_warnings_only()
    os.environ.update(ALLOCATOR)  # of whoever is started, as in a container
    folder = Path(tempfile.mkdtemp(prefix="lbcf-shards-", dir="/tmp"))
    with running(0) as cluster:
        is_well = asyncio.run(measure(cluster, folder, flags))
    if is_well:
        shutil.rmtree(folder)
    else:
        say(f"logs: {folder}")
    return int(not is_well)


if __name__ == "__main__":
    sys.exit(main())
