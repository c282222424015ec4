"""The tape of a run: what the API server and the driver saw of it, for the model.

Each is kept in the run's folder; `python -m tests.lab.traced FILE` judges it again.
"""

import asyncio
import json

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import attrs

from lbcf.core.model.values import ObjectKey
from tests.lab.faults.oracle import Violation
from tests.lab.faults.stage import LOOK, NAMESPACES, Stage
from tests.lab.model.tape import Json
from tests.lab.traced.audit import requests, second
from tests.lab.traced.judge import judge, told
from tests.lab.traced.tape import a_tape


NAME = "tape.json"
_PATIENCE = 30.0


@attrs.frozen
class Followed:
    """What the model said of a run.

    Attributes:
        steps: that were judged.
        violations: at most one.
    """

    steps: int
    violations: Sequence[Violation]


async def taken(stage: Stage) -> Json:
    """Take the tape of what a run has done by now.

    Raises:
        ValueError: the audit log has no bodies.
    """
    if not stage.cluster.plan.options.audit_bodies:
        raise ValueError("the cluster must be started with Options(audit_bodies=True)")
    until = second(datetime.now(UTC))
    await _logged(stage)
    path, log_began = stage.cluster.audit_log, stage.log_began
    asked = await asyncio.to_thread(
        lambda: list(requests(path, log_began, [stage.namespace]))
    )
    runs = [run for one, _ in stage.replicas for run in one.runs.named(one.role)]
    return a_tape(asked, stage.calls.all, runs, until)


async def _logged(stage: Stage) -> None:
    """Wait until the audit log has a request that is made now, and what came before."""
    size = stage.cluster.audit_log.stat().st_size
    marked = {"metadata": {"annotations": {"tape": "taken"}}}
    await stage.client.patch(NAMESPACES, ObjectKey("", stage.namespace), marked)
    async with asyncio.timeout(_PATIENCE):
        while not _is_logged(stage, size):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(LOOK)


def _is_logged(stage: Stage, since: int) -> bool:
    """Whether the audit log tells from a place on that the namespace was changed."""
    with stage.cluster.audit_log.open("rb") as log:
        log.seek(since)
        lines = log.read().splitlines()
    wanted = b'"verb":"patch"', f'"name":"{stage.namespace}"'.encode()
    return any(all(part in line for part in wanted) for line in lines)


def follow(tape: Json, folder: Path) -> Followed:
    """Hold a tape against the model, and keep it."""
    path = folder / NAME
    path.write_text(json.dumps(tape))
    verdict = judge(tape)
    if verdict.refusal is None:
        return Followed(verdict.steps, [])
    text = f"{told(verdict)}\n  again: python -m tests.lab.traced {path}"
    return Followed(verdict.steps, [Violation("model", text)])
