"""The soak: `python -m tests.lab.soak --seconds 600`.

Prints what it does about every ten seconds, a summary, and one JSON object as the last
line. Exit status 1: something was leaked, wrongly removed, sent to the dead, or did not
come to rest. With `--served`, the share of the time in which ready pods were in the load
balancer; with `--served --trouble`, while calls fail and processes are killed, with
`--virtual` in virtual time and without a cluster. With `--waves`, all pods blink at once,
are replaced at once, and roll as a StatefulSet does: for how long each is out. With
`--outage`, Deployments are rolled while our processes are away: 20 at a time, or as
`--deployments 1 --rounds 20` one, 20 times (half an hour).
"""

import asyncio
import json
import os
import random
import secrets
import shutil
import sys
import tempfile

from argparse import ArgumentParser, Namespace
from pathlib import Path

from tests.lab.cluster import Cluster
from tests.lab.cluster.fixtures import running
from tests.lab.demo.ground import ROOT, Ground
from tests.lab.soak import virtual, waves
from tests.lab.soak.outage import Plan, outage
from tests.lab.soak.run import Result, soak
from tests.lab.soak.served import measure
from tests.lab.sweep.pool import silenced
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


async def _run(cluster: Cluster, folder: Path, seed: int, flags: Namespace) -> Result:
    # Where the driver runs in this process, all that it would log are the calls.
    if flags.waves:
        with silenced():
            return await waves.measure(cluster, folder, seed)
    if flags.served:
        with silenced():
            return await measure(
                cluster, folder, seed, flags.seconds, trouble=flags.trouble
            )
    chance = random.Random(seed)  # noqa: S311 - one that can be drawn again
    ground = ground_of(cluster, folder)
    if flags.outage:
        plan = Plan(flags.deployments, flags.rounds, flags.away)
        return await outage(ground, cluster, chance, plan)
    return await soak(ground, cluster, chance, flags.seconds, flags.rate)


def _real(folder: Path, seed: int, flags: Namespace) -> Result:
    """Run on a cluster of its own."""
    with running(0) as cluster:
        cluster.kubectl("apply", "-f", CRDS)
        established = ("wait", "--for=condition=Established", "--timeout=30s")
        cluster.kubectl(*established, "-f", CRDS)
        return asyncio.run(_run(cluster, folder, seed, flags))


def _virtual(folder: Path, seed: int, flags: Namespace) -> Result:
    """Run in virtual time."""
    with silenced():
        return virtual.measure(folder, seed, flags.seconds, trouble=flags.trouble)


def main() -> int:
    """Read the command line and run; returns the exit status."""
    parser = ArgumentParser(prog="tests.lab.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=150, help="requests per second")
    parser.add_argument("--seed", type=int, default=None, help="default: a new one")
    parser.add_argument("--served", action="store_true", help="measure that share")
    parser.add_argument("--trouble", action="store_true", help="with it: calls fail")
    parser.add_argument("--virtual", action="store_true", help="with it: no cluster")
    parser.add_argument("--waves", action="store_true", help="all pods at once")
    parser.add_argument("--outage", action="store_true", help="have ours away")
    parser.add_argument("--away", type=float, default=60, help="with it: seconds")
    parser.add_argument("--deployments", type=int, default=20, help="rolled at a time")
    parser.add_argument("--rounds", type=int, default=1, help="outages in a row")
    flags = parser.parse_args()
    seed = secrets.randbelow(10**6) if flags.seed is None else flags.seed
    print(f"seed {seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="lbcf-soak-", dir="/tmp"))
    result = (
        _virtual(folder, seed, flags) if flags.virtual else _real(folder, seed, flags)
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
