"""The tape of a run: what the API server and the driver saw of it, for the model.

Each is kept in the run's folder; `python -m tests.lab.traced FILE` judges it again.
"""

import asyncio
import json

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import attrs

from tests.lab.faults.oracle import Violation
from tests.lab.faults.stage import Stage
from tests.lab.model.tape import Json
from tests.lab.traced.audit import requests
from tests.lab.traced.judge import judge, told
from tests.lab.traced.marks import until_logged
from tests.lab.traced.moments import second
from tests.lab.traced.tape import a_tape


NAME = "tape.json"


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
    path, log_began = stage.cluster.audit_log, stage.log_began
    await until_logged(stage.client, path, stage.namespace)
    asked = await asyncio.to_thread(
        lambda: list(requests(path, log_began, [stage.namespace]))
    )
    runs = [run for one, _ in stage.replicas for run in one.runs.named(one.role)]
    return a_tape(asked, stage.calls.all, runs, until)


def follow(tape: Json, folder: Path) -> Followed:
    """Hold a tape against the model, and keep it."""
    path = folder / NAME
    path.write_text(json.dumps(tape))
    verdict = judge(tape)
    if verdict.refusal is None:
        return Followed(verdict.steps, [])
    text = f"{told(verdict)}\n  again: python -m tests.lab.traced {path}"
    return Followed(verdict.steps, [Violation("model", text)])
