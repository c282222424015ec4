"""What a real run did is what the model does; with one step elsewhere it is not."""

import asyncio

from collections.abc import Mapping
from pathlib import Path

import pytest

from lbcf.core.model.names import ANNOTATION_ABANDON
from lbcf.kube.client import connected
from lbcf.kube.connection import connect
from lbcf.runtime.clock import SystemClock
from tests.e2e import objects
from tests.lab.cluster import Cluster
from tests.lab.faults.oracle import Violation
from tests.lab.faults.plans import Kind, Plan
from tests.lab.faults.scenario import C, script
from tests.lab.faults.stage import LOOK, Stage, staged
from tests.lab.faults.taping import follow, taken
from tests.lab.traced.corruptions import ALL, see_refused, steps_of
from tests.patience import PATIENCE


E = "10.0.0.4"
"""Of the pod that lives alone: no other one has it."""

QUIET = Plan(
    number=0,
    kind=Kind.FAILPOINT,
    role="controller",
    at=0.0,
    seconds=0.0,
    times=0,
    by_record=False,
    latency=0.1,
)
"""Nothing goes wrong."""


@pytest.mark.cluster
async def test_real_run_is_followed(told: Cluster, tmp_path: Path) -> None:
    """Its tape is allowed, and refused at the step that is put elsewhere."""
    connection = await connect(str(told.kubeconfig))
    async with (
        connected(connection, SystemClock()) as client,
        staged(QUIET, told, client, tmp_path) as stage,
    ):
        rest = await script(stage, PATIENCE)
        wrong = [*await stage.until_rest(rest, PATIENCE), *await _live(stage, rest)]
        await _let_go(stage, f"{C}:80")
        tape = await taken(stage)
    followed = follow(tape, tmp_path)

    assert [] == [*wrong, *followed.violations]
    assert followed.steps == len(steps_of(tape)) > 20
    for corrupted, why in ALL:
        see_refused(tape, corrupted, why)


async def _live(stage: Stage, rest: Mapping[str, Mapping[str, str]]) -> list[Violation]:
    """Let one pod live alone: with no other step beside its own, its life is whole.

    In the script, steps of one life overlap on a slow machine: a deregister that is sent before
    an ensure has been answered is repeated, for example.

    Args:
        stage: where.
        rest: the parameters of the members that stay, by address.
    """
    await stage.add_pod("e", E)
    there = {**rest, f"{E}:80": rest[f"{C}:80"]}
    wrong = await stage.until_rest(there, PATIENCE)
    await stage.delete_pod("e")
    return [*wrong, *await stage.until_rest(rest, PATIENCE)]


async def _let_go(stage: Stage, address: str) -> None:
    """Say why the record of an address is to go without its driver, and delete its pod."""
    record = next(r for r in await stage.records() if r.address == address)
    why = {"metadata": {"annotations": {ANNOTATION_ABANDON: "a test"}}}
    await stage.client.patch(objects.RECORDS, stage.key(record.name), why)
    await stage.delete_pod("c")
    async with asyncio.timeout(PATIENCE):
        while address in [r.address for r in await stage.records()]:  # noqa: ASYNC110
            await asyncio.sleep(LOOK)
