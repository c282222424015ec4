"""Many runs with faults: `python -m tests.lab.faults --runs 200 --seed 1`.

It starts a control plane of its own and lives through that many plans, several side by
side. Each run is a line; the last line is JSON. Exit status 1: a promise was broken.
"""

import argparse
import asyncio
import json
import secrets
import shutil
import sys
import tempfile
import time

from pathlib import Path

from lbcf.runtime import logs
from tests.lab.faults.campaign import run_all, summary
from tests.lab.faults.plans import plans
from tests.lab.faults.stage import told_cluster


SIDE_BY_SIDE = 4


def main() -> int:
    """Read the command line and run; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tests.lab.faults", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one")
    parser.add_argument("--side-by-side", type=int, default=SIDE_BY_SIDE)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of runs")
    flags = parser.parse_args()
    seed = secrets.randbelow(10**6) if flags.seed is None else flags.seed
    print(f"seed {seed}", flush=True)
    logs.configure("warning", "console")
    numbers = range(flags.runs) if flags.only is None else flags.only
    chosen = [plan for plan in plans(seed, flags.runs) if plan.number in numbers]
    folder = Path(tempfile.mkdtemp(prefix="lbcf-faults-", dir="/tmp"))
    began = time.monotonic()
    with told_cluster() as cluster:
        reports = asyncio.run(run_all(chosen, cluster, folder, flags.side_by_side))
    result = summary(reports, seed, time.monotonic() - began)
    if result["ok"]:
        shutil.rmtree(folder)
    else:
        print(f"logs: {folder}", flush=True)
    print(json.dumps(result), flush=True)
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
