"""A small sample of faults on the real API server; `make faults` takes a large one."""

import os

from pathlib import Path

import pytest

from tests.lab.cluster import Cluster
from tests.lab.faults.campaign import run_all, summary
from tests.lab.faults.plans import plans


RUNS = 12
SIDE_BY_SIDE = 6
SEED = 286
"""With it the twelve are of every kind, and the paused leader, which takes longest, is
the first."""


@pytest.mark.cluster
@pytest.mark.long
async def test_sampled_faults_break_no_promise(told: Cluster, tmp_path: Path) -> None:
    """Whatever goes wrong: written before done, no leak, no wrong removal, at rest.

    And each step of each run is one that the model allows.
    """
    seed = int(os.environ.get("LBCF_FAULTS_SEED", SEED))

    reports = await run_all(list(plans(seed, RUNS)), told, tmp_path, SIDE_BY_SIDE)

    print(summary(reports, seed, 0.0))
    assert sum(report.hit for report in reports) > RUNS // 2
    broken = [f"{r.plan}: {v}" for r in reports for v in r.violations]
    assert not broken, "\n".join(broken)
