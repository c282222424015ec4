"""Many runs side by side, and what came of them all.

Each run has a namespace of its own, so that one control plane is enough.
"""

import asyncio

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from lbcf.kube.client import connected
from lbcf.kube.connection import connect
from lbcf.runtime.clock import SystemClock
from tests.lab.cluster import Cluster
from tests.lab.faults.plans import Kind, Plan
from tests.lab.faults.scenario import Report, run


async def run_all(
    chosen: Sequence[Plan], cluster: Cluster, folder: Path, side_by_side: int
) -> list[Report]:
    """Live through all plans, so many at a time."""
    places = asyncio.Semaphore(side_by_side)
    connection = await connect(str(cluster.kubeconfig))
    async with connected(connection, SystemClock(), user_agent="faults") as client:

        async def one(plan: Plan) -> Report:
            """Live through one, and tell."""
            async with places:
                own = folder / str(plan.number)
                own.mkdir(parents=True)
                report = await run(plan, cluster, client, own)
            tell(report)
            return report

        return list(await asyncio.gather(*(one(plan) for plan in chosen)))


def tell(report: Report) -> None:
    """Write a line about a run, and one about each promise that it broke."""
    word = "BROKEN" if report.violations else "ok" if report.hit else "ok (not hit)"
    print(
        f"{word:12} {report.plan}; right after {report.converged:.1f} s, "
        f"{report.seconds:.1f} s in all, {report.steps} steps followed",
        flush=True,
    )
    for violation in report.violations:
        print(f"             {violation}", flush=True)


def summary(reports: Sequence[Report], seed: int, seconds: float) -> dict[str, object]:
    """Put the figures together."""
    converged = sorted(report.converged for report in reports)
    rules = Counter(v.rule for report in reports for v in report.violations)
    met = Counter(report.plan.kind.value for report in reports if report.hit)
    return {
        "ok": not rules,
        "seed": seed,
        "runs": len(reports),
        "hit": sum(met.values()),
        "hit_by_kind": {kind.value: met[kind.value] for kind in Kind},
        "violations": dict(rules),
        "steps_followed": sum(report.steps for report in reports),
        "converged_p50_s": round(converged[len(converged) // 2], 1),
        "converged_max_s": round(converged[-1], 1),
        "seconds": round(seconds, 1),
    }
