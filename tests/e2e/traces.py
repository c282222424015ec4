"""What the processes of a test did is held against the model, step by step.

The API server's audit log has what they asked for and wrote, drivers note what they were
called for (`tests.lab.traced.recording`).
"""

import asyncio
import contextlib
import json

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.e2e.left_out import why_left_out
from tests.e2e.stage import Stage, staged
from tests.lab.cluster import Cluster
from tests.lab.cluster.audit import lines
from tests.lab.model.tape import Json
from tests.lab.traced.audit import requests
from tests.lab.traced.judge import Verdict, judge, told
from tests.lab.traced.marks import until_logged
from tests.lab.traced.moments import second
from tests.lab.traced.recording import recorded
from tests.lab.traced.tape import OURS, a_tape, strangers


TAPE = "tape.json"
"""All that was judged, in the test's folder."""


@contextlib.asynccontextmanager
async def followed(
    cluster: Cluster, namespace: str, folder: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Stage]:
    """Give a test a stage; judge what its processes did, when they have been killed.

    How many steps that were is a property of the test in its report.
    """
    async with staged(cluster, namespace, folder) as stage:
        yield stage
        await stage.halt()
        if not why_left_out(request.path.stem, request.node.name):
            verdict = await follow(stage)
            request.node.user_properties.append(("steps", verdict.steps))


async def taken(stage: Stage) -> Json:
    """Take the tape of what was done by now."""
    await until_logged(stage.client, stage.cluster.audit_log, stage.namespace)
    return await asyncio.to_thread(_tape, stage)


def _tape(stage: Stage) -> Json:
    """Put the tape together.

    What a test tidies up after its processes is left out, and what it asks the driver for
    itself.
    """
    log, namespaces = stage.cluster.audit_log, sorted(stage.namespaces)
    asked = list(requests(log, stage.log_began, namespaces))
    runs = [run for process in stage.started for run in process.named()]
    calls = [call for call in recorded(stage.called) if call.agent.startswith(OURS)]
    assert not (unknown := strangers(asked, calls, runs)), f"not known: {unknown}"
    ends = [
        second(datetime.now(UTC)) if run.ended is None else run.ended for run in runs
    ]
    return a_tape(asked, calls, runs, max(ends, default=0.0))


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
    log = lines(stage.cluster.audit_log, stage.log_began)
    created = (line for line in log if all(part in line for part in wanted))
    return any(name in line for line in created for name in named)
