"""The campaign: `python -m tests.lab.specs --transitions 10000`.

It starts a control plane of its own. Every failure is printed, and written to a file
that `--replay` plays again; the last line is JSON. Exit status 1: an oracle failed.
SIGINT ends it early, with the figures so far.
"""

import argparse
import asyncio
import contextlib
import json
import secrets
import sys
import tempfile
import time

from pathlib import Path

from lbcf.kube.kinds import RECORDS
from lbcf.runtime import logs
from tests.e2e.stage import staged
from tests.lab.cluster import Cluster
from tests.lab.cluster.fixtures import running
from tests.lab.specs.campaign import Campaign, Tally
from tests.lab.specs.chains import Chain, chains, of_json, to_json
from tests.lab.specs.stage import prepared
from tests.manifests.documents import CRDS, POLICIES
from tests.patience import PATIENCE


SHRUNK = 5
"""So many failures are shrunk at most."""
_SPARE = 1.5
"""Steps that are drawn for each transition: some change nothing."""


async def _run(
    cluster: Cluster,
    folder: Path,
    chosen: list[Chain],
    flags: argparse.Namespace,
    tally: Tally,
) -> None:
    """Play chains, then shrink what failed."""
    cluster.kubectl("create", "namespace", "specs")
    async with staged(cluster, "specs", folder) as stage, prepared(stage) as world:
        campaign = Campaign(
            world,
            tally,
            tells=bool(flags.replay),
            kills=flags.kills,
            seconds=flags.seconds,
            transitions=flags.transitions,
        )
        await campaign.run(chosen, flags.side_by_side)
        for number, failure in enumerate(campaign.tally.failures):
            least = failure
            if number < SHRUNK and failure.chain.steps and not flags.replay:
                least = await campaign.shrunk(failure)
            path = folder / f"least-{number + 1}.json"
            path.write_text(json.dumps(to_json(least.chain)))
            print(
                f"{failure.oracle} of {least.chain.scenario} --replay {path}",
                flush=True,
            )
            for step in least.chain.steps:
                print(f"      {str(step)[:300]}", flush=True)
            for line in least.told[:5]:
                print(f"    {line[:1500]}", flush=True)


def _await_collector(cluster: Cluster) -> None:
    """Wait until the garbage collector knows our kinds: it looks for new ones by period.

    Until then the records of a deleted group stay, and all is at rest.
    """
    made = {"apiVersion": RECORDS.api_version, "kind": "BackendRecord"}
    gone = {"kind": "BackendGroup", "name": "gone", "uid": "gone"}
    owners = [{**gone, "apiVersion": RECORDS.api_version}]
    spec = {"lbName": "none", "lbDriver": "none", "staticAddr": "192.0.2.1:80"}
    record = {**made, "metadata": {"name": "owned", "ownerReferences": owners}}
    told = json.dumps({**record, "spec": spec})
    cluster.kubectl("create", "-f", "-", stdin=told)
    wait = ("wait", "--for=delete", "br/owned", f"--timeout={PATIENCE:.0f}s")
    cluster.kubectl(*wait)


def main() -> int:
    """Read the command line and run; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tests.lab.specs", description=__doc__)
    parser.add_argument("--transitions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one")
    parser.add_argument("--side-by-side", type=int, default=24, help="chains at a time")
    parser.add_argument("--seconds", type=float, default=3600, help="at most, about")
    parser.add_argument("--kills", type=float, default=0, help="seconds between two")
    parser.add_argument("--replay", type=Path, nargs="*", help="files of failures")
    flags = parser.parse_args()
    seed = secrets.randbelow(10**6) if flags.seed is None else flags.seed
    print(f"seed {seed}", flush=True)
    logs.configure("error", "console")
    chosen = [of_json(json.loads(path.read_text())) for path in flags.replay or ()]
    chosen = chosen or list(chains(seed, round(_SPARE * flags.transitions)))
    folder = Path(tempfile.mkdtemp(prefix="lbcf-specs-", dir="/tmp"))
    began, tally = time.monotonic(), Tally()
    with running(0) as cluster:
        for kinds in (CRDS, POLICIES):
            cluster.kubectl("apply", "-f", kinds)
        cluster.kubectl("wait", "--for=condition=Established", "-f", CRDS)
        _await_collector(cluster)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_run(cluster, folder, chosen, flags, tally))
    print(f"logs: {folder}")
    result = {
        "ok": not tally.failures,
        "seed": seed,
        "transitions": tally.transitions,
        "refused": tally.refused,
        "chains": tally.chains,
        "looked": dict(tally.looked),
        "failed": len(tally.failures),
        "slowest_rest_s": round(tally.slowest, 1),
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(result), flush=True)
    return 0 if not tally.failures else 1


if __name__ == "__main__":
    sys.exit(main())
