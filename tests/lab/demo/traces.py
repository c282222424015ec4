"""What the demo's programs did is held against the model, step by step.

The API server's audit log has what they asked for and wrote, the driver notes what it was
called for (`tests.lab.traced.recording`).
"""

import asyncio
import json

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from tests.lab.demo.children import Supervised
from tests.lab.traced.audit import requests
from tests.lab.traced.judge import Verdict, judge
from tests.lab.traced.moments import second
from tests.lab.traced.recording import recorded
from tests.lab.traced.tape import a_tape


CALLS = "calls.jsonl"
"""What the driver was called for, in the run's folder."""
TAPE = "tape.json"
"""All that was judged, in the run's folder: `python -m tests.lab.traced` judges it again."""


async def followed(
    folder: Path,
    audit_log: Path,
    namespace: str,
    programs: Mapping[str, Supervised],
) -> Verdict:
    """Judge all that was done so far to the records of a namespace."""
    until = second(datetime.now(UTC))
    runs = [
        run
        for name, program in programs.items()
        if name != "driver"
        for run in program.runs.named(name.partition("-")[0])
    ]

    def judged() -> Verdict:
        asked = requests(audit_log, 0, [namespace])
        tape = a_tape(asked, recorded(folder / CALLS), runs, until)
        (folder / TAPE).write_text(json.dumps(tape))
        return judge(tape)

    return await asyncio.to_thread(judged)
