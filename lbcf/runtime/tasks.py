"""What is done with asyncio's tasks by whoever began them."""

import asyncio

from collections.abc import Iterable
from typing import Any


async def end_tasks(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    """Cancel tasks, and wait until they have ended, however they do."""
    ending = tuple(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


def note_error(task: "asyncio.Task[Any]") -> None:
    """Take a task's error as noticed, though nobody may wait for it any more."""
    if not task.cancelled():
        task.exception()
