"""What the processes of a stage tell of themselves: metrics and Events."""

import aiohttp

from tests.e2e import objects
from tests.e2e.stage import Process, Stage


def metrics_address(process: Process) -> str:
    """Where a process serves its metrics."""
    return process.argv[process.argv.index("--metrics-bind-address") + 1]


async def metrics_of(stage: Stage, process: str) -> str:
    """The page of a process."""
    address = metrics_address(stage.processes[process])
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{address}/metrics") as answer,
    ):
        return await answer.text()


async def has_event(stage: Stage, reason: str) -> bool:
    """Whether there is an Event with a reason."""
    events = await stage.listed(objects.EVENTS)
    return any(event.body["reason"] == reason for event in events)
