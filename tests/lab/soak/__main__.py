"""The soak: `python -m tests.lab.soak --seconds 600`.

Prints what it does about every ten seconds, a summary, and one JSON object as the last
line. Exit status 1: something was leaked, wrongly removed, sent to the dead, or did not
come to rest. With `--served`, the share of the time in which ready pods were in the load
balancer; with `--served --trouble`, while calls fail and processes are killed.
"""

import argparse
import asyncio
import json
import os
import random
import secrets
import shutil
import sys
import tempfile

from pathlib import Path

from tests.lab.cluster import Cluster
from tests.lab.cluster.fixtures import running
from tests.lab.demo.ground import ROOT, Ground
from tests.lab.soak.run import Result, soak
from tests.lab.soak.served import measure
from tests.manifests.documents import CRDS


ROLES = ("controller", "deregistrar")


def ground_of(cluster: Cluster, folder: Path) -> Ground:
    """Say where everything runs."""
    return Ground(
        folder=folder,
        root=ROOT,
        environment={**os.environ, **cluster.environment()},
        entry=(),
        kubeconfigs={role: cluster.kubeconfig_for(f"soak-{role}") for role in ROLES},
        nodes=(),
        audit_log=cluster.audit_log,
        foreign=False,
    )


def tell(result: Result) -> None:
    """Write the summary for people."""
    for line in result.wrong:
        print(f"WRONG  {line}")
    for name, figure in result.figures.items():
        print(f"{name:>24}  {figure}")


async def _soak(
    cluster: Cluster, folder: Path, seed: int, seconds: float, rate: float
) -> Result:
    chance = random.Random(seed)  # noqa: S311 - one that can be drawn again
    return await soak(ground_of(cluster, folder), cluster, chance, seconds, rate)


def main() -> int:
    """Read the command line and run; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tests.lab.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=150, help="requests per second")
    parser.add_argument("--seed", type=int, default=None, help="default: a new one")
    parser.add_argument("--served", action="store_true", help="measure that share")
    parser.add_argument("--trouble", action="store_true", help="with it: calls fail")
    flags = parser.parse_args()
    seed = secrets.randbelow(10**6) if flags.seed is None else flags.seed
    print(f"seed {seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="lbcf-soak-", dir="/tmp"))
    with running(0) as cluster:
        cluster.kubectl("apply", "-f", CRDS)
        established = ("wait", "--for=condition=Established", "--timeout=30s")
        cluster.kubectl(*established, "-f", CRDS)
        result = asyncio.run(
            measure(cluster, folder, seed, flags.seconds, trouble=flags.trouble)
            if flags.served
            else _soak(cluster, folder, seed, flags.seconds, flags.rate)
        )
    tell(result)
    if result.wrong:
        print(f"logs: {folder}")
    else:
        shutil.rmtree(folder)
    ok = not result.wrong
    print(json.dumps({"ok": ok, "seed": seed, **result.figures}), flush=True)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
