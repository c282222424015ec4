"""Measures shards: what each holds and reads, and how soon a killed one's work goes on."""

import argparse
import asyncio
import logging
import shutil
import statistics
import sys
import tempfile

from pathlib import Path

import structlog

from tests.lab.cluster import Cluster
from tests.lab.cluster.fixtures import running
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


def tell(what: str, division: Division) -> bool:
    """Print what each holds and has read; return whether it is little enough."""
    whole, parts = division.whole, division.parts
    say(f"{what}: one process {_told(whole)}")
    for number, part in enumerate(parts):
        say(f"  shard {number}: {_told(part)}")
    say(
        f"  most: {division.most_memory:.1%} of the memory, {division.most_read:.1%} of the bytes"
    )
    return division.most_read <= MOST


def _load() -> str:
    return Path("/proc/loadavg").read_text().split()[0]


def _told(one: Load) -> str:
    return f"{one.resident / MIB:.1f} MiB, {one.read / MIB:.1f} MiB read"


async def _fill(ground: Ground, count: int) -> None:
    """Have everything registered by shards, so that records have their labels."""
    replicas = [Replicas(ground, role, count) for role in ROLES]
    for one in replicas:
        await one.start()
    began = asyncio.get_running_loop().time()
    await ground.fill()
    await ground.until_registered()
    seconds = asyncio.get_running_loop().time() - began
    say(
        f"{ground.count} records in {len(ground.addresses)} namespaces: registered in {seconds:.0f} s"
    )
    for one in replicas:
        await one.end()


async def _bears(ground: Ground, count: int) -> dict[str, tuple[Load, ...]]:
    """Return what processes bear when they have read everything, and what changes bring.

    Of several the last is the standby's.
    """
    found: dict[str, tuple[Load, ...]] = {}
    replicas = [Replicas(ground, role, count) for role in ROLES]
    for one in replicas:
        await one.start()
    await asyncio.sleep(_SETTLED)
    for one in replicas:
        found[one.role] = _loads(one)
    await ground.touch(TOUCHED)
    await asyncio.sleep(_SETTLED)
    for one in replicas:
        now = _loads(one)
        paired = zip(now, found[one.role], strict=True)
        found[f"{one.role}, changes"] = tuple(a.beyond(b) for a, b in paired)
    for one in replicas:
        await one.end()
    return found


def _loads(replicas: Replicas) -> tuple[Load, ...]:
    standby = (replicas.standby(),) if replicas.count > 1 else ()
    return (*replicas.loads(), *standby)


async def sizes(ground: Ground, count: int) -> bool:
    """Measure what shards hold and read; return whether it is little enough."""
    divided, whole = await _bears(ground, count), await _bears(ground, 1)
    is_well = True
    for role in ROLES:
        *parts, base = divided[role]
        say(f"{role}: the standby has {_told(base)}, which is left out of what follows")
        read = Division(
            whole[role][0].beyond(base), tuple(part.beyond(base) for part in parts)
        )
        is_well &= tell(f"{role}, started", read)
        if role == "controller":
            is_well &= read.most_memory <= MOST
        name = f"{role}, changes"
        *changed, idle = divided[name]
        one = whole[name][0].beyond(idle)
        told = Division(one, tuple(part.beyond(idle) for part in changed))
        say(
            f"{name} of {TOUCHED:.0%} of all records: most {told.most_read:.1%} of the bytes"
        )
        is_well &= told.most_read <= MOST
    return is_well


async def ends(ground: Ground, count: int, times: int) -> bool:
    """Measure kills and quiet hand-overs; return whether all is well."""
    is_well = True
    replicas = [Replicas(ground, role, count) for role in ROLES]
    for one in replicas:
        await one.start()
    await ground.until_registered()
    before = ground.driver.calls
    for one in replicas:
        for shard in range(count):
            await one.hand_over(shard)
    await ground.until_registered()
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
        await _fill(ground, flags.shards)
        is_well = await sizes(ground, flags.shards)
        return await ends(ground, flags.shards, flags.kills) and is_well


def main() -> int:
    """Read the command line and run; 0 where all is well."""
    parser = argparse.ArgumentParser(prog="tests.lab.shards", description=__doc__)
    add = parser.add_argument
    add("--records", type=int, default=10_000)
    add("--namespaces", type=int, default=100)
    add("--shards", type=int, default=4)
    add("--kills", type=int, default=8, help="of leaders of each role")
    flags = parser.parse_args()
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)
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
