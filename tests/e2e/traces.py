"""What the processes of a test did is held against the model, step by step.

The API server's audit log has what they asked for and wrote, the in-memory driver notes
what it was called for (`tests.lab.traced.recording`).
"""

import asyncio
import json

from datetime import UTC, datetime

from tests.e2e.stage import Stage
from tests.lab.model.tape import Json
from tests.lab.traced.audit import requests, second
from tests.lab.traced.judge import Verdict, judge, told
from tests.lab.traced.marks import until_logged
from tests.lab.traced.recording import recorded
from tests.lab.traced.tape import a_tape


TAPE = "tape.json"
"""All that was judged, in the test's folder."""


async def taken(stage: Stage) -> Json:
    """Take the tape of what was done by now."""
    await until_logged(stage.client, stage.cluster.audit_log, stage.namespace)
    return await asyncio.to_thread(_tape, stage)


def _tape(stage: Stage) -> Json:
    """Put the tape together; what a test tidies up after its processes is left out."""
    log, namespaces = stage.cluster.audit_log, sorted(stage.namespaces)
    asked = list(requests(log, stage.log_began, namespaces))
    runs = [run for process in stage.started for run in process.named()]
    ends = [
        second(datetime.now(UTC)) if run.ended is None else run.ended for run in runs
    ]
    return a_tape(asked, recorded(stage.called), runs, max(ends, default=0.0))


async def follow(stage: Stage) -> Verdict:
    """Judge the tape of a test whose processes have ended, and keep it.

    Raises:
        AssertionError: a step is refused, or records lived and there is no step.
    """
    tape = await taken(stage)
    path = stage.folder / TAPE
    path.write_text(json.dumps(tape))
    verdict = await asyncio.to_thread(judge, tape)
    again = f"again: python -m tests.lab.traced {path}"
    assert verdict.refusal is None, f"{told(verdict)}\n{again}"
    assert verdict.steps or not _lived(stage), "records lived, and nothing was followed"
    return verdict


def _lived(stage: Stage) -> bool:
    """Whether the audit log tells of a record that was created."""
    wanted = b'"verb":"create"', b'"resource":"backendrecords"', b'"code":201'
    named = [f'"namespace":"{name}"'.encode() for name in stage.namespaces]
    with stage.cluster.audit_log.open("rb") as log:
        log.seek(stage.log_began)
        lines = log.read().splitlines()
    created = [line for line in lines if all(part in line for part in wanted)]
    return any(name in line for line in created for name in named)
