"""Ends leaders again and again, and prints how soon others went on."""

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile

from collections.abc import Sequence
from pathlib import Path

from tests.lab.cluster import Cluster
from tests.lab.cluster.fixtures import running
from tests.lab.failover.rounds import STAGES, How, Replicas, Round
from tests.lab.failover.scene import ROLES, put_up
from tests.lab.quiet import log_warnings_only


LIMITS = {How.STANDBY: 5.0, How.IN_PLACE: 2.0, How.POWER_OFF: 8.0}
"""Seconds from a pod's deletion to the first call of the driver for it, at the 99th percentile."""
TIMES = {How.STANDBY: 20, How.IN_PLACE: 20, How.POWER_OFF: 10}


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the middle and the 99th percentile."""
    if len(seconds) == 1:
        return seconds[0], seconds[0]
    found = statistics.quantiles(seconds, n=100, method="inclusive")
    return found[49], found[98]


def tell(role: str, how: How, rounds: Sequence[Round]) -> bool:
    """Print what came of it; return whether it is soon enough."""
    p50, p99 = percentiles([one.called for one in rounds])
    most = max(one.called for one in rounds)
    load = Path("/proc/loadavg").read_text().split()[0]
    print(f"{role} {how}, {len(rounds)} times, load {load}:")
    print(f"  first call: p50 {p50:.2f} s, p99 {p99:.2f} s, most {most:.2f} s")
    for stage in STAGES:
        if times := [one.stages[stage] for one in rounds if stage in one.stages]:
            print(f"  {stage}: p50 {statistics.median(times):.2f} s")
    if how is How.IN_PLACE:
        cpu = statistics.median(one.cpu for one in rounds)
        waited = statistics.median(one.waited for one in rounds)
        print(f"  of that computed: {cpu:.2f} s, waited for a core: {waited:.2f} s")
    sys.stdout.flush()
    return p99 <= LIMITS[how]


async def measure(cluster: Cluster, folder: Path, flags: argparse.Namespace) -> bool:
    """Measure what was asked for; return whether all was soon enough."""
    ways = [how for how in How if how.name.lower() in flags.only]
    times = {how: flags.times or TIMES[how] for how in ways}
    pods = sum(times.values()) * len(ROLES)
    is_well = True
    async with put_up(cluster, folder, flags.records, pods) as scene:
        for how in ways:
            replicas = Replicas(scene, how)
            await replicas.begin()
            for role in ROLES:
                rounds = [one async for one in replicas.rounds(role, times[how])]
                is_well &= tell(role, how, rounds)
    return is_well


def main() -> int:
    """Read the command line and run; 0 where all is soon enough."""
    parser = argparse.ArgumentParser(prog="tests.lab.failover", description=__doc__)
    add = parser.add_argument
    add("--records", type=int, default=2000, help="that are registered")
    add("--times", type=int, help="that each leader is ended in each way")
    known = [how.name.lower() for how in How]
    add("--only", nargs="+", choices=known, default=known)
    flags = parser.parse_args()
    log_warnings_only()
    folder = Path(tempfile.mkdtemp(prefix="lbcf-failover-", dir="/tmp"))
    with running(0) as cluster:
        is_well = asyncio.run(measure(cluster, folder, flags))
    if is_well:
        shutil.rmtree(folder)
    else:
        print(f"logs: {folder}")
    return int(not is_well)


if __name__ == "__main__":
    sys.exit(main())
